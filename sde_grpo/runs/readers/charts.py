"""Charts saved as CSV from the web pages of W&B and of TensorBoard."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass

from sde_grpo.errors import InputError, require
from sde_grpo.runs.cells import number, number_or_none
from sde_grpo.runs.readers.base import Log
from sde_grpo.runs.source import Source, safe
from sde_grpo.runs.table import TableBuilder

LOW, HIGH = "__MIN", "__MAX"
TENSORBOARD = ["wall time", "step", "value"]
TIME_AXES = ("relative time", "wall time", "time", "_runtime", "_timestamp")
SAME = 1e-9
FULL_CHART = 500  # points; W&B draws as many by default, TensorBoard 1000


class ChartExport:
    """W&B: ``"Step","<run> - <key>","<run> - <key>__MIN","<run> - <key>__MAX"``, three columns a curve, of which the
    first differs from the others where a point averages several steps, or a group of runs.

    TensorBoard: ``Wall time,Step,Value``.
    """

    format = "W&B chart CSV"

    def recognises(self, source: Source) -> bool:
        header = _header(source)
        return _is_tensorboard(header) or any(name.endswith(LOW) for name in header)

    def read(self, source: Source, wanted: frozenset[str]) -> Log:
        header = _header(source)
        return _read_tensorboard(source, wanted) if _is_tensorboard(header) else _read_wandb(source, header, wanted)


@dataclass
class _Curve:
    """One curve of a chart: where its values and bounds stand, whose it is, and how many points are averages."""

    place: int
    bounds: tuple[int, ...]
    run: str
    key: str
    points: int = 0
    averaged: int = 0

    def value(self, record: list[str]) -> float | None:
        """The value, None where the curve has no point; raises `ValueError` where the cell is no number."""
        value = number(record[self.place])
        if value is not None:
            self.points += 1
            bounds = (number_or_none(record[place]) for place in self.bounds)
            self.averaged += any(end is not None and abs(end - value) > SAME * max(1, abs(value)) for end in bounds)
        return value


def _read_wandb(source: Source, header: list[str], wanted: frozenset[str]) -> Log:
    axis = header[0]
    require(
        not axis.lower().startswith(TIME_AXES),
        f"{source.name}: the chart is drawn over {safe(axis)!r}; set its x axis to Step and save it again.",
    )
    builder, curves = TableBuilder(wanted), _curves(header)
    for line, record in _records(source, len(header)):
        rows: dict[str, dict[str, float]] = {}
        for curve in curves:
            try:
                value = curve.value(record)
            except ValueError as error:
                cell, name = safe(record[curve.place], 40), safe(header[curve.place])
                raise InputError(
                    f"{source.name}, line {line}: {cell!r} in column {name} is not a number; save the chart again."
                ) from error
            if value is not None:
                rows.setdefault(curve.run, {})[curve.key] = value
        for run, cells in rows.items():
            stamp = {"step" if axis == "Step" else axis: record[0]}
            builder.add(len(builder) + 1, stamp | cells | ({"run": run} if run else {}))
    require(len(builder) > 0, f"{source.name}: the chart holds no values; save it again with the reward shown.")
    warnings, refusals = [], []
    for curve in curves:
        name = safe(f"{curve.run} - {curve.key}" if curve.run else curve.key)
        if curve.run.startswith("Group: "):
            refusals.append(f"{name} is the mean over a group of runs, not a run; ungroup the chart and save it again.")
        if "smooth" in curve.key.lower():
            refusals.append(f"{name} was smoothed, so its noise cannot be estimated; save the original values.")
        if curve.averaged:
            warnings.append(
                f"{curve.averaged} of {curve.points} points of {name} average several steps (their {LOW} and {HIGH} "
                "differ): they look less noisy than the steps are. Take the run's history instead (its parquet "
                "artifact, or scan_history)."
            )
        elif curve.points >= FULL_CHART:
            warnings.append(_thinned(name, curve.points, "the run's history: its parquet artifact, or scan_history"))
    return Log(builder.table(), "row", warnings=tuple(warnings), refusals=tuple(refusals))


def _read_tensorboard(source: Source, wanted: frozenset[str]) -> Log:
    builder = TableBuilder(wanted)
    for line, (_, step, value) in _records(source, len(TENSORBOARD)):
        builder.add(line, {"step": step, "reward": value})
    require(len(builder) > 0, f"{source.name} has a header line but no rows; save the chart again.")
    warnings = [f"{source.name} does not say which tag it holds; its values were taken as the reward."]
    if len(builder) >= 2 * FULL_CHART:
        warnings.append(_thinned(source.name, len(builder), "the event file"))
    return Log(builder.table(), "line", format="TensorBoard chart CSV", warnings=tuple(warnings))


def _thinned(name: str, points: int, better: str) -> str:
    return f"{name} has {points} points, as many as a chart shows at most, so steps may be missing; take {better}."


def _curves(header: list[str]) -> list[_Curve]:
    places = {name: place for place, name in enumerate(header)}
    curves = []
    for name, place in places.items():
        bounds = tuple(places[name + end] for end in (LOW, HIGH) if name + end in places)
        if place and bounds:
            run, _, key = name.rpartition(" - ")
            curves.append(_Curve(place, bounds, run, key))
    return curves


def _is_tensorboard(header: list[str]) -> bool:
    return [name.lower() for name in header] == TENSORBOARD


def _header(source: Source) -> list[str]:
    try:
        line = source.head.split(b"\n", 1)[0].decode(errors="replace")
        return [name.strip() for name in next(csv.reader([line]), [])]
    except csv.Error:
        return []


def _records(source: Source, width: int) -> Iterator[tuple[int, list[str]]]:
    """The lines below the header; a last one that breaks off is dropped."""
    reader = csv.reader(line.decode() + "\n" for _, line in source.lines())
    try:
        next(reader, None)
        short = None
        for record in reader:
            if short is not None or len(record) > width:
                line = short or reader.line_num
                raise InputError(f"{source.name}, line {line}: {width} cells were expected; save the chart again.")
            if len(record) < width:
                short = reader.line_num
            else:
                yield reader.line_num, record
    except csv.Error as error:
        raise InputError(f"{source.name}, line {reader.line_num}: the table cannot be read ({error}).") from error
