"""Links between the coordinate in which the oscillator lives and the reward."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

Link = Literal["identity", "logit"]


def to_coordinate(link: Link, unit: ArrayLike) -> Float[Array, "..."]:
    """z = u, or logit u."""
    return jnp.asarray(unit) if link == "identity" else jax.scipy.special.logit(jnp.asarray(unit))


def to_unit(link: Link, coordinate: ArrayLike) -> Float[Array, "..."]:
    """u = z, or sigmoid z."""
    return jnp.asarray(coordinate) if link == "identity" else jax.nn.sigmoid(jnp.asarray(coordinate))


def gain(link: Link, unit: ArrayLike) -> Float[Array, "..."]:
    """h = du/dz: 1, or u (1 - u)."""
    unit = jnp.asarray(unit)
    return jnp.ones_like(unit) if link == "identity" else unit * (1 - unit)
