"""The SMC engine: four independent populations, cooled from the prior one by one, refreshed by what all found.

*Cooling* finds the modes and gives each about its weight. *Refreshing* then moves every particle many times: a jump,
drawn wherever the particle is from heavy-tailed kernels around the cooled ones of all populations and accepted by the
exact Metropolis-Hastings ratio, carries it between modes and makes it forget its relatives; a sweep of strides fits
narrow places. The proposals of the jumps are an importance sample as well, from which the evidence is taken.

Each population plays the part of a chain. Where jumps do not carry between what the populations found, they differ,
and R-hat shows it; relatives that have not yet parted stand beside each other, so the effective sample size counts them
as one. The compiled program takes the data as arguments and vectorises over particles; populations run side by side
on the machine's cores. Source of the importance weights' tail shape: Vehtari et al. (2024), arXiv 1507.02646.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from tqdm import tqdm

from sde_grpo.errors import require
from sde_grpo.inference.cooling import Cooled, Population, cool, evaluated, replaced, sweep
from sde_grpo.inference.engine import Draws, importance_summary
from sde_grpo.inference.mixture import Mixture, mixture_from_particles
from sde_grpo.inference.moves import accepted
from sde_grpo.inference.target import Model, build_target
from sde_grpo.programs import Program

POPULATIONS, PARTICLES = 4, 1024
SWEEPS = 6  # at each temperature
KERNELS, ROUNDS = 512, 12  # of the jumps


class _Refreshed(NamedTuple):
    sites: dict[str, Array]
    log_density: Float[Array, " n"]
    log_weight: Float[Array, " jump"]  # of the importance sample that the jumps propose


@Program
def _keys(key: Array) -> tuple[list[Array], list[Array]]:
    """For cooling and for refreshing, each population its own."""
    cool, refresh = jax.random.split(key)
    return list(jax.random.split(cool, POPULATIONS)), list(jax.random.split(refresh, POPULATIONS))


@Program
def _cool(key: Array, model: Model, args: tuple[Any, ...]) -> Cooled:
    return cool(key, build_target(model, args), PARTICLES, SWEEPS)


@Program
def _kernels(particles: list[Float[Array, "n d"]]) -> Mixture:
    return mixture_from_particles(jnp.concatenate(particles), KERNELS)


@Program
def _refresh(key: Array, population: Population, mixture: Mixture, model: Model, args: tuple[Any, ...]) -> _Refreshed:
    """`ROUNDS` times a jump and a sweep of every particle."""
    target, n = build_target(model, args), len(population.z)

    def step(population: Population, key: Array):
        key_draw, key_accept, key_sweep = jax.random.split(key, 3)
        jumped = evaluated(mixture.draw(key_draw, n), target)
        weight, old = (p.log_density - mixture.log_density(p.z) for p in (jumped, population))
        population = replaced(accepted(key_accept, weight - old), jumped, population)
        return sweep(key_sweep, population, jnp.ones(()), target, 1), weight

    population, weights = jax.lax.scan(step, population, jax.random.split(key, ROUNDS))
    return _Refreshed(target.constrain(population.z), population.log_density, weights.reshape(-1))


def sample_smc(key: Array, model: Model, args: tuple[Any, ...], *, progress: bool = False) -> Draws:
    """Sample the posterior of `model(*args)`: the particles of each population are the draws of a chain.

    Whether the draws will do is for `convergence` to say. Raises `InputError` where a population does not reach the
    posterior at all.
    """
    keys_cool, keys_refresh = _keys(key)
    bar = tqdm(total=2 * POPULATIONS, disable=not progress, file=sys.stderr, leave=False, desc="sampling")
    with bar, ThreadPoolExecutor(min(os.cpu_count() or 1, POPULATIONS)) as pool:

        def of_each(program: Callable[..., Any], *parts: Any) -> Any:
            found = []
            for one in pool.map(lambda *p: jax.block_until_ready(program(*p)), *parts):
                found.append(one)
                bar.update()
            return found

        cooled: list[Cooled] = of_each(lambda k: _cool(k, model, args), keys_cool)
        require(
            all(bool(c.finished) for c in cooled),
            "The particles did not reach the posterior: the likelihood is too sharp, or not a number, for most of the "
            "prior. Check the scale of the rewards and their range (--reward-range).",
        )
        populations = [c.population for c in cooled]
        mixture = _kernels([p.z for p in populations])
        refreshed = of_each(lambda k, p: _refresh(k, p, mixture, model, args), keys_refresh, populations)
    together: Any = jax.tree.map(lambda *parts: np.stack(parts), *refreshed)
    shape = (POPULATIONS, PARTICLES)
    log_evidence, tail = importance_summary(together.log_weight.ravel())
    return Draws(
        together.sites, np.zeros(shape, bool), np.zeros(shape, int), together.log_density, log_evidence, "smc", tail
    )
