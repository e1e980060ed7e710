"""MLflow's file store: the folder of one run, with a file for each metric and each parameter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from sde_grpo.errors import InputError, require
from sde_grpo.runs.cells import number_or_none
from sde_grpo.runs.readers.base import Log, RawConfig
from sde_grpo.runs.readers.json_text import parse_line
from sde_grpo.runs.source import Source, files_in, folders_in, open_source, safe
from sde_grpo.runs.table import MOST_NAMES, MOST_ROWS, TableBuilder

METRICS, PARAMETERS = "metrics", "params"
LINE = re.compile(rb"\d{9,19} \S+ -?\d{1,18}\s*")
DEEPEST = 8
LONGEST_PARAMETER = 10_000


class MlflowRun:
    """Lines ``timestamp value step`` under ``metrics/<key>``, and the settings under ``params/<key>``.

    Values that were logged in one call share their time and step, and are one row. A metric's file on its own is read
    too.
    """

    format = "MLflow"

    def recognises(self, source: Source) -> bool:
        if source.is_folder:
            return any(path.name == METRICS for path in folders_in(source.path)) and _is_run(source.path)
        lines = source.head.split(b"\n")[:-1][:5]
        return bool(lines) and all(map(LINE.fullmatch, lines))

    def read(self, source: Source, wanted: frozenset[str]) -> Log:
        builder, warnings = TableBuilder(wanted), []
        metrics = dict(_files(source.path / METRICS)) if source.is_folder else {_key(source.path): source.path}
        if not source.is_folder and not builder.keeps(next(iter(metrics))):
            warnings.append(f"{source.name} has no name that is known; its values were taken as the reward.")
            metrics = {"reward": source.path}
        rows: dict[tuple[int, int], dict[str, float | str]] = {}
        for name, path in metrics.items():
            file = source if path == source.path else open_source(path)
            # Of a metric without a role one value is enough: its name is listed.
            for time, step, value in islice(_points(file), None if builder.keeps(name) else 1):
                rows.setdefault((time, step), {"step": float(step)})[name] = value
            require(len(rows) <= MOST_ROWS, f"{source.name} has more than {MOST_ROWS:,} rows, which no run has.")
            if file is not source:
                warnings += file.warnings
        require(bool(rows), f"{source.name}: no metric holds a value; has the run logged anything yet?")
        for place, key in enumerate(sorted(rows), start=1):
            builder.add(place, rows[key])
        values = dict(_parameters(source.path / PARAMETERS)) if source.is_folder else {}
        configs = (RawConfig(values, "MLflow params"),) if values else ()
        return Log(builder.table(), "row", configs=configs, warnings=tuple(warnings))


def _is_run(folder: Path) -> bool:
    return any(p.name == PARAMETERS for p in folders_in(folder)) or any(p.name == "meta.yaml" for p in files_in(folder))


def _key(path: Path) -> str:
    """A metric's key: its path below ``metrics``, or its name."""
    below = path.absolute().parts
    start = max((place for place, part in enumerate(below[:-1]) if part == METRICS), default=len(below) - 2)
    return "/".join(below[start + 1 :])


def _files(folder: Path, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Path]]:
    """The files below, by their keys: ``actor/entropy`` lies in a folder ``actor``."""
    found = [(f"{prefix}{path.name}", path) for path in files_in(folder)]
    if depth < DEEPEST:
        for below in folders_in(folder):
            found += _files(below, f"{prefix}{below.name}/", depth + 1)
    yield from found[:MOST_NAMES]


def _points(file: Source) -> Iterator[tuple[int, int, float | str]]:
    for number, line in file.lines():
        if not LINE.fullmatch(line):
            raise InputError(
                f"{file.name}, line {number}: {safe(line.decode(errors='replace'), 40)!r} is not the time, value and "
                "step that MLflow writes; correct the line."
            )
        time, value, step = line.split()
        yield int(time), int(step), value.decode()


def _parameters(folder: Path) -> Iterator[tuple[str, Any]]:
    for name, path in _files(folder):
        if path.stat().st_size <= LONGEST_PARAMETER:
            text = open_source(path).text().strip()
            yield name, _value(text)


def _value(text: str) -> Any:
    """MLflow writes every parameter as Python's text."""
    words = {"None": None, "True": True, "False": False}
    if text in words:
        return words[text]
    number = None
    try:
        number = number_or_none(text)
        return parse_line(text.encode()) if number is None else number
    except (ValueError, RecursionError):
        return text
