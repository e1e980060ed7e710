"""Plain NUTS chains as one traceable function, for models whose posterior has one mode."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from sde_grpo.inference.target import Model, build_target

CANDIDATES = 64  # draws of the prior, the best of which starts a chain
TARGET_ACCEPTANCE = 0.9


def nuts_chains(
    key: Array, model: Model, args: tuple[Any, ...], *, chains: int, warmup: int, draws: int, depth: int
) -> dict[str, Array]:
    """`draws` of every site after `warmup` transitions, axes (chain, draw, ...), and the site ``diverging``.

    Step size and a diagonal metric are adapted chain by chain; `depth` bounds the tree. Traceable: vmap it over
    arguments, and data as arguments share one compiled program.
    """
    from numpyro.infer import NUTS

    def chain(key: Array) -> dict[str, Array]:
        target = build_target(model, args)
        kernel = NUTS(
            potential_fn=lambda z: -target.log_joint(z), max_tree_depth=depth, target_accept_prob=TARGET_ACCEPTANCE
        )
        key_start, key_chain = jax.random.split(key)
        candidates = target.prior_draws(key_start, CANDIDATES)
        density = jax.vmap(target.log_joint)(candidates)
        start = candidates[jnp.argmax(jnp.where(jnp.isfinite(density), density, -jnp.inf))]
        state = kernel.init(key_chain, warmup, start, (), {})

        def one(state: Any, _: None):
            state = kernel.sample(state, (), {})
            return state, (state.z, state.diverging)

        _, (z, diverging) = jax.lax.scan(one, state, None, length=warmup + draws)
        return target.constrain(z[warmup:]) | {"diverging": diverging[warmup:]}

    return jax.vmap(chain)(jax.random.split(key, chains))
