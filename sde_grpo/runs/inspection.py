"""What is in a log, as plain data: format, columns and their roles, and of each run what a reader of it should know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sde_grpo.errors import InputError
from sde_grpo.runs.configuration import NOTHING_KNOWN, Configuration
from sde_grpo.runs.discover import find_logs
from sde_grpo.runs.read import read_with_log
from sde_grpo.runs.roles import role_of
from sde_grpo.runs.run import Run
from sde_grpo.runs.source import safe

WIDE = 1.5  # times the usual distance of two points: a gap
MOST_GAPS = 20
MOST_COLUMNS = 200


@dataclass(frozen=True, eq=False)
class Inspection:
    """A log: where it is, its format, its columns with their roles (None: not used), and its runs."""

    path: Path
    format: str
    columns: Mapping[str, str | None]
    runs: list[Run]


@dataclass(frozen=True)
class Unreadable:
    """A file that looked like a log, and why it could not be read as one."""

    path: Path
    reason: str


def inspect_log(
    path: str | Path,
    *,
    reward_column: str | None = None,
    step_column: str | None = None,
    select: Mapping[str, str] = {},
    options: Configuration = NOTHING_KNOWN,
    config_file: str | Path | None = None,
) -> Inspection:
    """The runs of a log and how it was read; arguments as in `read_run`. Raises `InputError`."""
    log, runs = read_with_log(Path(path), reward_column, step_column, select, options, config_file)
    columns: dict[str, str | None] = {}
    for name in log.table.names:
        role = role_of(name)
        columns[name] = None if role is None else role.name
        if any(name == run.reward_column for run in runs):
            columns[name] = "reward"
        elif name == step_column:
            columns[name] = "step"
    return Inspection(Path(path), log.format, columns, runs)


def inspect_folder(folder: Path) -> list[Inspection | Unreadable]:
    """Every log below a folder; raises `InputError` where there is none."""
    found: list[Inspection | Unreadable] = []
    for path in find_logs(folder):
        try:
            found.append(inspect_log(path))
        except InputError as error:
            found.append(Unreadable(path, str(error)))
    if not any(isinstance(one, Inspection) for one in found):
        raise InputError(
            f"{safe(folder.name or str(folder))}: no log with a reward curve was found below this folder "
            f"({len(found)} files looked like one). Name the log file itself."
        )
    return found


def gaps_of(run: Run) -> list[tuple[float, float]]:
    """The stretches (from, to) between neighbouring points that are wider than usual."""
    apart = np.diff(run.steps)
    if not len(apart):
        return []
    wide = np.flatnonzero(apart > WIDE * np.median(apart))
    return [(float(run.steps[k]), float(run.steps[k + 1])) for k in wide]


def run_record(run: Run) -> dict[str, Any]:
    """One run, ready for JSON.

    `reward_range` is what was logged; the declared one is in `config`. `warnings` hold everything that was found, and
    `refusals` those of them that forbid a fit.
    """
    tenth = min(20, max(1, len(run.reward) // 10))
    noise = float(np.std(np.diff(run.reward)) / np.sqrt(2)) if len(run.reward) > 2 else None
    gaps = gaps_of(run)
    return {
        "label": run.label,
        "points": len(run.reward),
        "first_step": _whole(run.steps[0]),
        "last_step": _whole(run.steps[-1]),
        "reward_column": run.reward_column,
        "reward_range": [float(run.reward.min()), float(run.reward.max())],
        "reward_start": float(run.reward[:tenth].mean()),
        "reward_end": float(run.reward[-tenth:].mean()),
        "step_noise": noise,
        "config": run.configuration.as_dict(),
        "provenance": dict(run.provenance),
        "series": {name: len(series.steps) for name, series in run.series.items()},
        "gaps": [list(gap) for gap in gaps[:MOST_GAPS]],
        "gap_count": len(gaps),
        "restarts": run.restarts,
        "warnings": [*run.refusals, *run.warnings],
        "refusals": list(run.refusals),
    }


def log_record(inspection: Inspection) -> dict[str, Any]:
    """One log, ready for JSON."""
    return {
        "source": safe(inspection.path.name),
        "format": inspection.format,
        "columns": dict(list(inspection.columns.items())[:MOST_COLUMNS]),
        "column_count": len(inspection.columns),
        "runs": [run_record(run) for run in inspection.runs],
    }


def folder_record(folder: Path, found: list[Inspection | Unreadable]) -> dict[str, Any]:
    """All logs of a folder, ready for JSON: their runs in one list, each with its path and format."""
    runs = [
        {"path": _below(one.path, folder), "format": one.format, **run_record(run)}
        for one in found
        if isinstance(one, Inspection)
        for run in one.runs
    ]
    unread = {_below(one.path, folder): one.reason for one in found if isinstance(one, Unreadable)}
    return {"source": safe(folder.name or str(folder)), "format": "folder", "runs": runs, "not_read": unread}


def same_curves(runs: list[tuple[str, Run]]) -> list[tuple[str, str]]:
    """Pairs of names whose reward curves agree point for point: one run twice, not two."""
    seen: dict[bytes, str] = {}
    pairs = []
    for name, run in runs:
        content = run.steps.tobytes() + run.reward.tobytes()
        if len(run.reward) > 2 and content in seen:
            pairs.append((seen[content], name))
        seen.setdefault(content, name)
    return pairs


def _whole(step: float) -> int | float:
    return int(step) if float(step).is_integer() else float(step)


def _below(path: Path, folder: Path) -> str:
    return safe(str(path.relative_to(folder)) if path != folder else path.name, 200)
