"""The two ways to a `Run`: from a file, and from arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sde_grpo.errors import InputError, require
from sde_grpo.runs.assemble import Logged, assemble
from sde_grpo.runs.cells import Row, number, step_number
from sde_grpo.runs.columns import REWARD_COLUMNS, Choice, choose
from sde_grpo.runs.configuration import NOTHING_KNOWN, Configuration
from sde_grpo.runs.further_series import one_series, read_series
from sde_grpo.runs.readers import read_log
from sde_grpo.runs.restarts import find_restarts, is_lost
from sde_grpo.runs.rows import EVAL_REWARD_COLUMNS, by_kind, is_held_out, select_rows
from sde_grpo.runs.run import Run
from sde_grpo.runs.settings import Settings, averaging_window, from_log
from sde_grpo.runs.stacks import require_one_run


def read_run(
    path: str | Path,
    *,
    reward_column: str | None = None,
    step_column: str | None = None,
    select: Mapping[str, str] = {},
    options: Configuration = NOTHING_KNOWN,
    config_file: str | Path | None = None,
) -> Run:
    """Read one run from a log.

    **Arguments**

    - `path`: trainer_state.json, JSON Lines, a JSON list of rows, CSV or TSV; told apart by content.
    - `reward_column`, `step_column`: names, where the documented ones (`columns.py`) do not fit.
    - `select`: column -> value; only rows with these values are read. Needed where a file stacks several runs.
    - `options`: settings that win over those of the file.
    - `config_file`: TOML with further settings, which win over those of the log.

    Where the step goes back, a restarted run was appended: its rows win, and the earlier rows with the same or later
    steps are dropped. Consecutive rows with one step are averaged. Both are warned of.

    Raises `InputError` for what cannot be read, and `NothingToFitError` for a log without a trajectory.
    """
    path = Path(path)
    source = path.name
    log = read_log(path)
    rows = select_rows(log.rows, select, source)
    kinds = by_kind(rows)
    choice = choose(kinds, source, reward_column, step_column)
    training = [
        row
        for kind in kinds
        if not kind.held_out or kind.name == choice.kind
        for row in kind.rows
        if not is_held_out(row, choice.reward)
    ]
    training.sort(key=lambda row: row.number)
    rewarded = [row for row in choice.rows if choice.reward in row.cells and not is_held_out(row, choice.reward)]
    stamp = _stamps(choice, rewarded, source, log.row_name)
    steps = [stamp(row) for row in rewarded]
    require_one_run(rewarded, steps, source, numbered=choice.step is None)

    stamped = [(row, step) for row, step in zip(rewarded, steps, strict=True) if step is not None]
    logged = Logged(
        numbers=[row.number for row, _ in stamped],
        steps=[step for _, step in stamped],
        rewards=[_read(number, row, choice.reward, source, log.row_name, "--reward-column") for row, _ in stamped],
        reward_column=choice.reward,
    )
    restarts = find_restarts(logged.numbers, logged.steps, source)

    settings = from_log(log, choice, training)
    settings.warnings[:0] = [*log.warnings, *choice.warnings]
    if len(stamped) < len(rewarded):
        settings.warnings.append(f"{len(rewarded) - len(stamped)} rows without a step ({choice.step}) were dropped.")
    if config_file is not None:
        settings.override(Configuration.from_toml(config_file), Path(config_file).name)
    settings.override(options, None)
    chosen = {row.number for row in choice.rows}
    row_steps = [step for row in training if row.number in chosen and (step := stamp(row)) is not None]
    window = averaging_window(settings, log.logging_steps, row_steps)

    series = read_series([(row, step) for row in training if (step := stamp(row)) is not None], restarts)
    held_out = [row for kind in kinds if kind.name != choice.kind and kind.held_out for row in kind.rows]
    evaluated = one_series(
        [
            (row, step)
            for row in held_out or rows
            if (step := stamp(row)) is not None and not is_lost(row.number, step, restarts)
        ],
        (choice.reward, *EVAL_REWARD_COLUMNS, *REWARD_COLUMNS) if held_out else EVAL_REWARD_COLUMNS,
    )
    if evaluated is not None:
        series["eval_reward"] = evaluated
    return assemble(source, logged, restarts, settings, window, row_steps, series)


def run_from_arrays(
    steps: ArrayLike,
    reward: ArrayLike,
    *,
    configuration: Configuration = NOTHING_KNOWN,
    source: str = "arrays",
) -> Run:
    """A run from steps and rewards, both of shape (n,), under the same rules and checks as `read_run`."""
    stamps, values = np.asarray(steps, dtype=float), np.asarray(reward, dtype=float)
    require(
        stamps.ndim == 1 and stamps.shape == values.shape,
        f"{source}: steps have shape {stamps.shape} and rewards {values.shape}; both must be (n,), with the same n.",
    )
    require(bool(np.isfinite(stamps).all()), f"{source}: some steps are NaN or infinite; drop those rows first.")
    numbers = range(1, len(stamps) + 1)
    logged = Logged(numbers, stamps.tolist(), [number(value) for value in values.tolist()], "reward")
    settings = Settings(Configuration())
    settings.override(configuration, "argument")
    restarts = find_restarts(numbers, logged.steps, source)
    window = averaging_window(settings, None, logged.steps)
    return assemble(source, logged, restarts, settings, window, logged.steps, {})


def _stamps(choice: Choice, rewarded: Sequence[Row], source: str, row_name: str) -> Callable[[Row], float | None]:
    """The function from a row to its step. Only in a row with a reward is a step that is no number an error."""
    numbers = {row.number: float(place) for place, row in enumerate(rewarded, start=1)}
    column = choice.step
    if column is None:
        return lambda row: numbers.get(row.number)

    def stamp(row: Row) -> float | None:
        if row.number in numbers:
            return _read(step_number, row, column, source, row_name, "--step-column")
        try:
            return step_number(row.cells.get(column))
        except ValueError:
            return None

    return stamp


def _read(
    parse: Callable[[Any], float | None], row: Row, column: str, source: str, row_name: str, option: str
) -> float | None:
    try:
        return parse(row.cells.get(column))
    except ValueError as error:
        cell = str(row.cells[column])[:40]
        raise InputError(
            f"{source}, {row_name} {row.number}: the cell in column {column} is {cell!r}, not a number. Correct it, "
            f"leave it empty if it is missing, or name another column with {option}."
        ) from error
