"""From a table of rows to a `Run`: kinds, columns, steps, settings, series, traps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sde_grpo.errors import InputError
from sde_grpo.runs.assemble import Logged, assemble, with_findings
from sde_grpo.runs.cells import number
from sde_grpo.runs.columns import Choice, choose, training_rows
from sde_grpo.runs.configuration import Configuration
from sde_grpo.runs.frameworks import Stated
from sde_grpo.runs.further_series import one_series, read_series
from sde_grpo.runs.grid import grid_of
from sde_grpo.runs.readers import Log
from sde_grpo.runs.restarts import Restarts, find_restarts
from sde_grpo.runs.rows import Kind, by_kind
from sde_grpo.runs.run import Run
from sde_grpo.runs.settings import Settings, averaging_window, facts_of, from_log
from sde_grpo.runs.source import safe
from sde_grpo.runs.stacks import Part
from sde_grpo.runs.table import Mask, Table, Vector
from sde_grpo.runs.traps import Evidence, find_traps


@dataclass(frozen=True)
class Request:
    """What the caller said: see `read_run`."""

    reward_column: str | None
    step_column: str | None
    options: Configuration
    config_file: Path | None


@dataclass(frozen=True, eq=False)
class Reading:
    """A table with its columns chosen: the kinds of row, the steps (n,), and the rows (n,) that have a reward."""

    table: Table
    kinds: list[Kind]
    choice: Choice
    training: Mask
    rewarded: Mask
    steps: Vector


def read_columns(log: Log, table: Table, source: str, request: Request) -> Reading:
    """Choose reward and step; raises `InputError` where that is not possible."""
    kinds = by_kind(table)
    choice = choose(table, kinds, source, request.reward_column, request.step_column)
    training = training_rows(table, kinds, choice)
    rewarded = training & choice.rows & table[choice.reward].present
    if choice.step is None:
        steps = np.full(len(table), np.nan)
        steps[rewarded] = np.arange(1, rewarded.sum() + 1)
    else:
        steps = _parsed(table, choice.step, rewarded, _step, source, log.row_name, "--step-column")
    return Reading(table, kinds, choice, training, rewarded, steps)


def build_run(log: Log, reading: Reading, part: Part, stated: list[Stated], source: str, request: Request) -> Run:
    """The run of one part of a table. Raises `InputError` and `NothingToFitError`."""
    if part.key:
        reading = read_columns(log, reading.table.take(part.rows), source, request)
    table, choice, steps = reading.table, reading.choice, reading.steps
    stamped = reading.rewarded & ~np.isnan(steps)
    rewards = _parsed(table, choice.reward, stamped, number, source, log.row_name, "--reward-column")
    logged = Logged(table.numbers[stamped], steps[stamped], rewards[stamped], choice.reward)
    restarts = find_restarts(logged.numbers, logged.steps, source)

    settings = from_log(log, choice, table, reading.training)
    settings.warnings[:0] = [*log.warnings, *choice.warnings]
    if unstamped := int((reading.rewarded & np.isnan(steps)).sum()):
        settings.warnings.append(f"{unstamped} rows without a step ({safe(str(choice.step))}) were dropped.")
    facts = facts_of(stated)
    _complete(settings, stated, facts)
    if request.config_file is not None:
        settings.override(Configuration.from_toml(request.config_file), request.config_file.name)
    settings.override(request.options, None)
    row_steps = steps[reading.training & choice.rows & ~np.isnan(steps)]
    logging_steps = log.logging_steps or _interval(facts, row_steps)
    _infer_refresh(settings, logging_steps, row_steps, logged.steps)
    window = averaging_window(settings, logging_steps, row_steps)

    series = read_series(table, reading.training, steps, restarts)
    _add_held_out(series, reading, restarts)
    run = replace(
        assemble(source, logged, restarts, settings, window, row_steps, series), format=log.format, key=part.key
    )
    run = _with_prompts(run)
    found = find_traps(Evidence(run, table, choice, reading.training, steps, facts, log))
    kept = {name: s for name, s in {**run.series, **found.series}.items() if name not in found.unusable_series}
    run = replace(run, series=kept)
    return with_findings(run, found.warnings, [*log.refusals, *found.refusals])


def _complete(settings: Settings, stated: list[Stated], facts: dict[str, Any]) -> None:
    varies = "learning_rate" in settings.provenance and settings.configuration.learning_rate is None
    for one in stated:
        if varies or "schedule" in facts:
            one.values.pop("learning_rate", None)
        settings.complete(one)


def _interval(facts: dict[str, Any], row_steps: Vector) -> float | None:
    """The logging interval of the configuration, unless the rows stand closer together than it says."""
    stated = facts.get("logging_steps")
    gaps = np.diff(np.unique(row_steps))
    return None if stated is None or not len(gaps) or np.median(gaps) < stated else float(stated)


def _infer_refresh(settings: Settings, logging_steps: float | None, rows: Vector, rewarded: Vector) -> None:
    """K_ref of a log of every optimizer step in which only each K-th row has a reward: that of the sampling step."""
    known = settings.configuration
    if known.refresh_interval is not None or known.step_unit != "optimizer" or logging_steps not in (1, 1.0):
        return
    gaps = np.diff(np.unique(rewarded))
    if not len(gaps) or len(np.unique(rows)) < 2 * len(np.unique(rewarded)) - 1:
        return
    usual = float(np.median(gaps))
    if usual > 1 and usual == int(usual) and np.mean(gaps == usual) > 0.9:
        settings.add("refresh_interval", int(usual), f"log (a reward in one row of {usual:g} only)")


def _with_prompts(run: Run) -> Run:
    """P = N/G where G is known and the rewards lie on the grid of 1/N."""
    known = run.configuration
    if known.group_size is None or known.prompts_per_step is not None or known.rows_averaged not in (None, 1):
        return run
    size = grid_of(run.reward) if known.reward_range == (0.0, 1.0) else None
    if size is None or size % known.group_size:
        return run
    origin = f"inferred: all rewards are multiples of 1/{size}, and group_size is {known.group_size}"
    return replace(
        run,
        configuration=known.merged(Configuration(prompts_per_step=size // known.group_size)),
        provenance={**run.provenance, "prompts_per_step": origin},
    )


def _add_held_out(series: dict[str, Any], reading: Reading, restarts: Restarts) -> None:
    table, choice = reading.table, reading.choice
    rows = np.zeros(len(table), bool)
    for kind in reading.kinds:
        if kind.held_out and kind.name != choice.kind:
            rows |= kind.rows
    held_out = table.with_role("held-out reward")
    columns = [choice.reward, *held_out, *table.with_role("reward")] if rows.any() else held_out
    if choice.reward in held_out:
        return
    found = one_series(table, rows if rows.any() else np.ones(len(table), bool), reading.steps, restarts, columns)
    if found is not None:
        series["eval_reward"] = found


def _step(cell: str) -> float | None:
    """The number in a cell; of ``"10/500"`` (step/last step) the first part."""
    return number(cell.split("/")[0])


def _parsed(
    table: Table,
    column: str,
    needed: Mask,
    parse: Callable[[str], float | None],
    source: str,
    row_name: str,
    option: str,
) -> Vector:
    """The numbers of a column; text that is no number is an error where it is `needed`, and NaN elsewhere."""
    cells = table[column]
    numbers = cells.numbers.copy()
    if not len(cells.words):
        return numbers
    values = np.full(len(cells.words), np.nan)
    wrong = np.zeros(len(cells.words), bool)
    for code, word in enumerate(cells.words):
        try:
            value = parse(word)
            values[code] = np.nan if value is None else value
        except ValueError:
            wrong[code] = True
    text = cells.codes >= 0
    bad = np.flatnonzero(text & needed & wrong[np.maximum(cells.codes, 0)])
    if len(bad):
        raise InputError(
            f"{source}, {row_name} {table.numbers[bad[0]]}: the cell in column {safe(column)} is "
            f"{safe(cells.text(int(bad[0])), 40)!r}, not a number. Correct it, leave it empty if it is missing, or "
            f"name another column with {option}."
        )
    numbers[text] = values[cells.codes[text]]
    return numbers
