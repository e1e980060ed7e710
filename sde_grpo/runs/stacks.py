"""Several runs stacked in one table: recognised, and refused until one of them is selected."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from sde_grpo.errors import InputError
from sde_grpo.runs.cells import Row, listed, number_or_none

# Columns that tell runs apart; the ones people would name first come first.
RUN_COLUMNS = (
    "group_size",
    "num_generations",
    "rollout_n",
    "seed",
    "label",
    "run",
    "run_name",
    "run_id",
    "experiment",
    "experiment_name",
    "name",
    "tag",
    "model",
    "variant",
    "trial",
)
# These also change within one run, under a schedule: they count only where they are constant between restarts.
SCHEDULED_COLUMNS = ("learning_rate", "lr")


def require_one_run(rows: Sequence[Row], steps: Sequence[float | None], source: str, numbered: bool) -> None:
    """Raise `InputError` where the rows stack several runs: the same steps, under different values of a run column.

    `steps` are those of `rows`; where they were only `numbered`, different values are enough.
    """
    columns = [column for column in RUN_COLUMNS if len(_values(rows, column)) > 1]
    blocks = _blocks(rows, steps)
    if len(blocks) > 1:
        columns += [
            column
            for column in SCHEDULED_COLUMNS
            if len(_values(rows, column)) > 1 and all(len(_values(block, column)) == 1 for block in blocks)
        ]
    if not columns:
        return
    runs = _runs(rows, columns)
    seen: dict[float, tuple[str, ...]] = {}
    overlap = numbered
    for row, step in zip(rows, steps, strict=True):
        if step is not None:
            key = _key(row, columns)
            overlap |= seen.setdefault(step, key) != key
    if not overlap:
        return
    for column in reversed(columns.copy()):
        fewer = [other for other in columns if other != column]
        if fewer and len(_runs(rows, fewer)) == len(runs):
            columns = fewer
    example = next(iter(_runs(rows, columns)))
    choice = " ".join(f"--select {shlex.quote(f'{c}={value}')}" for c, value in zip(columns, example, strict=True))
    found = "; ".join(f"{column}: {listed(_values(rows, column), 12)}" for column in columns)
    raise InputError(
        f"{source} stacks {len(runs)} runs, told apart by {listed(columns)} ({found}). "
        f"Choose one, for example with {choice}."
    )


def _values(rows: Sequence[Row], column: str) -> list[str]:
    found = dict.fromkeys(_text(row.cells.get(column)) for row in rows)
    return [value for value in found if value]


def _key(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(_text(row.cells.get(column)) for column in columns)


def _runs(rows: Sequence[Row], columns: Sequence[str]) -> dict[tuple[str, ...], None]:
    return dict.fromkeys(_key(row, columns) for row in rows)


def _blocks(rows: Sequence[Row], steps: Sequence[float | None]) -> list[list[Row]]:
    blocks: list[list[Row]] = [[]]
    last = None
    for row, step in zip(rows, steps, strict=True):
        if last is not None and step is not None and step < last:
            blocks.append([])
        blocks[-1].append(row)
        last = step if step is not None else last
    return blocks


def _text(cell: object) -> str:
    value = number_or_none(cell)
    return f"{value:.12g}" if value is not None else "" if cell is None else str(cell).strip()
