"""Kinds of row (rollout, train, eval), and the rows that were asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sde_grpo.errors import InputError, require
from sde_grpo.runs.cells import Row, columns_of, has_value, listed, number_or_none

KIND_COLUMNS = ("type", "kind", "split", "phase")
TRAINING_KINDS = ("rollout", "train", "training")
HELD_OUT_KINDS = ("eval", "evaluation", "val", "valid", "validation", "test")
EVAL_REWARD_COLUMNS = ("eval_reward", "eval/reward")


@dataclass(frozen=True)
class Kind:
    """The rows of one kind; the name is None where the log does not tell kinds apart."""

    name: str | None
    rows: list[Row]

    @property
    def held_out(self) -> bool:
        return self.name in HELD_OUT_KINDS


def by_kind(rows: Sequence[Row]) -> list[Kind]:
    """The rows by kind, in the order in which the training reward is looked for: rollout, train, others, held out."""
    for column in KIND_COLUMNS:
        names = [_text(row.cells.get(column)).lower() for row in rows]
        if not set(names) & {*TRAINING_KINDS, *HELD_OUT_KINDS}:
            continue
        order = {name: place for place, name in enumerate((*TRAINING_KINDS, "", *HELD_OUT_KINDS))}
        kinds = [
            Kind(kind, [row for row, name in zip(rows, names, strict=True) if name == kind]) for kind in set(names)
        ]
        return sorted(kinds, key=lambda kind: (order.get(str(kind.name), order[""]), str(kind.name)))
    return [Kind(None, list(rows))]


def is_held_out(row: Row, reward_column: str) -> bool:
    """Whether this is an evaluation row of Hugging Face's Trainer: an eval reward, but no training reward."""
    return not has_value(row, reward_column) and any(has_value(row, column) for column in EVAL_REWARD_COLUMNS)


def select_rows(rows: Sequence[Row], wanted: Mapping[str, str], source: str) -> list[Row]:
    """The rows in which every column in `wanted` has its value, compared as texts and as numbers.

    Raises `InputError` for a column that does not exist, and, with the values found, where no row matches.
    """
    kept = list(rows)
    columns = columns_of(rows)
    for column, value in wanted.items():
        require(
            column in columns,
            f"{source}: there is no column {column!r} (--select {column}={value}); "
            f"the columns are {listed(columns, 60)}.",
        )
        matching = [row for row in kept if _same(row.cells.get(column), value)]
        if not matching:
            found = list(dict.fromkeys(_text(row.cells[column]) for row in kept if column in row.cells))
            raise InputError(f"{source}: no row has {column}={value} (--select); the values found are {listed(found)}.")
        kept = matching
    return kept


def _same(cell: object, value: str) -> bool:
    if _text(cell) == str(value).strip():
        return True
    left, right = number_or_none(cell), number_or_none(value)
    return left is not None and left == right


def _text(cell: object) -> str:
    return "" if cell is None else str(cell).strip()
