"""The unit scale of a reward, on which the model works."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float


class Scale(NamedTuple):
    """reward = low + width * u, with u the reward on its unit scale ([0, 1] where the range is known)."""

    low: Float[Array, ""]
    width: Float[Array, ""]

    def to_unit(self, reward: ArrayLike) -> Float[Array, "..."]:
        """u = (reward - low) / width."""
        return (jnp.asarray(reward) - self.low) / self.width

    def to_reward(self, unit: ArrayLike) -> Float[Array, "..."]:
        """reward = low + width u."""
        return self.low + self.width * jnp.asarray(unit)
