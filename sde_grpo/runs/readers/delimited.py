"""CSV and TSV with a header line."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

from sde_grpo.errors import InputError, require
from sde_grpo.runs.cells import listed, number_or_none
from sde_grpo.runs.readers.base import Log
from sde_grpo.runs.source import Source, safe
from sde_grpo.runs.table import TableBuilder

DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon"}
SAMPLE = 20
METRIC_COLUMNS = ("tag", "metric", "metric_name", "key", "variable")


class Delimited:
    """A table whose cells are parted by commas, tabs or semicolons, whichever the header line has most of.

    A table with the columns step, metric (or tag, key, variable) and value has one row per step and metric: each
    metric becomes a column.
    """

    format = "CSV or TSV"

    def recognises(self, source: Source) -> bool:
        text = source.head.decode("utf-8", errors="replace")
        header, *rest = _records(text.split("\n"), _delimiter(text), most=SAMPLE) or [[]]
        if len(header) == 1:
            return bool(rest) and header[0].strip().isidentifier() and number_or_none(rest[0][0]) is not None
        return len(header) > 1 and 2 * sum(len(record) == len(header) for record in rest) >= len(rest)

    def read(self, source: Source, wanted: frozenset[str]) -> Log:
        delimiter = _delimiter(source.head.decode("utf-8", errors="replace"))
        lines = (line.decode("utf-8", errors="replace") + "\n" for _, line in source.lines())
        reader = csv.reader(lines, delimiter=delimiter)
        records = ((reader.line_num, record) for record in reader if any(map(str.strip, record)))
        try:
            header = [name.strip() for name in next(records, (0, [""]))[1]]
            _check_header(header, source.name)
            return _rows(records, header, delimiter, source.name, TableBuilder(wanted))
        except csv.Error as error:
            raise InputError(
                f"{source.name}, line {reader.line_num}: the table cannot be read ({error}); check the quotation marks."
            ) from error


def _rows(
    records: Iterator[tuple[int, list[str]]], header: list[str], delimiter: str, source: str, builder: TableBuilder
) -> Log:
    kept = [(place, name) for place, name in enumerate(header) if builder.keeps(name)]
    tall = _tall(header)
    short: tuple[int, int] | None = None
    for number, record in records:
        if short is not None or len(record) > len(header):
            line, cells = short or (number, len(record))
            raise InputError(
                f"{source}, line {line}: {cells} cells, but the header has {len(header)} (parted by a "
                f"{DELIMITERS[delimiter]}); correct the line."
            )
        if len(record) < len(header):
            short = number, len(record)
        elif tall is not None:
            beside = {header[place]: cell for place, cell in enumerate(record) if place not in tall}
            builder.add(number, {**beside, record[tall[0]]: record[tall[1]]})
        elif len(builder):
            builder.add(number, {name: record[place] for place, name in kept})
        else:
            builder.add(number, dict(zip(header, record, strict=True)))
    warnings = []
    if short is not None:
        require(
            len(builder) > 0,
            f"{source}, line {short[0]}: {short[1]} cells, but the header has {len(header)} (parted by a "
            f"{DELIMITERS[delimiter]}); correct the line.",
        )
        warnings.append(f"The last line ({short[0]}) breaks off and was dropped; the run may still be writing.")
    require(len(builder) > 0, f"{source} has a header line but no rows; has the run logged anything yet?")
    name = "TSV" if delimiter == "\t" else "CSV"
    return Log(builder.table(), "line", format=name, warnings=tuple(warnings))


def _tall(header: list[str]) -> tuple[int, int] | None:
    """The places of the names and of the values in a table with one row per step *and metric*, or None."""
    lower = [name.lower() for name in header]
    names = [place for place, name in enumerate(lower) if name in METRIC_COLUMNS]
    if len(names) != 1 or "value" not in lower or not any("step" in name for name in lower):
        return None
    return names[0], lower.index("value")


def _delimiter(text: str) -> str:
    header = text.lstrip("\r\n").split("\n", 1)[0]
    return max(DELIMITERS, key=header.count)


def _records(lines: Iterable[str], delimiter: str, most: int) -> list[list[str]]:
    reader = csv.reader((line + "\n" for line in lines), delimiter=delimiter)
    try:
        return list(islice((record for record in reader if record), most))
    except csv.Error:
        return []


def _check_header(header: list[str], source: str) -> None:
    require(
        not all(number_or_none(name) is not None for name in header),
        f"{source}: the first line holds numbers ({listed(header, 5)}), not column names; add a header line such as "
        "step,reward.",
    )
    twice = sorted(name for name, count in Counter(header).items() if name and count > 1)
    require(not twice, f"{source}: the column {safe(listed(twice))} appears more than once; rename or delete one.")
