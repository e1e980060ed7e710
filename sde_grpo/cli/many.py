"""Many logs in one call: each is fitted into its own folder, finished ones are kept, refusals do not stop the rest."""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tqdm import tqdm

from sde_grpo.cli.output import span, write_results
from sde_grpo.errors import InputError, require
from sde_grpo.fit import Fit

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


def request_of(log: Path, settings: Mapping[str, Any]) -> str:
    """A digest of the log's bytes and of every option: the same request gives the same fit."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    with log.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


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
    fit_one: Callable[[Path], Fit],
    settings: Mapping[str, Any],
    *,
    force: bool,
    console: Console,
) -> dict[str, Any]:
    """Fit every log into a folder of `out`, one after the other, and table them in `out`/runs.csv.

    A folder appears whole or not at all, so a call that was killed is finished by repeating it: what is there of the
    same log and options is kept. Returns the summaries by folder, with the reason in place of one that was refused.
    Raises `InputError` where none could be fitted, or a folder holds another fit.
    """
    names = folder_names(logs)
    results: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    bar = tqdm(list(zip(logs, names, strict=True)), desc="logs", unit="log", leave=False)
    for log, name in bar:
        try:
            require(log.is_file(), f"{log} does not exist or is no file. Give the log of a run.")
            request = request_of(log, settings)
            kept = _finished(out / name, request, force)
            summary, status = kept or {}, "kept"
            if kept is None:
                fitted = fit_one(log)
                summary, status = {**fitted.summary(), "request": request}, "fitted"
                write_results(out / name, fitted, summary)
        except InputError as error:
            results[name] = {"refused": str(error)}
            rows.append({"log": log, "folder": "", "status": f"refused: {error}"})
            continue
        results[name] = summary
        plateau = summary["forecast"]["plateau"]
        rows.append(
            {"log": log, "folder": name, "status": status}
            | {f"plateau_{q}": plateau[q] for q in ("q05", "q50", "q95")}
            | {"p_still_rising": summary["forecast"]["p_still_rising"], "converged": summary["sampler"]["converged"]}
        )
    _report(console, rows, results)
    require(any(row["folder"] for row in rows), "None of the logs could be fitted; the reasons are above.")
    out.mkdir(parents=True, exist_ok=True)
    with (out / "runs.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(_FIELDS))
        writer.writeheader()
        writer.writerows(rows)
    return results


def _report(console: Console, rows: list[dict[str, Any]], results: dict[str, Any]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("run", "plateau", "still rising", "status"):
        table.add_column(column, justify="left" if column in ("run", "status") else "right")
    for row, (name, result) in zip(rows, results.items(), strict=True):
        if row["folder"]:
            state = row["status"] if row["converged"] else f"{row['status']}, NOT CONVERGED"
            plateau = span(result["forecast"]["plateau"])
            table.add_row(escape(name), escape(plateau), f"{row['p_still_rising']:.0%}", state)
        else:
            table.add_row(escape(name), "", "", f"[red]{escape(row['status'])}[/red]")
    console.print(table)
