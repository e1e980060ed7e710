"""The grid that mean rewards lie on: multiples of 1/N, where N completions with rewards 0 and 1 are averaged."""

from __future__ import annotations

import numpy as np

from sde_grpo.runs.table import Vector

FINEST = 1 << 14
FEWEST_POINTS = 10
TOLERANCE = 2e-7  # of float32 means, as the trainers log them
ACCIDENT = 1e-9
COARSE = 200


def grid_of(reward: Vector) -> int | None:
    """The least N with all rewards in [0, 1] and on the multiples of 1/N, to `TOLERANCE`; None where there is none.

    At least ten rewards must lie strictly between 0 and 1 (fewer could share a divisor of their counts), and their
    different values must be so many that arbitrary ones would not all fit by accident (1e-9). Values printed with up
    to four decimals lie on a grid for that reason alone, which is not returned.
    """
    inside = reward[(reward > 0) & (reward < 1)]
    if len(inside) < FEWEST_POINTS or reward.min() < 0 or reward.max() > 1:
        return None
    values = np.unique(inside)
    sizes = np.arange(1, FINEST + 1)
    allowed = TOLERANCE * sizes + 1e-9
    sizes, allowed = (x[(2 * allowed) ** len(values) < ACCIDENT] for x in (sizes, allowed))
    for value in values:
        fits = np.abs(sizes * value - np.round(sizes * value)) <= allowed
        sizes, allowed = sizes[fits], allowed[fits]
        if not len(sizes):
            return None
    return None if sizes[0] >= COARSE and 10_000 % sizes[0] == 0 else int(sizes[0])
