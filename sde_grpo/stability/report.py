"""Stability of one setting: limits, margins and ringing, for a known curvature or for draws of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from sde_grpo.discrete_map import phase_per_step, spectral_radius, stiffness_per_step
from sde_grpo.oscillator import Regime, UpdateRule
from sde_grpo.stability.closed_form import average_stiffness, paper_stiffness
from sde_grpo.stability.critical import (
    critical_learning_rate,
    critical_refresh_interval,
    critical_stiffness,
    ringing_stiffness,
)


@dataclass(frozen=True)
class StabilityReport:
    """What `assess_stability` found. Arrays have the shape of the curvature: one value, or one per draw.

    - `stiffness_per_step`: a = eta kappa, with eta (1 - mu) in place of eta for an EMA momentum; per step.
    - `critical_stiffness`: a_c, the exact limit; `critical_stiffness_paper` and `critical_stiffness_average` are the
      closed forms (1 - mu)/(phi K_ref) and (1 - mu)/(phi m1); `ringing_stiffness` is where overshoot begins. Per step,
      infinite where there is none.
    - `margin`: a_c / a, the factor by which the learning rate can be raised; below 1 the limit has been passed.
      `ringing_margin`: the same up to the onset of ringing.
    - `critical_learning_rate`: the learning rate at a_c. `critical_refresh_interval`: the longest interval that is
      stable at this learning rate, infinite if beyond `REFRESH_LIMIT`; None for a mixed lag.
    - `spectral_radius`: factor by which a displacement shrinks per step. It can lie below 1 although the margin does:
      in a stable window above the first crossing.
    - `period`: of the ringing, in steps; `decay_per_cycle`: factor on its amplitude over one period. NaN where the
      setting does not ring.
    """

    rule: UpdateRule
    curvature: Float[np.ndarray, "..."]
    stiffness_per_step: Float[np.ndarray, "..."]
    critical_stiffness: float
    critical_stiffness_paper: float
    critical_stiffness_average: float
    ringing_stiffness: float
    critical_learning_rate: Float[np.ndarray, "..."]
    critical_refresh_interval: Float[np.ndarray, "..."] | None
    margin: Float[np.ndarray, "..."]
    ringing_margin: Float[np.ndarray, "..."]
    spectral_radius: Float[np.ndarray, "..."]
    period: Float[np.ndarray, "..."]
    decay_per_cycle: Float[np.ndarray, "..."]

    @property
    def probability_unstable(self) -> float:
        """Share of the draws whose map is unstable (0 or 1 for a known curvature)."""
        return float(np.mean(self.spectral_radius >= 1))

    @property
    def probability_ringing(self) -> float:
        """Share of the draws that are stable and ring."""
        return float(np.mean((self.spectral_radius < 1) & np.isfinite(self.period)))

    @property
    def regime(self) -> Regime:
        """Of the exact map, the likeliest: ``"overdamped"`` (no overshoot), ``"oscillatory"`` or ``"unstable"``."""
        unstable, rings = self.probability_unstable, self.probability_ringing
        settles = 1 - unstable - rings
        if unstable >= max(rings, settles):
            return "unstable"
        return "oscillatory" if rings >= settles else "overdamped"


def assess_stability(rule: UpdateRule, curvature: ArrayLike) -> StabilityReport:
    """margin = a_c / a, and everything that goes with it, from the exact discrete map.

    **Arguments**

    - `rule`: the optimizer's settings, those in use or those proposed.
    - `curvature`: kappa > 0 at the fixed point, per unit of learning rate: a number, or draws such as those of
      `curvature_of_fit`. Of one optimizer it is the same at all settings, so a fitted one judges another setting.

    Raises `InputError` where a curvature is not positive and finite. Source: theory note sections 2 to 4.
    """
    a = stiffness_per_step(rule, curvature)
    critical, ringing = critical_stiffness(rule), ringing_stiffness(rule)
    radius, phase = spectral_radius(rule, curvature), phase_per_step(rule, curvature)
    period = np.divide(2 * np.pi, phase, out=np.full(a.shape, np.nan), where=phase > 0)
    return StabilityReport(
        rule=rule,
        curvature=np.asarray(curvature, dtype=np.float64),
        stiffness_per_step=a,
        critical_stiffness=critical,
        critical_stiffness_paper=paper_stiffness(rule),
        critical_stiffness_average=average_stiffness(rule),
        ringing_stiffness=ringing,
        critical_learning_rate=critical_learning_rate(rule, curvature),
        critical_refresh_interval=critical_refresh_interval(rule, curvature) if rule.lag_weights is None else None,
        margin=critical / a,
        ringing_margin=ringing / a,
        spectral_radius=radius,
        period=period,
        decay_per_cycle=radius**period,
    )
