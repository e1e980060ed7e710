"""Traps seen in the reward values themselves: copies, smoothing, heavy tails."""

from __future__ import annotations

import numpy as np

from sde_grpo.runs.table import Vector

MOSTLY = 0.5


def forward_filled(reward: Vector) -> str | None:
    """A warning where most values repeat the one before; repeats of 0 and 1 do not count, for a run can sit there."""
    repeats = (reward[1:] == reward[:-1]) & (reward[1:] != 0.0) & (reward[1:] != 1.0)
    if not len(repeats) or repeats.mean() <= MOSTLY:
        return None
    return (
        f"{repeats.sum()} of {len(reward)} rewards repeat the one before exactly: the rows look forward-filled from a "
        "sparser log. Keep only the rows that were logged, for the copies make the noise look smaller than it is."
    )
