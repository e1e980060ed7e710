"""Two pieces that every Metropolis move of the pilot and of the chains uses."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def stride_scale(key: Array, dimension: int, shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
    """ter Braak's 2.38/sqrt(2 d), halved up to twice for narrow places, or 1 (one in ten) to change modes."""
    key_full, key_factor = jax.random.split(key)
    factor = jnp.exp2(-jax.random.randint(key_factor, shape, 0, 3).astype(float))
    return jnp.where(jax.random.uniform(key_full, shape) < 0.1, 1.0, factor * 2.38 / jnp.sqrt(2.0 * dimension))


def accepted(key: Array, log_ratio: Float[Array, "..."]) -> Bool[Array, "..."]:
    """Metropolis acceptance; a ratio that is not a number is a rejection."""
    return jnp.log(jax.random.uniform(key, jnp.shape(log_ratio))) < jnp.where(jnp.isnan(log_ratio), -jnp.inf, log_ratio)
