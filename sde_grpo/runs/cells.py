"""The number in a cell of a log, and names as a phrase."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from sde_grpo.runs.source import safe

MISSING_WORDS = frozenset({"", "null", "none", "na", "n/a"})


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


def number_or_none(cell: Any) -> float | None:
    """As `number`, and None for a cell that holds no number."""
    try:
        return number(cell)
    except ValueError:
        return None


def listed(names: Sequence[str], most: int = 30) -> str:
    """The names as one phrase, cut after `most`, without anything a terminal would obey."""
    if not names:
        return "none"
    rest = len(names) - most
    return ", ".join(safe(name) for name in names[:most]) + (f" and {rest} more" if rest > 0 else "")
