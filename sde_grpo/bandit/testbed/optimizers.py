"""Gradient ascent with heavy ball or an averaged gradient, and Adam (theory note, section 2)."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from sde_grpo.errors import require
from sde_grpo.oscillator import MomentumKind
from sde_grpo.ranges import require_momentum, require_positive


class Moments(NamedTuple):
    """What an optimizer carries from step to step: running first and second moments of the gradient."""

    first: Float[Array, "..."]
    second: Float[Array, "..."]


class Momentum(eqx.Module):
    """x_{k+1} = x_k + eta v_k:  v_k = mu v_{k-1} + g_k (heavy ball), or mu v_{k-1} + (1 - mu) g_k (ema).

    The first is x_{k+1} = x_k + eta g_k + mu (x_k - x_{k-1}).

    **Arguments**

    - `learning_rate`: eta > 0.
    - `momentum`: mu in [0, 1).
    - `kind`: ``"heavy_ball"`` or ``"ema"``.

    Raises `InputError` outside these ranges.
    """

    learning_rate: float
    momentum: float = 0.0
    kind: MomentumKind = eqx.field(static=True, default="heavy_ball")

    def __check_init__(self) -> None:
        require_positive("learning_rate", self.learning_rate)
        require_momentum(self.momentum)
        require(
            self.kind in ("heavy_ball", "ema"), f"kind is {self.kind!r}; allowed are 'heavy_ball' and 'ema' (averaged)."
        )

    def step(self, gradient: Float[Array, "..."], moments: Moments, step: Int[Array, ""]):
        """The change of the parameters and the new moments; `step` counts from 0 and is not used."""
        weight = 1.0 if self.kind == "heavy_ball" else 1.0 - self.momentum
        first = self.momentum * moments.first + weight * gradient
        return self.learning_rate * first, moments._replace(first=first)


class Adam(eqx.Module):
    """x_{k+1} = x_k + eta m_k / (sqrt(v_k) + eps), m and v the bias-corrected means of g and g^2.

    **Arguments**

    - `learning_rate`: eta > 0.
    - `beta1`, `beta2`: decay of the two means, in [0, 1).
    - `epsilon`: eps > 0.

    Raises `InputError` outside these ranges. Source: Kingma and Ba, arXiv 1412.6980, algorithm 1.
    """

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __check_init__(self) -> None:
        require_positive("learning_rate", self.learning_rate)
        require_positive("epsilon", self.epsilon)
        for name in ("beta1", "beta2"):
            require(0 <= getattr(self, name) < 1, f"{name} is {getattr(self, name)}; it must lie in [0, 1).")

    def step(self, gradient: Float[Array, "..."], moments: Moments, step: Int[Array, ""]):
        """The change of the parameters and the new moments; `step` counts from 0."""
        first = self.beta1 * moments.first + (1 - self.beta1) * gradient
        second = self.beta2 * moments.second + (1 - self.beta2) * gradient**2
        mean = first / (1 - self.beta1 ** (step + 1))
        mean_square = second / (1 - self.beta2 ** (step + 1))
        return self.learning_rate * mean / (jnp.sqrt(mean_square) + self.epsilon), Moments(first, second)


Optimizer = Momentum | Adam
