"""Steps that go back, and steps that are logged more than once.

The rule. Where the step goes back, a restarted run was appended to the log: its rows win, and every earlier row with
a step at or after the restart's first step is dropped, for that part of the training was lost. Consecutive rows with
the same step are micro-batches of one step: their values are averaged. Rows that are merely out of order, none of
their steps logged twice, are sorted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sde_grpo.errors import require
from sde_grpo.runs.table import Mask, Places, Vector

MOST_RESTARTS = 0.25
MOST_LOST = 0.5
MOST_LATE = 1_000  # more places than that are no restarts, where no step is logged twice
LATE_ROWS = 2  # rows that a late one may come after and still be late, rather than the first of a restarted run


@dataclass(frozen=True, eq=False)
class Restarts:
    """At the rows numbered `rows` (r,) the step goes back from `left` (r,) to `steps` (r,)."""

    rows: Places
    left: Vector
    steps: Vector
    shuffled: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    def lost(self, rows: Places, steps: Vector) -> Mask:
        """Which of the rows, given by number and step, a later leg of the run replaced."""
        if not len(self):
            return np.zeros(len(rows), bool)
        least_after = np.append(np.minimum.accumulate(self.steps[::-1])[::-1], np.inf)
        return steps >= least_after[np.searchsorted(self.rows, rows, side="right")]


NO_RESTARTS = Restarts(np.empty(0, np.int64), np.empty(0), np.empty(0))


def find_restarts(numbers: Places, steps: Vector, source: str) -> Restarts:
    """Every place where the step goes back; raises `InputError` where it does so too often for a log."""
    back = np.flatnonzero(np.diff(steps) < 0) + 1
    if not len(back):
        return NO_RESTARTS
    often = len(back) > MOST_RESTARTS * len(steps)
    if len(np.unique(steps)) < len(steps):
        require(
            not often,
            f"{source}: the step goes back {len(back)} times in {len(steps)} rows, so they are not in the order of "
            "time. Sort the rows by step, name another column with --step-column, or, where several runs alternate, "
            "keep the rows of one.",
        )
        return Restarts(numbers[back], steps[back - 1], steps[back])
    out_of_order = replace(NO_RESTARTS, shuffled=len(back))
    if often or len(back) > MOST_LATE:
        return out_of_order
    # Late rows pass few others, and these are not logged again.
    ahead = np.maximum.accumulate(steps)
    overtaken = [int((steps[max(0, b - LATE_ROWS - 1) : b] > steps[b]).sum()) for b in back]
    late = np.array(
        [o <= LATE_ROWS and not (steps[b + 1 : b + 2] < ahead[b]).any() for b, o in zip(back, overtaken, strict=True)]
    )
    legs = back[~late]
    restarts = Restarts(numbers[legs], steps[legs - 1], steps[legs], int(late.sum()))
    # Without a step logged twice, what would replace most of the log is no restarted run.
    return restarts if restarts.lost(numbers, steps).mean() <= MOST_LOST else out_of_order


def average_repeats(steps: Vector, values: Vector) -> tuple[Vector, Vector]:
    """Strictly increasing steps, and the mean of the values at each."""
    unique, place, counts = np.unique(steps, return_inverse=True, return_counts=True)
    return unique, np.bincount(place, weights=values, minlength=len(unique)) / counts


def describe(restarts: Restarts, dropped: int) -> list[str]:
    """The warnings."""
    sentences = []
    if len(restarts):
        again = f" ({len(restarts)} times in all; the first is described)" if len(restarts) > 1 else ""
        sentences.append(
            f"The steps go back from {restarts.left[0]:g} to {restarts.steps[0]:g}{again}: a restarted run was "
            f"appended. Its rows were kept, and {dropped} earlier {'row' if dropped == 1 else 'rows'} with the same or "
            "later steps dropped."
        )
    if restarts.shuffled:
        sentences.append(
            f"The step goes back {restarts.shuffled} times, but no step is logged twice: the rows were out of order, "
            "and were sorted."
        )
    return sentences
