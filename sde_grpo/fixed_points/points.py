"""Fixed points of the anchored bandit at every group size and rule, their curvature, and the folds that end them.

One logit theta, p = sigmoid(theta), w = p(1-p); s is the signal of a group (`sde_grpo.groups`), R = E s / w. With a
batch sampled at theta_old and exact importance ratios a group contributes s(k) w(theta)/w(theta_old), so

    drift(theta; theta_old) = w(theta) [ R(theta_old) - beta (theta - theta_ref) ],

and a fixed point solves R(theta) = beta (theta - theta_ref). As R > 0, every one lies above the reference.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import expit, logit

from sde_grpo.errors import require
from sde_grpo.fixed_points.crossings import HIGHEST_LOGIT, crossings
from sde_grpo.fixed_points.ratio import signal_ratio_derivatives
from sde_grpo.groups import GroupRule
from sde_grpo.oscillator import Oscillator, UpdateRule, reduce_update
from sde_grpo.ranges import require_group_size, require_not_negative, require_probability

DEFAULT_RULE = GroupRule()


class FixedPoint(NamedTuple):
    """Where the drift vanishes, and the linear map there.

    - `p`, `theta`: success probability and its logit.
    - `kappa_now`, `kappa_old`: -d drift/d theta and -d drift/d theta_old, in 1/learning rate. The p coordinate has
      the same ones; spreads convert by sd(p) = p(1-p) sd(theta).
    """

    p: float
    theta: float
    kappa_now: float
    kappa_old: float

    @property
    def curvature(self) -> float:
        """kappa = kappa_now + kappa_old, in 1/learning rate; negative where the fixed point repels."""
        return self.kappa_now + self.kappa_old

    @property
    def stale_fraction(self) -> float:
        """phi = kappa_old / kappa: negative above p = 1/2 for many completions, where the lag adds damping."""
        return self.kappa_old / self.curvature

    def oscillator(self, update: UpdateRule) -> Oscillator:
        """M, C, K about this point under `update`, with this point's phi in place of `update.stale_fraction`.

        `.relaxation_time` is the predicted time scale in steps. A trainer that evaluates the whole surrogate at the
        sampling policy has phi = 1: use `reduce_update(update, point.curvature)`. Raises `InputError` where the
        point repels. Source: theory note sections 3 and 5.
        """
        require(
            self.curvature > 0,
            f"the fixed point at p = {self.p:.6g} has curvature {self.curvature:.4g}: it repels, and nothing relaxes "
            "to it. Take a stable one, as `plateau` does.",
        )
        return reduce_update(replace(update, stale_fraction=self.stale_fraction), self.curvature)


class Fold(NamedTuple):
    """A weight of the KL term at which two fixed points meet, and where they meet."""

    kl_weight: float
    p: float


def fixed_points(
    p_ref: float, kl_weight: float, group_size: int | None = None, rule: GroupRule = DEFAULT_RULE
) -> tuple[FixedPoint, ...]:
    """Every theta with R(theta) = beta (theta - theta_ref) and p <= 1 - 1e-9, ascending: none, one or several.

        kappa_now = beta w*,   kappa_old = -w* R'(theta*),   kappa = w* (beta - R').

    They alternate, the first one stable. Many completions with a standard deviation: two above the fold, none
    below it; without one, R = 1 and the only one is theta_ref + 1/beta. A finite group that keeps its silent groups
    has a bounded R, so one for every beta > 0, or three.

    **Arguments**

    - `p_ref`: success probability of the reference policy, in (0, 1).
    - `kl_weight`: beta >= 0.
    - `group_size`: G >= 2, or `None` for the limit of many completions.
    - `rule`: how a group's rewards become advantages.

    Raises `InputError` outside these ranges. Source: theory note section 5; finite groups and all rules derived here.
    """
    theta_ref = _reference_logit(p_ref, group_size)
    require_not_negative("kl_weight", kl_weight)

    def excess(theta: Float[np.ndarray, "point"]) -> tuple[np.ndarray, np.ndarray]:
        ratio = signal_ratio_derivatives(theta, group_size, rule)
        return ratio.value - kl_weight * (theta - theta_ref), ratio.slope - kl_weight

    return tuple(
        _fixed_point(theta, kl_weight, group_size, rule) for theta in crossings(excess, theta_ref, HIGHEST_LOGIT)
    )


def plateau(
    p_ref: float, kl_weight: float, group_size: int | None = None, rule: GroupRule = DEFAULT_RULE
) -> FixedPoint:
    """The first fixed point: where a run that starts at or below p_ref levels off.

    Arguments as for `fixed_points`. Raises `InputError` outside their ranges, and where there is none below 1 - 1e-9.
    """
    found = fixed_points(p_ref, kl_weight, group_size, rule)
    require(
        len(found) > 0,
        f"There is no interior fixed point at p_ref = {p_ref}, kl_weight = {kl_weight}, group_size = {group_size}: "
        "the KL term is too weak to hold the policy, which goes to p = 1. Raise kl_weight or lower p_ref.",
    )
    return found[0]


def fixed_point(p_ref: float, kl_weight: float, group_size: int | None = None, rule: GroupRule = DEFAULT_RULE) -> float:
    """p* of `plateau`, whose arguments and errors it has."""
    return plateau(p_ref, kl_weight, group_size, rule).p


def curvature(p_ref: float, kl_weight: float, group_size: int | None = None, rule: GroupRule = DEFAULT_RULE) -> float:
    """kappa of `plateau`, in 1/learning rate: beta w* - sqrt(w*)(2p* - 1)/2 for many completions and a scale."""
    return plateau(p_ref, kl_weight, group_size, rule).curvature


def folds(p_ref: float, group_size: int | None = None, rule: GroupRule = DEFAULT_RULE) -> tuple[Fold, ...]:
    """The extrema of beta(theta) = R(theta)/(theta - theta_ref), where R'(theta)(theta - theta_ref) = R(theta).

    By ascending p. Many completions with a scale have one, a minimum: beta = sinh(theta/2) with
    beta (2 asinh(beta) - theta_ref) = 2 sqrt(1 + beta^2), below which nothing holds the policy (1.50888 at p_ref 1/2).
    A finite group has none, or two: a minimum and a maximum, between which three fixed points exist, so that a
    slowly lowered KL weight makes the plateau jump at the first and jump back at the second.

    Arguments and `InputError` as for `fixed_points`; folds at p > 1 - 1e-9 are left out. Derived here.
    """
    theta_ref = _reference_logit(p_ref, group_size)

    def turning(theta: Float[np.ndarray, "point"]) -> tuple[np.ndarray, np.ndarray]:
        ratio = signal_ratio_derivatives(theta, group_size, rule)
        return ratio.slope * (theta - theta_ref) - ratio.value, ratio.bend * (theta - theta_ref)

    found = crossings(turning, theta_ref, HIGHEST_LOGIT)
    return tuple(
        Fold(float(signal_ratio_derivatives(x, group_size, rule).value) / (x - theta_ref), float(expit(x)))
        for x in found
    )


def _fixed_point(theta: float, kl_weight: float, group_size: int | None, rule: GroupRule) -> FixedPoint:
    w = float(expit(theta) * expit(-theta))  # without the cancellation of 1 - p near p = 1
    slope = float(signal_ratio_derivatives(theta, group_size, rule).slope)
    return FixedPoint(float(expit(theta)), theta, kl_weight * w, -w * slope)


def _reference_logit(p_ref: float, group_size: int | None) -> float:
    require_probability("p_ref", p_ref)
    if group_size is not None:
        require_group_size(group_size)
    return float(logit(p_ref))
