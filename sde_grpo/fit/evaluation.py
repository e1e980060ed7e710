"""Everything that a fit computes of its draws, as one compiled program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from sde_grpo.fit.parameters import PARAMETERS, parameters, prior_parameters
from sde_grpo.fit.trajectories import Trajectories, trajectories
from sde_grpo.model import Design
from sde_grpo.programs import Program

PREDICTIVE_DRAWS = 400  # of the posterior, evenly thinned, for trajectories and replicated traces


class Evaluated(NamedTuple):
    """Parameters of posterior and prior (chain, draw), trajectories of the posterior's thinned draws (draw, step)."""

    posterior: dict[str, Float[Array, "chain draw"]]
    prior: dict[str, Float[Array, "1 draw"]]
    trajectories: Trajectories


def thinned(sites: Mapping[str, Float[Array, "chain draw"]]) -> dict[str, Float[Array, " kept"]]:
    """`PREDICTIVE_DRAWS` of the draws (chain, draw), evenly spaced, chain after chain."""
    chains, draws = next(iter(sites.values())).shape
    step = max(chains * draws // PREDICTIVE_DRAWS, 1)
    return {name: values[:, ::step][:, : PREDICTIVE_DRAWS // chains].ravel() for name, values in sites.items()}


@Program
def _evaluate(key_prior: Array, key_paths: Array, design: Design, sites: dict[str, Array]) -> Evaluated:
    paths = trajectories(key_paths, design, thinned(sites))
    return Evaluated(parameters(design, sites), prior_parameters(key_prior, design), paths)


@Program
def _keys(seed: Array) -> tuple[Array, ...]:
    return tuple(jax.random.split(jax.random.key(seed), 3))


def keys(seed: int) -> tuple[Array, ...]:
    """Three keys: of the sampler, of the prior's draws, of the trajectories."""
    return _keys(np.asarray(seed))


@Program
def _predict(seed: Array, design: Design, sites: dict[str, Array]) -> Trajectories:
    return trajectories(jax.random.key(seed), design, thinned(sites))


def predict(seed: int, design: Design, sites: dict[str, Array]) -> Trajectories:
    """Trajectories of the thinned draws of `sites` (chain, draw) on every step of `design`."""
    return _predict(np.asarray(seed), design, sites)


def evaluate(key_prior: Array, key_paths: Array, design: Design, sites: dict[str, Array], steps: int) -> Evaluated:
    """Evaluate the draws `sites` (chain, draw), the trajectories on the first `steps` steps of `design`."""
    found = jax.tree.map(np.asarray, _evaluate(key_prior, key_paths, design, sites))
    return Evaluated(
        *({name: values[name] for name in PARAMETERS if name in values} for values in (found.posterior, found.prior)),
        Trajectories(*(v[:, :steps] for v in found.trajectories)),
    )
