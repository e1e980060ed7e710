"""The logged quantities beside the reward, under one name each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sde_grpo.runs.restarts import Restarts, average_repeats
from sde_grpo.runs.roles import SERIES_COLUMNS
from sde_grpo.runs.run import Series
from sde_grpo.runs.table import Mask, Table, Vector


def read_series(table: Table, rows: Mask, steps: Vector, restarts: Restarts) -> dict[str, Series]:
    """From the training rows, each with its step, the first column of each quantity that holds numbers."""
    found = {}
    for name in SERIES_COLUMNS:
        for column in table.with_role(name):
            series = one_series(table, rows, steps, restarts, (column,))
            if series is not None:
                found[name] = series
                break
    return found


def one_series(table: Table, rows: Mask, steps: Vector, restarts: Restarts, columns: Sequence[str]) -> Series | None:
    """The numbers in the first of `columns` that each row has, averaged over the rows of a step; None without any."""
    values = np.full(len(table), np.nan)
    for column in reversed([column for column in columns if column in table]):
        values = np.where(table[column].finite, table[column].numbers, values)
    kept = rows & ~np.isnan(values) & ~np.isnan(steps) & ~restarts.lost(table.numbers, steps)
    return Series(*average_repeats(steps[kept], values[kept])) if kept.any() else None
