"""Kinds of row (rollout, train, eval), and the rows that were asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sde_grpo.errors import InputError, require
from sde_grpo.runs.cells import listed, number_or_none
from sde_grpo.runs.roles import KIND_COLUMNS
from sde_grpo.runs.source import safe
from sde_grpo.runs.table import Column, Mask, Table

TRAINING_KINDS = ("rollout", "train", "training")
HELD_OUT_KINDS = ("eval", "evaluation", "val", "valid", "validation", "test", "dev", "heldout", "held_out", "held-out")


@dataclass(frozen=True)
class Kind:
    """The rows of one kind, as a mask over the table; the name is None where the log does not tell kinds apart."""

    name: str | None
    rows: Mask

    @property
    def held_out(self) -> bool:
        return self.name in HELD_OUT_KINDS


def by_kind(table: Table) -> list[Kind]:
    """The rows by kind, in the order in which the training reward is looked for: rollout, train, others, held out."""
    order = {name: place for place, name in enumerate((*TRAINING_KINDS, "", *HELD_OUT_KINDS))}
    for name in KIND_COLUMNS:
        if name not in table:
            continue
        column = table[name]
        words = [word.strip().lower() for word in column.words]
        if not {words[code] for code in np.unique(column.codes) if code >= 0} & {*TRAINING_KINDS, *HELD_OUT_KINDS}:
            continue
        kinds = np.array([*words, ""])[column.codes]
        found = [Kind(str(kind), kinds == kind) for kind in np.unique(kinds)]
        return sorted(found, key=lambda kind: (order.get(str(kind.name), order[""]), str(kind.name)))
    return [Kind(None, np.ones(len(table), bool))]


def held_out_rows(table: Table, reward_column: str) -> Mask:
    """The evaluation rows of Hugging Face's Trainer and its like: a held-out reward, but no training reward."""
    reward = table[reward_column].filled if reward_column in table else np.zeros(len(table), bool)
    held_out = np.zeros(len(table), bool)
    for name in table.with_role("held-out reward"):
        held_out |= table[name].filled
    return held_out & ~reward


def select_rows(table: Table, wanted: Mapping[str, str], source: str) -> Table:
    """The rows in which every column in `wanted` has its value, compared as texts and as numbers.

    Raises `InputError` for a column that does not exist, and, with the values found, where no row matches.
    """
    for name, value in wanted.items():
        require(
            name in table,
            f"{source}: there is no column {safe(name)!r} (--select {name}={value}); "
            f"the columns are {listed(list(table.names), 60)}.",
        )
        matching = table.take(_same(table[name], value))
        if not len(matching):
            found = listed(table[name].values())
            raise InputError(f"{source}: no row has {name}={value} (--select); the values found are {found}.")
        table = matching
    return table


def _same(column: Column, value: str) -> Mask:
    value = str(value).strip()
    as_number = number_or_none(value)
    codes = [code for code, word in enumerate(column.words) if word == value]
    rows = np.isin(column.codes, codes)
    return rows if as_number is None else rows | (column.numbers == as_number)
