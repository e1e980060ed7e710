"""Fixed points and mean-field laws: where a run levels off, along which curve, predicted from its settings alone."""

from sde_grpo.fixed_points.laws import anchored, group_law, kl_free, kl_free_time, mean_only, mean_only_time
from sde_grpo.fixed_points.linear import ExponentialRange, exponential_range, linearised, second_order
from sde_grpo.fixed_points.points import FixedPoint, Fold, curvature, fixed_point, fixed_points, folds, plateau
from sde_grpo.fixed_points.prompts import (
    ApparentExponential,
    MixturePlateau,
    Prompts,
    apparent_exponential,
    beta_prompts,
    mean_curve,
    mixture_plateau,
    stretching_exponent,
)
from sde_grpo.fixed_points.ratio import signal_ratio_derivatives
from sde_grpo.fixed_points.recurrence import Recurrence, RoundFixedPoint
from sde_grpo.fixed_points.stationary import group_preference, k3_plateau, stationary_policy

__all__ = [
    "ApparentExponential",
    "ExponentialRange",
    "FixedPoint",
    "Fold",
    "MixturePlateau",
    "Prompts",
    "Recurrence",
    "RoundFixedPoint",
    "anchored",
    "apparent_exponential",
    "beta_prompts",
    "curvature",
    "exponential_range",
    "fixed_point",
    "fixed_points",
    "folds",
    "group_law",
    "group_preference",
    "k3_plateau",
    "kl_free",
    "kl_free_time",
    "linearised",
    "mean_curve",
    "mean_only",
    "mean_only_time",
    "mixture_plateau",
    "plateau",
    "second_order",
    "signal_ratio_derivatives",
    "stationary_policy",
    "stretching_exponent",
]
