"""Several runs stacked in one table: recognised, and told apart by their columns."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sde_grpo.errors import InputError, require
from sde_grpo.runs.cells import listed
from sde_grpo.runs.roles import is_scheduled, run_rank, tells_runs_apart
from sde_grpo.runs.source import safe
from sde_grpo.runs.table import Mask, Places, Table, Vector

MOST_RUNS = 1_000


@dataclass(frozen=True)
class Part:
    """One run of a table: what tells it apart (column -> value), and its rows."""

    key: dict[str, str]
    rows: Mask


def selection(key: Mapping[str, str]) -> str:
    """The options that choose the run with this key."""
    return " ".join(f"--select {shlex.quote(f'{safe(name)}={safe(value)}')}" for name, value in key.items())


def split(table: Table, rewarded: Mask, steps: Vector, numbered: bool) -> list[Part]:
    """The runs of a table: the same steps, under different values of a run column.

    `steps` (n,) are those of the rows, `rewarded` (n,) says which hold a reward; where the rows were only `numbered`,
    different values are enough. One part with an empty key stands for a table of one run.
    """
    whole = [Part({}, np.ones(len(table), bool))]
    rows = np.flatnonzero(rewarded)
    names = sorted((name for name in table.columns if tells_runs_apart(name)), key=run_rank)
    ids = {name: table[name].ids()[0] for name in (*names, *filter(is_scheduled, table.columns))}
    varying = [name for name in names if _several(ids[name][rows])]
    legs = _legs(steps[rows])
    if legs.size and legs[-1] > 0:
        varying += [
            name
            for name in filter(is_scheduled, table.columns)
            if _several(ids[name][rows]) and _constant_within(ids[name][rows], legs)
        ]
    if not varying:
        return whole
    keys = _combined([ids[name] for name in varying])
    if not (numbered or _overlap(steps[rows], keys[rows])):
        return whole
    count = len(np.unique(keys[rows]))
    for name in reversed(varying.copy()):
        fewer = [other for other in varying if other != name]
        if fewer and len(np.unique(_combined([ids[other] for other in fewer])[rows])) == count:
            varying = fewer
    keys = _combined([ids[name] for name in varying])
    _, first = np.unique(keys[rows], return_index=True)
    require(
        len(first) <= MOST_RUNS,
        f"The file stacks {len(first):,} runs, told apart by {listed(varying)}; at most {MOST_RUNS:,} are read at "
        "once. Choose some of them with --select.",
    )
    starts = rows[np.sort(first)]
    return [Part({name: table[name].text(int(s)) for name in varying}, keys == keys[s]) for s in starts]


def refuse_several(table: Table, parts: Sequence[Part], source: str) -> None:
    """Raise `InputError` where there is more than one run."""
    if len(parts) < 2:
        return
    names = list(parts[0].key)
    found = "; ".join(f"{safe(name)}: {listed(table[name].values(), 12)}" for name in names)
    raise InputError(
        f"{source} stacks {len(parts)} runs, told apart by {listed(names)} ({found}). "
        f"Choose one, for example with {selection(parts[0].key)}."
    )


def _several(ids: Places) -> bool:
    return len(np.unique(ids[ids > 0])) > 1


def _combined(ids: Sequence[Places]) -> Places:
    keys = np.zeros_like(ids[0])
    for column in ids:
        pairs = keys * (int(column.max(initial=0)) + 1) + column
        keys = np.unique(pairs, return_inverse=True)[1].ravel()
    return keys


def _legs(steps: Vector) -> Places:
    """The number of the stretch between two steps back that each row lies in."""
    known = ~np.isnan(steps)
    back = np.zeros(len(steps), np.int64)
    back[np.flatnonzero(known)[1:]] = np.diff(steps[known]) < 0
    return np.cumsum(back)


def _constant_within(ids: Places, legs: Places) -> bool:
    known = ids > 0
    pairs = np.unique(np.stack([legs[known], ids[known]]), axis=1)
    return pairs.shape[1] == len(np.unique(pairs[0]))


def _overlap(steps: Vector, keys: Places) -> bool:
    known = ~np.isnan(steps)
    pairs = np.unique(np.stack([steps[known], keys[known].astype(float)]), axis=1)
    return pairs.shape[1] > len(np.unique(steps[known]))
