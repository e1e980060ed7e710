"""Many logs in one call: each is fitted into its own folder, finished ones are kept, refusals do not stop the rest."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tqdm import tqdm

from sde_grpo.cli.output import files_of, span, write_files
from sde_grpo.cli.reporting import start_jax
from sde_grpo.cli.workers import here, on_dask
from sde_grpo.errors import InputError, require
from sde_grpo.fit.record import run_to_dict
from sde_grpo.runs import Run
from sde_grpo.runs.source import safe_cell

_FIELDS: tuple[str, ...] = (
    "log",
    "folder",
    "status",
    "plateau_q05",
    "plateau_q50",
    "plateau_q95",
    "p_still_rising",
    "converged",
)


def folder_names(logs: list[Path]) -> list[str]:
    """A name for each log: its stem, with as many of its parents in front as it takes to tell them apart."""
    names: list[str] = []
    parts = [[*log.absolute().parent.parts[1:], log.stem] for log in logs]
    for depth in range(1, max(len(p) for p in parts) + 1):
        names = ["-".join(p[-depth:]) for p in parts]
        if len(set(names)) == len(names):
            return names
    times = Counter(names)
    clash = ", ".join(str(log) for log, name in zip(logs, names, strict=True) if times[name] > 1)
    raise InputError(f"{clash} would share one folder. Give every log once, under names that differ.")


def request_of(run: Run, settings: Mapping[str, Any]) -> str:
    """A digest of the run and of every option: the same request gives the same fit."""
    content = json.dumps([settings, run_to_dict(run)], sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()


def _finished(folder: Path, request: str, force: bool) -> dict[str, Any] | None:
    """The summary of a finished fit of the same request, or None where there is work to do."""
    file = folder / "summary.json"
    if force or not folder.exists():
        return None
    try:
        summary = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        summary = None
    require(
        isinstance(summary, dict) and summary.get("request") == request,
        f"{folder} holds a fit of another log or with other options; add --force to replace it, or name another --out.",
    )
    return summary


def fit_many(
    logs: list[Path],
    out: Path,
    load: Callable[[Path], list[Run]],
    choices: dict[str, Any],
    settings: Mapping[str, Any],
    *,
    dask: str | None,
    force: bool,
    anyway: bool,
    console: Console,
) -> dict[str, Any]:
    """Fit every run of every log into a folder of `out`, here or on a Dask cluster, and table them in `out`/runs.csv.

    A folder appears whole or not at all, so a call that was killed is finished by repeating it: what is there of the
    same run and options is kept. Returns the summaries by folder, with the reason in place of one that was refused.
    Raises `InputError` where none could be fitted, or a folder holds another fit.
    """
    results: dict[str, Any] = {}
    rows: dict[str, dict[str, Any]] = {}

    def finished(log: Path, name: str, summary: dict[str, Any], status: str) -> None:
        results[name], plateau = summary, summary["forecast"]["plateau"]
        rows[name] = (
            {"log": safe_cell(str(log)), "folder": safe_cell(name), "status": status}
            | {f"plateau_{q}": plateau[q] for q in ("q05", "q50", "q95")}
            | {"p_still_rising": summary["forecast"]["p_still_rising"], "converged": summary["sampler"]["converged"]}
        )

    def jobs() -> Iterator[tuple[tuple[Path, str], tuple[Any, ...]]]:
        """What is left to do; what is there, and what is refused before any fit, is tabled at once."""
        for log, name, run in _runs_of(logs, load, results, rows):
            try:
                require(anyway or not run.refusals, f"{run.source}: {' '.join(run.refusals)}")
                request = request_of(run, {**settings, **choices})
                kept = _finished(out / name, request, force)
            except InputError as error:
                _refuse(log, name, error, results, rows)
                continue
            if kept is not None:
                finished(log, name, kept, "kept")
            else:
                results[name], rows[name] = {}, {}  # its place in the table, whenever it is done
                yield (log, name), (run, choices, request)

    done = here(_fitted, jobs()) if dask is None else on_dask(_fitted, jobs(), dask)
    for (log, name), files, error in done:
        if error is None:
            write_files(out / name, files)
            finished(log, name, json.loads(files["summary.json"]), "fitted")
        else:
            _refuse(log, name, error, results, rows)
    _report(console, rows, results)
    require(any(row["folder"] for row in rows.values()), "None of the logs could be fitted; the reasons are above.")
    out.mkdir(parents=True, exist_ok=True)
    with (out / "runs.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(_FIELDS))
        writer.writeheader()
        writer.writerows(rows.values())
    return results


def _fitted(run: Run, choices: dict[str, Any], request: str) -> dict[str, bytes]:
    """The files of a fit, on whatever machine this runs."""
    start_jax()
    from sde_grpo.fit import fit_run

    fit = fit_run(run, **choices)
    return files_of(fit, {**fit.summary(), "request": request})


def _runs_of(
    logs: list[Path], load: Callable[[Path], list[Run]], results: dict[str, Any], rows: dict[str, dict[str, Any]]
) -> Iterator[tuple[Path, str, Run]]:
    """Each run with its log and the name of its folder; a log that cannot be read is refused."""
    for log, name in tqdm(list(zip(logs, folder_names(logs), strict=True)), desc="logs", unit="log", leave=False):
        try:
            runs = load(log)
        except InputError as error:
            _refuse(log, name, error, results, rows)
            continue
        for run in runs:
            yield log, f"{name}-{_slug(run.label)}" if run.label else name, run


def _slug(label: str) -> str:
    return re.sub(r"[^\w.=+-]+", "_", label)[:120].strip(".")


def _refuse(log: Path, name: str, error: InputError, results: dict[str, Any], rows: dict[str, dict[str, Any]]) -> None:
    results[name] = {"refused": str(error)}
    rows[name] = {"log": safe_cell(str(log)), "folder": "", "status": f"refused: {error}"}


def _report(console: Console, rows: dict[str, dict[str, Any]], results: dict[str, Any]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("run", "plateau", "still rising", "status"):
        table.add_column(column, justify="left" if column in ("run", "status") else "right")
    for name, row in rows.items():
        result = results[name]
        if row["folder"]:
            state = row["status"] if row["converged"] else f"{row['status']}, NOT CONVERGED"
            plateau = span(result["forecast"]["plateau"])
            table.add_row(escape(name), escape(plateau), f"{row['p_still_rising']:.0%}", state)
        else:
            table.add_row(escape(name), "", "", f"[red]{escape(row['status'])}[/red]")
    console.print(table)
