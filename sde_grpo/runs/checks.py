"""Is there anything to fit, and does it lie where it should?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sde_grpo.errors import InputError, NothingToFitError

FEWEST_POINTS = 20
EXCEPTIONS = 2
RANGE_TOLERANCE = 1e-9


def no_trajectory(reward: NDArray[np.float64]) -> str | None:
    """Why there is nothing to fit: too few points, constant, or constant on all but two steps; None where there is."""
    count = len(reward)
    values, counts = np.unique(reward, return_counts=True)
    if count >= 2 and len(values) == 1:
        return (
            f"the reward is {values[0]:.6g} on all {count} steps, so there is no trajectory to fit.{_zero(values[0])}"
        )
    if count < FEWEST_POINTS:
        return (
            f"{count} reward {'point' if count == 1 else 'points'}, but at least {FEWEST_POINTS} are needed: "
            "the model has five or six unknowns, and a fit to fewer points would echo its prior. Log more often, or "
            "train longer."
        )
    usual = values[np.argmax(counts)]
    others = count - int(counts.max())
    if others <= EXCEPTIONS:
        return (
            f"the reward is {usual:.6g} on all but {others} of {count} steps, so there is no trajectory to "
            f"fit.{_zero(usual)}"
        )
    return None


def require_trajectory(source: str, reward: NDArray[np.float64]) -> None:
    """Raise `NothingToFitError` for a trace without a trajectory."""
    reason = no_trajectory(reward)
    if reason is not None:
        raise NothingToFitError(f"{source}: {reason}")


def require_range(
    source: str, steps: NDArray[np.float64], reward: NDArray[np.float64], low: float, high: float
) -> None:
    """Raise `InputError` at the first reward outside [low, high]."""
    outside = np.flatnonzero((reward < low - RANGE_TOLERANCE) | (reward > high + RANGE_TOLERANCE))
    if len(outside):
        first = outside[0]
        raise InputError(
            f"{source}: the reward at step {steps[first]:g} is {reward[first]:.10g}, outside the given reward range "
            f"[{low:g}, {high:g}] ({len(outside)} of {len(reward)} values are). Correct --reward-range or leave it out."
        )


def _zero(reward: float) -> str:
    return " At reward 0 every group has zero variance, so there is no gradient." if reward == 0 else ""
