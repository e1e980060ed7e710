"""The posterior of a NumPyro model as plain functions of one unconstrained vector, for every engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

Model = Callable[..., Any]


class Target(NamedTuple):
    """log_prior(z) and log_joint(z) = log p(z, y) on R^d, the Jacobians of the transforms included in both.

    `prior_draws(key, n)` returns (n, d) draws of the prior; `constrain(z)` maps (n, d) vectors to the values
    of every site of the model, deterministic ones too.
    """

    dimension: int
    log_prior: Callable[[Float[Array, " d"]], Float[Array, ""]]
    log_joint: Callable[[Float[Array, " d"]], Float[Array, ""]]
    prior_draws: Callable[[Array, int], Float[Array, "n d"]]
    constrain: Callable[[Float[Array, "n d"]], dict[str, Array]]


def build_target(model: Model, args: tuple[Any, ...], observed_site: str = "obs") -> Target:
    """Split the joint density of `model(*args)` at its observed site."""
    from numpyro import handlers
    from numpyro.infer import Predictive
    from numpyro.infer.util import constrain_fn, potential_energy, unconstrain_fn

    prior_model = handlers.block(model, hide=[observed_site])
    trace = handlers.trace(handlers.seed(prior_model, jax.random.key(0))).get_trace(*args)
    names = [n for n, site in trace.items() if site["type"] == "sample" and not site["is_observed"]]
    example = {n: trace[n]["value"] for n in names}
    _, unravel = ravel_pytree(unconstrain_fn(model, args, {}, example))

    def log_prior(z: Float[Array, " d"]) -> Float[Array, ""]:
        return jnp.asarray(-potential_energy(prior_model, args, {}, unravel(z)))

    def log_joint(z: Float[Array, " d"]) -> Float[Array, ""]:
        return jnp.asarray(-potential_energy(model, args, {}, unravel(z)))

    def prior_draws(key: Array, n: int) -> Float[Array, "n d"]:
        sites = Predictive(prior_model, num_samples=n, return_sites=names)(key, *args)
        return jax.vmap(lambda values: ravel_pytree(unconstrain_fn(model, args, {}, values))[0])(sites)

    def constrain(z: Float[Array, "n d"]) -> dict[str, Array]:
        one = lambda row: constrain_fn(model, args, {}, unravel(row), return_deterministic=True)  # noqa: E731
        return jax.vmap(one)(z)

    dimension = int(sum(jnp.size(v) for v in example.values()))
    return Target(dimension, log_prior, log_joint, prior_draws, constrain)
