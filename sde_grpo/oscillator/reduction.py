"""From optimizer settings to the oscillator: mass, damping, stiffness, temperature (theory note, section 3)."""

from __future__ import annotations

import math
import numbers
from typing import Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from sde_grpo.errors import require
from sde_grpo.ranges import require_momentum, require_positive

MomentumKind = Literal["heavy_ball", "ema"]
LagSchedule = Literal["periodic", "constant"]
Regime = Literal["overdamped", "critical", "oscillatory", "unstable"]


class UpdateRule(eqx.Module):
    """The settings of the optimizer that the reduction needs.

    **Arguments**

    - `learning_rate`: eta > 0.
    - `momentum`: mu in [0, 1); for Adam, beta1.
    - `momentum_kind`: ``"heavy_ball"``, or ``"ema"`` (Adam and its kin), whose gradient is multiplied by 1 - mu.
    - `refresh_interval`: K_ref >= 1, optimizer steps between refreshes of the sampling policy; under the
      constant schedule it is the lag L >= 0.
    - `lag_schedule`: ``"periodic"`` (the lag runs 0 ... K_ref - 1) or ``"constant"`` (the lag is L).
    - `stale_fraction`: phi, the share of the stiffness that is felt through the sampling policy; any finite number,
      negative where the lag adds damping (theory note section 5).
    - `lag_weights`: mixed lag, under the constant schedule only: w_0 ... w_L, the shares of a batch that are
      0, 1, ..., L steps old, so that x_old = sum_l w_l x_{k-l}. They are not negative and sum to 1. By default
      the whole batch is L steps old.

    Raises `InputError` where a value lies outside its range.
    """

    learning_rate: float | Float[Array, ""]
    momentum: float | Float[Array, ""] = 0.0
    momentum_kind: MomentumKind = eqx.field(static=True, default="heavy_ball")
    refresh_interval: int = eqx.field(static=True, default=1)
    lag_schedule: LagSchedule = eqx.field(static=True, default="periodic")
    stale_fraction: float | Float[Array, ""] = 1.0
    lag_weights: tuple[float, ...] | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        require_positive("learning_rate", float(self.learning_rate))
        require_momentum(float(self.momentum))
        require(
            self.momentum_kind in ("heavy_ball", "ema"),
            f"momentum_kind is {self.momentum_kind!r}; allowed are 'heavy_ball' (SGD) and 'ema' (Adam).",
        )
        require(
            self.lag_schedule in ("periodic", "constant"),
            f"lag_schedule is {self.lag_schedule!r}; allowed are 'periodic' and 'constant'.",
        )
        least = 1 if self.lag_schedule == "periodic" else 0
        whole = isinstance(self.refresh_interval, numbers.Integral) and not isinstance(self.refresh_interval, bool)
        require(
            whole and self.refresh_interval >= least,
            f"refresh_interval is {self.refresh_interval}; under the {self.lag_schedule} schedule it must be "
            f"at least {least}, and a whole number.",
        )
        require(
            math.isfinite(float(self.stale_fraction)), f"stale_fraction is {self.stale_fraction}; it must be finite."
        )
        if self.lag_weights is not None:
            self._check_weights(self.lag_weights)

    def _check_weights(self, weights: tuple[float, ...]) -> None:
        require(
            self.lag_schedule == "constant",
            "lag_weights are given under the periodic schedule, whose lags run 0 ... refresh_interval - 1 by "
            "themselves; use lag_schedule='constant'.",
        )
        require(
            len(weights) == self.refresh_interval + 1,
            f"lag_weights has {len(weights)} entries, but the lags 0 ... refresh_interval = {self.refresh_interval} "
            f"are {self.refresh_interval + 1}; give one weight for each.",
        )
        require(
            all(weight >= 0 for weight in weights) and abs(sum(weights) - 1) < 1e-9,
            f"lag_weights is {weights}; they are shares of a batch: none negative, and summing to 1.",
        )

    @property
    def effective_learning_rate(self) -> float | Float[Array, ""]:
        """eta for heavy ball, eta (1 - mu) for an EMA momentum."""
        return self.learning_rate * ((1.0 - self.momentum) if self.momentum_kind == "ema" else 1.0)

    @property
    def lag_moments(self) -> tuple[float, float]:
        """First and second moment of the lag: (L, L^2), or averages over the mixture or the refresh sawtooth."""
        k = self.refresh_interval
        if self.lag_weights is not None:
            lags = range(k + 1)
            return (
                sum(w * lag for w, lag in zip(self.lag_weights, lags, strict=True)),
                sum(w * lag**2 for w, lag in zip(self.lag_weights, lags, strict=True)),
            )
        if self.lag_schedule == "constant":
            return float(k), float(k * k)
        return (k - 1) / 2.0, (k - 1) * (2 * k - 1) / 6.0


class Oscillator(NamedTuple):
    """M p'' + C p' + K (p - p*) = s dW/dt, time in optimizer steps; all fields broadcast together."""

    mass: Float[Array, "..."]
    damping: Float[Array, "..."]
    stiffness: Float[Array, "..."]

    @property
    def relaxation_time(self) -> Float[Array, "..."]:
        """tau = C / K, in steps."""
        return self.damping / self.stiffness

    @property
    def inertia_ratio(self) -> Float[Array, "..."]:
        """q = M K / C^2: 0 overdamped limit, 1/4 critical, above oscillatory."""
        return self.mass * self.stiffness / self.damping**2


def reduce_update(rule: UpdateRule, curvature: ArrayLike) -> Oscillator:
    """K = a,  C = (1 - mu) - phi a m1,  M = (1 + mu)/2 + phi a m2/2,  with a = eta kappa.

    `curvature`: kappa > 0, any shape; returns an `Oscillator` of that shape. Source: theory note section 3
    (paper Theorem 7, eq. 9), the second-order expansion in the step and in the lag.
    """
    a = rule.effective_learning_rate * jnp.asarray(curvature)
    m1, m2 = rule.lag_moments
    mu, phi = rule.momentum, rule.stale_fraction
    return Oscillator((1 + mu) / 2 + phi * a * m2 / 2, (1 - mu) - phi * a * m1, a)


def curvature_from_relaxation_time(rule: UpdateRule, relaxation_time: ArrayLike) -> Float[Array, "..."]:
    """kappa = (1 - mu) / (eta (tau + phi m1)): the inverse of tau = C/K, positive damping for every tau > 0."""
    m1, _ = rule.lag_moments
    tau = jnp.asarray(relaxation_time)
    return (1 - rule.momentum) / (rule.effective_learning_rate * (tau + rule.stale_fraction * m1))


def temperature(oscillator: Oscillator, gradient_noise: ArrayLike, learning_rate: ArrayLike, group_size: ArrayLike):
    """T = s^2 / (2 C) with s = eta sigma_g / sqrt(G); at stationarity Var(p) = T / K.

    `gradient_noise` is sigma_g, the noise of the gradient of a group of one. Raises `InputError` for a group
    size below one or, where its value is known, a damping that is not positive (no stationary state).
    """
    s2 = (jnp.asarray(learning_rate) * jnp.asarray(gradient_noise)) ** 2 / jnp.asarray(group_size)
    if not isinstance(s2, Tracer) and not isinstance(oscillator.damping, Tracer):
        require(bool(jnp.all(jnp.asarray(group_size) >= 1)), f"group_size is {group_size}; it must be at least 1.")
        require(
            bool(jnp.all(oscillator.damping > 0)),
            f"damping is {oscillator.damping}; a temperature needs positive damping. Shorten the refresh "
            "interval or lower the learning rate.",
        )
    return s2 / (2 * oscillator.damping)


def regime(oscillator: Oscillator, tolerance: float = 1e-9) -> Regime:
    """Name of the regime of one (scalar) oscillator, from the signs of C and of 1/4 - q."""
    if float(oscillator.damping) <= 0:
        return "unstable"
    distance = float(oscillator.inertia_ratio) - 0.25
    if abs(distance) <= tolerance:
        return "critical"
    return "overdamped" if distance < 0 else "oscillatory"
