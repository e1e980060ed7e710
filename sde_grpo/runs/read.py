"""The ways to a `Run`: from a file, and from arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from sde_grpo.errors import InputError, NothingToFitError, require
from sde_grpo.runs.assemble import Logged, assemble, with_findings
from sde_grpo.runs.build import Request, build_run, read_columns
from sde_grpo.runs.cells import listed
from sde_grpo.runs.configuration import NOTHING_KNOWN, Configuration
from sde_grpo.runs.discover import find_logs
from sde_grpo.runs.frameworks import translate
from sde_grpo.runs.further_series import one_series
from sde_grpo.runs.readers import Log, read_log
from sde_grpo.runs.restarts import NO_RESTARTS, find_restarts
from sde_grpo.runs.rows import select_rows
from sde_grpo.runs.run import Run
from sde_grpo.runs.settings import Settings, averaging_window
from sde_grpo.runs.sidecars import find_sidecars
from sde_grpo.runs.source import safe
from sde_grpo.runs.stacks import refuse_several, split
from sde_grpo.runs.traps import forward_filled


def read_run(
    path: str | Path,
    *,
    reward_column: str | None = None,
    step_column: str | None = None,
    select: Mapping[str, str] = {},
    options: Configuration = NOTHING_KNOWN,
    config_file: str | Path | None = None,
    anyway: bool = False,
) -> Run:
    """Read one run from a log, ready to be fitted.

    **Arguments**

    - `path`: a trainer's log, or the folder of one; the format is told by content (see the README of `readers/`).
    - `reward_column`, `step_column`: names, where the documented ones (`roles.py`) do not fit.
    - `select`: column -> value; only rows with these values are read. Needed where a file stacks several runs.
    - `options`: settings that win over those of the files.
    - `config_file`: TOML with further settings, which win over those of the log and of the files beside it.
    - `anyway`: whether to return a run that has refusals, such as a smoothed one.

    Where the step goes back, a restarted run was appended: its rows win, and the earlier rows with the same or later
    steps are dropped. Consecutive rows with one step are averaged. Both are warned of.

    Raises `InputError` for what cannot be read, and `NothingToFitError` for a log without a trajectory.
    """
    _, (run,) = read_with_log(Path(path), reward_column, step_column, select, options, config_file, several=False)
    if run.refusals and not anyway:
        raise NothingToFitError(f"{run.source}: {' '.join(run.refusals)}")
    return run


def read_runs(
    path: str | Path,
    *,
    reward_column: str | None = None,
    step_column: str | None = None,
    select: Mapping[str, str] = {},
    options: Configuration = NOTHING_KNOWN,
    config_file: str | Path | None = None,
) -> list[Run]:
    """All runs of a log, in the order in which they begin; arguments as in `read_run`.

    Nothing is refused that can be read: what forbids a fit stands in `Run.refusals`, and `Run.label` tells the runs of
    one file apart. Raises `InputError` for what cannot be read at all.
    """
    return read_with_log(Path(path), reward_column, step_column, select, options, config_file)[1]


def read_with_log(
    path: Path,
    reward_column: str | None = None,
    step_column: str | None = None,
    select: Mapping[str, str] = {},
    options: Configuration = NOTHING_KNOWN,
    config_file: str | Path | None = None,
    several: bool = True,
) -> tuple[Log, list[Run]]:
    """As `read_runs`, with the log that the runs were read from; `several` is whether more than one may be in it."""
    path = _one_log(path)
    source = safe(path.name or str(path))
    wanted = frozenset(name for name in (reward_column, step_column, *select) if name is not None)
    log = read_log(path, wanted)
    request = Request(reward_column, step_column, options, None if config_file is None else Path(config_file))
    reading = read_columns(log, select_rows(log.table, select, source), source, request)
    parts = split(reading.table, reading.rewarded, reading.steps, numbered=reading.choice.step is None)
    if not several:
        refuse_several(reading.table, parts, source)
    configs = [*log.configs, *find_sidecars(path)]
    runs = []
    for part in parts:
        stated = [one for raw in configs if (one := translate(raw)) is not None]
        try:
            runs.append(build_run(log, reading, part, stated, source, request))
        except InputError:
            if len(parts) == 1:
                raise
    if len(runs) == 1:
        runs = [_with_group_statistics(runs[0], path)]
    if runs and len(runs) < len(parts):
        left_out = f"{len(parts) - len(runs)} of the {len(parts)} runs in this file hold no reward and were left out."
        runs[0] = with_findings(runs[0], [left_out], [])
    if not runs:
        raise NothingToFitError(f"{source}: none of its {len(parts)} runs holds a finite reward; name another column.")
    return log, runs


def _with_group_statistics(run: Run, path: Path) -> Run:
    """The spread within groups, from the completions that TRL wrote beside its log; as it is without any."""
    folder = path.parent / "completions"
    if "within_group_std" in run.series or path.is_dir() or not folder.is_dir() or folder.is_symlink():
        return run
    try:
        table = read_log(folder).table
    except InputError:
        return run
    if "step" not in table:
        return run
    rows = np.ones(len(table), bool)
    series = one_series(table, rows, table["step"].numbers, NO_RESTARTS, ("within_group_std",))
    return run if series is None else replace(run, series={**run.series, "within_group_std": series})


def _one_log(path: Path) -> Path:
    """The path itself, or the only log in a folder that is no log as a whole."""
    if not path.is_dir():
        return path
    logs = find_logs(path)
    require(
        len(logs) < 2 or path in logs,
        f"{safe(path.name)} is a directory with {len(logs)} logs ({listed([p.name for p in logs], 3)}); name one of "
        f"them, or table them with `sde-grpo inspect`.",
    )
    return logs[0] if len(logs) == 1 else path


def run_from_arrays(
    steps: ArrayLike,
    reward: ArrayLike,
    *,
    configuration: Configuration = NOTHING_KNOWN,
    source: str = "arrays",
) -> Run:
    """A run from steps and rewards, both of shape (n,), under the same rules and checks as `read_run`."""
    stamps, values = np.array(steps, dtype=float), np.array(reward, dtype=float)
    require(
        stamps.ndim == 1 and stamps.shape == values.shape,
        f"{source}: steps have shape {stamps.shape} and rewards {values.shape}; both must be (n,), with the same n.",
    )
    require(bool(np.isfinite(stamps).all()), f"{source}: some steps are NaN or infinite; drop those rows first.")
    values[~np.isfinite(values)] = np.nan
    logged = Logged(np.arange(1, len(stamps) + 1), stamps, values, "reward")
    settings = Settings(Configuration())
    settings.override(configuration, "argument")
    restarts = find_restarts(logged.numbers, stamps, source)
    window = averaging_window(settings, None, stamps)
    run = assemble(source, logged, restarts, settings, window, stamps, {})
    if run.refusals:
        raise NothingToFitError(f"{source}: {' '.join(run.refusals)}")
    filled = forward_filled(run.reward)
    return with_findings(run, [] if filled is None else [filled], [])
