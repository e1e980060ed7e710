"""From steps and rewards as they were logged to a `Run`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from sde_grpo.errors import NothingToFitError, require
from sde_grpo.runs.checks import no_trajectory, require_range
from sde_grpo.runs.restarts import Restarts, average_repeats, describe
from sde_grpo.runs.run import Run, Series
from sde_grpo.runs.settings import Settings, warn_of_unit
from sde_grpo.runs.source import safe
from sde_grpo.runs.table import Places, Vector

LARGEST_REWARD = 1e50  # beyond it sums of squares are not far from overflow


@dataclass(frozen=True, eq=False)
class Logged:
    """Rewards in the order of the file, each of shape (n,): row number, step, and value (NaN where it is missing)."""

    numbers: Places
    steps: Vector
    rewards: Vector
    reward_column: str


def assemble(
    source: str,
    logged: Logged,
    restarts: Restarts,
    settings: Settings,
    window: float | None,
    row_steps: Vector,
    series: Mapping[str, Series],
) -> Run:
    """Clean the rewards, place them in time, and put the run together; what forbids a fit becomes a refusal.

    `window` is the number of steps that one logged value averages over, None where each belongs to its own step;
    `row_steps` are the steps of all training rows, with a reward or without.

    Raises `NothingToFitError` where no reward is left, and `InputError` for one outside a declared range or without
    bounds.
    """
    steps, reward, cleaning = _clean(source, logged, restarts)
    settings.warnings[:0] = cleaning
    largest = float(np.abs(reward).max())
    require(
        largest <= LARGEST_REWARD,
        f"{source}: the column {safe(logged.reward_column)} reaches {largest:.3g}, which is no reward; name another "
        "with --reward-column.",
    )
    known = settings.configuration
    if known.reward_range is not None:
        require_range(source, steps, reward, *known.reward_range)
    elif reward.min() >= 0 and reward.max() <= 1:
        settings.add("reward_range", (0.0, 1.0), "assumed: all rewards lie in [0, 1]")
    warn_of_unit(settings)
    reason = no_trajectory(reward)
    run = Run(
        source=source,
        steps=steps,
        times=steps.copy() if window is None else midpoints(steps, np.asarray(row_steps, dtype=float), window),
        reward=reward,
        reward_column=logged.reward_column,
        configuration=settings.configuration,
        provenance={name: settings.provenance[name] for name in settings.configuration.known()},
        series=dict(series),
        warnings=tuple(settings.warnings),
        refusals=() if reason is None else (reason,),
        restarts=len(restarts),
    )
    for array in (run.steps, run.times, run.reward):
        array.setflags(write=False)
    return run


def with_findings(run: Run, warnings: list[str], refusals: list[str]) -> Run:
    """The run with further sentences, each once."""
    return replace(
        run,
        warnings=tuple(dict.fromkeys((*run.warnings, *warnings))),
        refusals=tuple(dict.fromkeys((*run.refusals, *refusals))),
    )


def midpoints(steps: Vector, row_steps: Vector, window: float) -> Vector:
    """step - (gap - 1)/2: the middle of the window that each value averages over.

    The gap runs from the row before, and from step 0 for the first row; it is at most the window, so that a row that
    was lost does not shift the next value.
    """
    rows = np.unique(row_steps)
    before = np.searchsorted(rows, steps) - 1
    previous = np.where(before >= 0, rows[np.maximum(before, 0)], 0.0)
    return steps - (np.clip(steps - previous, 1.0, max(window, 1.0)) - 1.0) / 2.0


def _clean(source: str, logged: Logged, restarts: Restarts) -> tuple[Vector, Vector, list[str]]:
    lost = restarts.lost(logged.numbers, logged.steps)
    warnings = describe(restarts, int(lost.sum()))
    steps, rewards = logged.steps[~lost], logged.rewards[~lost]
    finite = ~np.isnan(rewards)
    missing = int((~finite).sum())
    if missing:
        warnings.append(
            f"{missing} of {len(rewards)} rows were dropped: the reward is missing, not a number or infinite "
            f"(column {safe(logged.reward_column)})."
        )
    if not finite.any():
        raise NothingToFitError(
            f"{source}: the column {safe(logged.reward_column)} holds no finite reward; choose another."
        )
    kept = int(finite.sum())
    order = np.argsort(steps[finite], kind="stable")
    stamped, values = steps[finite][order], rewards[finite][order]
    steps, reward = average_repeats(stamped, values)
    if len(steps) < kept and np.array_equal(reward[np.searchsorted(steps, stamped)], values):
        warnings.append(f"{kept} rows were reduced to {len(steps)}: some steps were logged more than once, unchanged.")
    elif len(steps) < kept:
        warnings.append(
            f"{kept} rows were averaged to {len(steps)}: consecutive rows with the same step are taken as "
            "micro-batches of it."
        )
    return steps, reward, warnings
