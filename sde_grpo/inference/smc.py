"""The SMC engine: four independent populations cooled from the prior, which must agree.

Each population plays the part of a chain. Populations that found other modes, or gave them other weights, differ, and
R-hat shows it; relatives that have not yet parted stand beside each other, so the effective sample size counts them
as one. The compiled program takes the data as arguments and vectorises over particles; populations run side by side
on the machine's cores.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from tqdm import tqdm

from sde_grpo.errors import require
from sde_grpo.inference.cooling import Cooled, cool
from sde_grpo.inference.engine import Draws
from sde_grpo.inference.target import Model, build_target
from sde_grpo.programs import Program

POPULATIONS, PARTICLES = 4, 1024
SWEEPS = 24


@Program
def _population(key: Array, model: Model, args: tuple[Any, ...]) -> tuple[Cooled, dict[str, Array]]:
    target = build_target(model, args)
    cooled = cool(key, target, PARTICLES, SWEEPS)
    return cooled, target.constrain(cooled.particles)


def sample_smc(key: Array, model: Model, args: tuple[Any, ...], *, progress: bool = False) -> Draws:
    """Sample the posterior of `model(*args)`: the particles of each population are the draws of a chain.

    The evidence is the mean over populations, each of which is unbiased. Whether the draws will do is for
    `convergence` to say. Raises `InputError` where a population does not reach the posterior at all.
    """
    one = lambda k: jax.block_until_ready(_population(k, model, args))  # noqa: E731
    bar = tqdm(total=POPULATIONS, disable=not progress, file=sys.stderr, leave=False, desc="sampling")
    with bar, ThreadPoolExecutor(min(os.cpu_count() or 1, POPULATIONS)) as pool:
        found = []
        for population in pool.map(one, jax.random.split(key, POPULATIONS)):
            found.append(population)
            bar.update()
    cooled, sites = jax.tree.map(lambda *parts: np.stack(parts), *found)
    require(
        bool(cooled.finished.all()),
        "The particles did not reach the posterior: the likelihood is too sharp, or not a number, for most of the "
        "prior. Check the scale of the rewards and their range (--reward-range).",
    )
    shape, evidence = (POPULATIONS, PARTICLES), cooled.log_evidence
    return Draws(
        sites,
        np.zeros(shape, bool),
        np.zeros(shape, int),
        cooled.log_density,
        float(jax.nn.logsumexp(jnp.asarray(evidence)) - np.log(POPULATIONS)),
        "smc",
    )
