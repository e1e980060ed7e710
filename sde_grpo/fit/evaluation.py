"""Everything that a fit computes of its draws, as one compiled program."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from numpy.typing import NDArray

from sde_grpo.fit.parameters import PARAMETERS, parameters, prior_parameters
from sde_grpo.fit.trajectories import Trajectories, trajectories
from sde_grpo.model import Design
from sde_grpo.programs import Program

PREDICTIVE_DRAWS = 400  # of the posterior, evenly thinned, for trajectories and replicated traces

Sites = Mapping[str, Float[ArrayLike, "chain draw"]]


class Evaluated(NamedTuple):
    """Parameters of posterior and prior (chain, draw), trajectories of the posterior's thinned draws (draw, step)."""

    posterior: dict[str, NDArray[np.float64]]
    prior: dict[str, NDArray[np.float64]]
    trajectories: Trajectories


def _thinned(sites: Sites) -> dict[str, Float[Array, " kept"]]:
    """`PREDICTIVE_DRAWS` of the draws (chain, draw), evenly spaced, chain after chain."""
    chains, draws = jnp.shape(next(iter(sites.values())))
    step = max(chains * draws // PREDICTIVE_DRAWS, 1)
    kept = PREDICTIVE_DRAWS // chains
    return {name: jnp.asarray(values)[:, ::step][:, :kept].ravel() for name, values in sites.items()}


@partial(Program, quick=True)
def _evaluate(
    key_prior: Array, key_paths: Array, design: Design, sites: Sites
) -> tuple[dict[str, Array], dict[str, Array], Trajectories]:
    paths = trajectories(key_paths, design, _thinned(sites))
    posterior = parameters(design, {name: jnp.asarray(values) for name, values in sites.items()})
    return posterior, prior_parameters(key_prior, design), paths


@Program
def _keys(seed: ArrayLike) -> tuple[Array, ...]:
    return tuple(jax.random.split(jax.random.key(seed), 3))


def keys(seed: int) -> tuple[Array, ...]:
    """Three keys: of the sampler, of the prior's draws, of the trajectories."""
    return _keys(np.asarray(seed))


@partial(Program, quick=True)
def _predict(seed: ArrayLike, design: Design, sites: Sites) -> Trajectories:
    return trajectories(jax.random.key(seed), design, _thinned(sites))


def predict(seed: int, design: Design, sites: Sites) -> Trajectories:
    """Trajectories of the thinned draws of `sites` (chain, draw) on every step of `design`."""
    return _predict(np.asarray(seed), design, sites)


def evaluate(key_prior: Array, key_paths: Array, design: Design, sites: Sites, steps: int) -> Evaluated:
    """Evaluate the draws `sites` (chain, draw), the trajectories on the first `steps` steps of `design`."""
    *found, paths = jax.tree.map(np.asarray, _evaluate(key_prior, key_paths, design, sites))
    posterior, prior = ({n: values[n] for n in PARAMETERS if n in values} for values in found)  # in our order again
    return Evaluated(posterior, prior, Trajectories(*(v[:, :steps] for v in paths)))
