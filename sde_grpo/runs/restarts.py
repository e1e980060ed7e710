"""Steps that go back, and steps that are logged more than once.

The rule. Where the step goes back, a restarted run was appended to the log: its rows win, and every earlier row with
a step at or after the restart's first step is dropped, for that part of the training was lost. Consecutive rows with
the same step are micro-batches of one step: their values are averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sde_grpo.errors import InputError

MOST_RESTARTS = 0.25


@dataclass(frozen=True)
class Restart:
    """At the row numbered `row` the step goes back from `left` to `step`."""

    row: int
    left: float
    step: float

    def loses(self, row: int, step: float) -> bool:
        """Whether this restart makes a row void."""
        return row < self.row and step >= self.step


def find_restarts(numbers: Sequence[int], steps: Sequence[float], source: str) -> list[Restart]:
    """Every place where the step goes back; raises `InputError` where it does so too often for a log."""
    pairs = list(zip(numbers, steps, strict=True))
    found = [Restart(number, previous, step) for (_, previous), (number, step) in pairwise(pairs) if step < previous]
    if len(found) > MOST_RESTARTS * len(pairs):
        raise InputError(
            f"{source}: the step goes back {len(found)} times in {len(pairs)} rows, so they are not in the order of "
            "time. Sort the rows by step, name another column with --step-column, or, where several runs alternate, "
            "keep the rows of one."
        )
    return found


def is_lost(row: int, step: float, restarts: Sequence[Restart]) -> bool:
    """Whether a later leg of the run replaced this row."""
    return any(restart.loses(row, step) for restart in restarts)


def average_repeats(
    steps: NDArray[np.float64], values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Strictly increasing steps, and the mean of the values at each."""
    unique, place, counts = np.unique(steps, return_inverse=True, return_counts=True)
    return unique, np.bincount(place, weights=values, minlength=len(unique)) / counts


def describe(restarts: Sequence[Restart], dropped: int) -> str:
    """The warning."""
    first = restarts[0]
    again = f" ({len(restarts)} times in all; the first is described)" if len(restarts) > 1 else ""
    return (
        f"The steps go back from {first.left:g} to {first.step:g}{again}: a restarted run was appended. Its rows were "
        f"kept, and {dropped} earlier {'row' if dropped == 1 else 'rows'} with the same or later steps dropped."
    )
