"""From steps and rewards as they were logged to a `Run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sde_grpo.errors import NothingToFitError
from sde_grpo.runs.checks import forward_filled, require_range, require_trajectory
from sde_grpo.runs.restarts import Restart, average_repeats, describe, is_lost
from sde_grpo.runs.run import Run, Series
from sde_grpo.runs.settings import Settings, warn_of_unit

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Logged:
    """Rewards in the order of the file: row number, step, and value (None where it is missing)."""

    numbers: Sequence[int]
    steps: Sequence[float]
    rewards: Sequence[float | None]
    reward_column: str


def assemble(
    source: str,
    logged: Logged,
    restarts: Sequence[Restart],
    settings: Settings,
    window: float | None,
    row_steps: Sequence[float],
    series: Mapping[str, Series],
) -> Run:
    """Clean the rewards, place them in time, check that they can be fitted, and put the run together.

    `window` is the number of steps that one logged value averages over, None where each belongs to its own step;
    `row_steps` are the steps of all training rows, with a reward or without.

    Raises `NothingToFitError` and `InputError`.
    """
    steps, reward, cleaning = _clean(source, logged, restarts)
    require_trajectory(source, reward)
    settings.warnings[:0] = cleaning
    known = settings.configuration
    if known.reward_range is not None:
        require_range(source, steps, reward, *known.reward_range)
    elif reward.min() >= 0 and reward.max() <= 1:
        settings.add("reward_range", (0.0, 1.0), "assumed: all rewards lie in [0, 1]")
    filled = forward_filled(reward)
    if filled is not None:
        settings.warnings.append(filled)
    warn_of_unit(settings)
    run = Run(
        source=source,
        steps=steps,
        times=steps.copy() if window is None else midpoints(steps, np.asarray(row_steps, dtype=float), window),
        reward=reward,
        reward_column=logged.reward_column,
        configuration=settings.configuration,
        provenance=settings.provenance,
        series=dict(series),
        warnings=tuple(settings.warnings),
    )
    for array in (run.steps, run.times, run.reward):
        array.setflags(write=False)
    return run


def midpoints(steps: Vector, row_steps: Vector, window: float) -> Vector:
    """step - (gap - 1)/2: the middle of the window that each value averages over.

    The gap runs from the row before, and from step 0 for the first row; it is at most the window, so that a row that
    was lost does not shift the next value.
    """
    rows = np.unique(row_steps)
    before = np.searchsorted(rows, steps) - 1
    previous = np.where(before >= 0, rows[np.maximum(before, 0)], 0.0)
    return steps - (np.clip(steps - previous, 1.0, max(window, 1.0)) - 1.0) / 2.0


def _clean(source: str, logged: Logged, restarts: Sequence[Restart]) -> tuple[Vector, Vector, list[str]]:
    warnings = []
    rows = list(zip(logged.numbers, logged.steps, logged.rewards, strict=True))
    kept = [row for row in rows if not is_lost(row[0], row[1], restarts)]
    if restarts:
        warnings.append(describe(restarts, len(rows) - len(kept)))
    pairs = [(step, reward) for _, step, reward in kept if reward is not None]
    missing = len(kept) - len(pairs)
    if missing:
        warnings.append(
            f"{missing} of {len(kept)} rows were dropped: the reward is missing, not a number or infinite "
            f"(column {logged.reward_column})."
        )
    if not pairs:
        raise NothingToFitError(f"{source}: the column {logged.reward_column} holds no finite reward; choose another.")
    steps, reward = average_repeats(*np.array(pairs, dtype=float).T)
    if len(steps) < len(pairs):
        warnings.append(
            f"{len(pairs)} rows were averaged to {len(steps)}: consecutive rows with the same step are taken as "
            "micro-batches of it."
        )
    return steps, reward, warnings
