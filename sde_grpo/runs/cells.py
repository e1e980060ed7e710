"""Rows of a log, and the numbers in their cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

MISSING_WORDS = frozenset({"", "null", "none", "na", "n/a"})


@dataclass(frozen=True)
class Row:
    """One row: its `number`, counted as its file counts (lines or entries), and its flat `cells`."""

    number: int
    cells: Mapping[str, Any]


def number(cell: Any) -> float | None:
    """The finite value of a cell; None for a missing, NaN or infinite one. Raises `ValueError` for anything else."""
    if cell is None:
        return None
    if isinstance(cell, str):
        word = cell.strip()
        if word.lower() in MISSING_WORDS:
            return None
        if "_" in word:  # float() would read 1_000
            raise ValueError(cell)
        value = float(word)
    elif isinstance(cell, (int, float)) and not isinstance(cell, bool):
        try:
            value = float(cell)
        except OverflowError:
            return None
    else:
        raise ValueError(cell)
    return value if isfinite(value) else None


def step_number(cell: Any) -> float | None:
    """As `number`; of ``"10/500"`` (step/last step) the first part."""
    if isinstance(cell, str) and "/" in cell and cell.strip().lower() not in MISSING_WORDS:
        return number(cell.split("/")[0])
    return number(cell)


def number_or_none(cell: Any) -> float | None:
    """As `number`, and None for a cell that holds no number."""
    try:
        return number(cell)
    except ValueError:
        return None


def has_value(row: Row, column: str) -> bool:
    """Whether the row has a cell of that name that is not missing."""
    cell = row.cells.get(column)
    try:
        return number(cell) is not None
    except ValueError:
        return True


def columns_of(rows: Sequence[Row]) -> list[str]:
    """All column names, in the order in which they first appear."""
    return list(dict.fromkeys(column for row in rows for column in row.cells))


def listed(names: Sequence[str], most: int = 30) -> str:
    """The names as one phrase, cut after `most`."""
    if not names:
        return "none"
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
