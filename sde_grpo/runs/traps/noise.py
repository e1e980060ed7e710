"""Traps seen in the reward values themselves: copies, smoothing, heavy tails."""

from __future__ import annotations

import re

import numpy as np

from sde_grpo.runs.grid import grid_of
from sde_grpo.runs.run import Run
from sde_grpo.runs.table import Vector

MOSTLY = 0.5
FEWEST_STRETCHES = 10
FEWEST_POINTS = 30
FEWEST_TO_REFUSE = 60
FEWEST_FOR_TAILS = 60
OUTLIER = 6.0
SMOOTH_NAME = re.compile(
    r"(^|[^a-z])(smooth\w*|ema|ewma|rolling|running|moving)([^a-z]|$)|smoothed|(running|rolling|moving)_?(avg|average|mean)"
)


def forward_filled(reward: Vector) -> str | None:
    """A warning where most values repeat the one before, or all change at multiples of one interval alone.

    Repeats of 0 and 1 do not count, for a run can sit there.
    """
    same = reward[1:] == reward[:-1]
    repeats = same & (reward[1:] != 0.0) & (reward[1:] != 1.0)
    stretches = np.diff(np.flatnonzero(~same))
    evenly = len(stretches) >= FEWEST_STRETCHES and np.gcd.reduce(stretches) > 1
    if not repeats.any() or (repeats.mean() <= MOSTLY and not evenly):
        return None
    return (
        f"{repeats.sum()} of {len(reward)} rewards repeat the one before exactly: the rows look forward-filled from a "
        "sparser log. Keep only the rows that were logged, for the copies make the noise look smaller than it is."
    )


def smoothed(run: Run) -> str | None:
    """A sentence where the rewards were smoothed, by the column's name or by their noise.

    The noise of sampled batches is independent from step to step, so that neighbouring first differences of the
    rewards have correlation -1/2, and second differences, in which a trend hardly counts, -2/3. Exponential smoothing
    with weight a moves the first to -(1 - a)/2, a window of w values to 0. Where N, the number of completions, is known
    or shown by the grid of 1/N that the rewards lie on, those whose noise has at least half the variance of N coin
    flips are as they were sampled.
    """
    if SMOOTH_NAME.search(run.reward_column.lower()):
        return (
            f"The column {run.reward_column} is named as smoothed. {_WHY_NOT} Name the raw column with --reward-column."
        )
    count = len(run.reward)
    if count < FEWEST_POINTS or forward_filled(run.reward) is not None or _at_least_coin_flips(run):
        return None
    first, second = (_neighbours(np.diff(run.reward, order)) for order in (1, 2))
    if first is None or second is None:
        return None
    # A value that averages batches has less of their noise, beside which the wander of the reward shows.
    least = 0.17 if (run.configuration.rows_averaged or 1) == 1 else 0.3
    if first <= -1 / 2 + max(least, 2.5 / np.sqrt(count)) or second <= -2 / 3 + max(0.05, 1 / np.sqrt(count)):
        return None
    return (
        f"The rewards look smoothed: neighbouring differences have correlation {first:.2f}, where the noise of "
        f"sampled batches gives -0.5. {_WHY_NOT} Export the raw values; if these are raw, a fit needs --anyway."
    )


def _neighbours(steps: Vector) -> float | None:
    """The correlation of neighbouring values about their median, far ones drawn in; None where most are equal."""
    steps = steps - np.median(steps)
    size = 1.4826 * float(np.median(np.abs(steps)))
    if size == 0:
        return None
    steps = np.clip(steps / size, -3, 3)
    return float((steps[1:] * steps[:-1]).sum() / (steps * steps).sum())


def heavy_tails(run: Run, row_max: Vector, row_min: Vector) -> str | None:
    """A warning where single rewards or whole batches lie far outside the rest."""
    if len(row_max) and len(row_min):
        high, low = float(np.median(row_max)), float(np.median(row_min))
        span = high - low
        if row_max.max() > max(high + span, 1.0) or row_min.min() < min(low - span, 0.0):
            return (
                f"Single rewards reach from {row_min.min():.3g} to {row_max.max():.3g}, where a usual batch has "
                f"{low:.3g} to {high:.3g}: a few such outliers move the mean of a batch. The noise has heavy tails; "
                "clip the rewards, or look at the success rate instead."
            )
    reward = run.reward
    if len(reward) < FEWEST_FOR_TAILS:
        return None
    width = 7
    padded = np.pad(reward, width // 2, mode="edge")
    rest = reward - np.median(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1)
    typical = float(np.median(np.abs(rest[rest != 0]))) if (rest != 0).mean() > 0.4 else 0.0
    far = np.abs(rest) > OUTLIER * 1.4826 * typical
    if typical == 0 or not far.any():
        return None
    worst = int(np.argmax(np.abs(rest)))
    return (
        f"{far.sum()} of {len(reward)} rewards are outliers, which lie more than {OUTLIER:g} standard deviations from "
        f"their neighbours, the farthest at step {run.steps[worst]:g} ({reward[worst]:.3g}): the noise has heavy "
        "tails, which the model does not."
    )


_WHY_NOT = (
    "Smoothing destroys the noise, by which learning is told from chance, and delays the curve, so a fit would mean "
    "nothing."
)


def _at_least_coin_flips(run: Run) -> bool:
    """Whether the step-to-step noise has half the variance of N coin flips, where N is known."""
    known, completions = run.configuration, grid_of(run.reward)
    if completions is None:
        if known.group_size is None or known.prompts_per_step is None or known.reward_range != (0.0, 1.0):
            return False
        completions = known.group_size * known.prompts_per_step * (known.rows_averaged or 1.0)
    flips = float(np.mean(run.reward * (1 - run.reward))) / completions
    return float(np.mean(np.diff(run.reward, 2) ** 2)) / 6 >= 0.5 * flips > 0
