"""Which column holds the reward, and which the step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sde_grpo.errors import InputError, require
from sde_grpo.runs.cells import listed
from sde_grpo.runs.roles import REWARD_COLUMNS
from sde_grpo.runs.rows import Kind, held_out_rows
from sde_grpo.runs.source import safe
from sde_grpo.runs.table import Mask, Table

REWARD_WORDS = ("reward", "score", "acc")


@dataclass(frozen=True)
class Choice:
    """The columns to read: `step` is None where the rows have to be numbered. `rows` are those of the chosen kind."""

    reward: str
    step: str | None
    rows: Mask
    kind: str | None
    warnings: tuple[str, ...]


def choose(
    table: Table, kinds: Sequence[Kind], source: str, reward_column: str | None, step_column: str | None
) -> Choice:
    """The reward column, the kind of row that holds it, and the step column.

    Kinds are tried in order; a given name wins over the table of names. Raises `InputError` where a given column does
    not exist or no column is recognised.
    """
    for given, option in ((reward_column, "--reward-column"), (step_column, "--step-column")):
        require(
            given is None or given in table,
            f"{source}: there is no column {given!r} ({option}); the columns are {listed(list(table.names), 60)}.",
        )
    candidates = [reward_column] if reward_column is not None else table.with_role("reward")
    kind, present = next(
        (
            (kind, found)
            for kind in kinds
            if (found := [name for name in candidates if (table[name].filled & kind.rows).any()])
        ),
        (None, []),
    )
    warnings = []
    if kind is None:
        held_out = [] if reward_column is not None else table.with_role("held-out reward")
        kind = next((kind for kind in kinds if any((table[name].filled & kind.rows).any() for name in held_out)), None)
        if kind is None:
            raise InputError(_no_reward(table, source, reward_column))
        present = [name for name in held_out if (table[name].filled & kind.rows).any()]
        warnings.append(f"Only {present[0]} was found: this is the held-out curve, not the training reward.")
    reward = present[0]
    others = _others(table, kind.rows, present)
    if others:
        warnings.append(
            f"The reward is read from {safe(reward)}; {listed(others)} could also be meant (--reward-column)."
        )
    if kind.held_out:
        warnings.append(
            f"Only rows of kind {kind.name} hold {safe(reward)}: this is the held-out curve, not the training reward."
        )
    rewarded = kind.rows & table[reward].present
    step = step_column or next((c for c in table.with_role("step") if (table[c].filled & rewarded).any()), None)
    if step is None:
        warnings.append(
            "No step column was found, so the rows are numbered from 1; if there is one, name it with --step-column."
        )
    return Choice(reward, step, kind.rows, kind.name, tuple(warnings))


def training_rows(table: Table, kinds: Sequence[Kind], choice: Choice) -> Mask:
    """The rows of training, of every kind."""
    rows = np.zeros(len(table), bool)
    for kind in kinds:
        if not kind.held_out or kind.name == choice.kind:
            rows |= kind.rows
    return rows & ~held_out_rows(table, choice.reward)


def _others(table: Table, rows: Mask, present: list[str]) -> list[str]:
    """The further candidates that hold other values than the first."""
    taken, *others = present
    here = rows & table[taken].present
    values = table[taken].numbers[here]
    return [name for name in others if not np.array_equal(table[name].numbers[here], values, equal_nan=True)]


def _no_reward(table: Table, source: str, given: str | None) -> str:
    if given is not None:
        return f"{source}: the column {given!r} holds no value; name another with --reward-column."
    if empty := [name for name in table.with_role("reward") if not table[name].filled.any()]:
        return f"{source}: the column {safe(empty[0])} holds no number; name another with --reward-column."
    numeric = [name for name, is_number in table.names.items() if is_number]
    alike = [name for name in numeric if any(word in name.lower() for word in REWARD_WORDS)]
    found = f"columns that look like one are {listed(alike)}" if alike else f"the numeric columns are {listed(numeric)}"
    return (
        f"{source}: no reward column was recognised (known names are {listed(list(REWARD_COLUMNS))}); {found}. "
        "Name the right one with --reward-column."
    )
