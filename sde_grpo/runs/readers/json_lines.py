"""JSON Lines, one row a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from sde_grpo.errors import InputError
from sde_grpo.runs.readers.base import Log
from sde_grpo.runs.readers.curves import curve_of
from sde_grpo.runs.readers.json_text import HISTORY, parse_line, require_object
from sde_grpo.runs.roles import tells_runs_apart
from sde_grpo.runs.source import Source, lines_of, safe
from sde_grpo.runs.table import TableBuilder


class JsonLines:
    """Flat or nested objects, one a line.

    A last line that breaks off belongs to a run that is still writing: it is dropped, with a warning.
    """

    format = "JSON Lines"

    def recognises(self, source: Source) -> bool:
        if not _opens_object(source.head.lstrip()):
            return False
        lines = first_lines(source, 2)
        return len(lines) == 2 and _opens_object(lines[0]) and (_opens_object(lines[1]) or is_object(lines[0]))

    def read(self, source: Source, wanted: frozenset[str]) -> Log:
        builder = TableBuilder(wanted)
        warnings: list[str] = []
        for batch in _batches(source, warnings):
            if 2 in map(len, batch.rows) and any(map(_is_wrapped, batch.rows)):
                rows = [{"step": row.get("step"), **row["data"]} if _is_wrapped(row) else row for row in batch.rows]
                builder.extend(batch.numbers, rows)
            elif not batch.may_hold_lists:
                builder.extend(batch.numbers, batch.rows)
            else:
                for number, row in zip(batch.numbers, batch.rows, strict=True):
                    _add(builder, number, row)
        return Log(builder.table(), "line", warnings=tuple(warnings))


def first_lines(source: Source, most: int) -> list[bytes]:
    """The first lines that are not empty; none of a file that cannot be read as lines."""
    try:
        lines = (line.strip() for _, line in source.lines())
        return list(islice((line for line in lines if line), most))
    except InputError:
        return []


def is_object(line: bytes) -> bool:
    """Whether the line holds one whole object of JSON."""
    try:
        return isinstance(parse_line(line), dict)
    except (ValueError, RecursionError):
        return False


def objects(source: Source, warnings: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The numbered objects of a JSON Lines file; raises `InputError` for a line that is none."""
    for batch in _batches(source, warnings):
        yield from zip(batch.numbers, batch.rows, strict=True)


def _is_wrapped(row: dict[str, Any]) -> bool:
    """Whether this is a row of verl's file logger, ``{"step": 1, "data": {...}}``."""
    return len(row) == 2 and type(row.get("data")) is dict


def _add(builder: TableBuilder, number: int, row: dict[str, Any]) -> None:
    if HISTORY in row and len(builder):
        return  # ms-swift closes its log with all rows over again
    if list in map(type, row.values()) and (curve := curve_of(row)) is not None:
        name = {} if any(tells_runs_apart(key) for key in row) else {"run": f"line {number}"}
        said = {key: value for key, value in row.items() if not isinstance(value, (list, dict))}
        for point in curve[1]:
            builder.add(len(builder) + 1, said | name | point)
    else:
        builder.add(number, row)


class _Batch(NamedTuple):
    """Consecutive objects and their lines."""

    numbers: Sequence[int]
    rows: list[dict[str, Any]]
    may_hold_lists: bool


def _batches(source: Source, warnings: list[str]) -> Iterator[_Batch]:
    """The objects of the file, as many at a time as are read at a time."""
    broken: tuple[int, ValueError] | None = None
    count = 0
    for first, block in source.blocks():
        if block.isspace():
            continue
        if broken is not None:
            raise _broken(source, *broken)
        rows = _all_at_once(block)
        if rows is not None:
            numbers = range(first, first + len(rows))
        else:
            numbers, rows, broken = _one_by_one(source, block, first)
        count += len(rows)
        yield _Batch(numbers, rows, b"[" in block)
    if broken is not None:
        if not count:
            raise _broken(source, *broken)
        warnings.append(f"The last line ({broken[0]}) breaks off and was dropped; the run may still be writing.")


def _all_at_once(block: bytes) -> list[dict[str, Any]] | None:
    """The lines as one list, which is much faster than line by line; None unless each line is an object."""
    import orjson

    joined = block.replace(b"\n", b",\n")
    lines = len(joined) - len(block)
    if block.endswith(b"\n"):
        joined, lines = joined[:-2], lines - 1
    try:
        rows = orjson.loads(b"[" + joined + b"]")
    except orjson.JSONDecodeError:
        return None
    return rows if len(rows) == lines + 1 and set(map(type, rows)) == {dict} else None


def _one_by_one(
    source: Source, block: bytes, first: int
) -> tuple[list[int], list[dict[str, Any]], tuple[int, ValueError] | None]:
    """The lines that are objects, with their numbers, and the last of them if it breaks off."""
    numbers, rows = [], []
    broken: tuple[int, ValueError] | None = None
    for number, line in lines_of(block, first):
        if line.isspace():
            continue
        if broken is not None:
            raise _broken(source, *broken)
        try:
            row = parse_line(line)
        except RecursionError as error:
            raise InputError(f"{source.name}, line {number}: the JSON is nested too deeply to be a log.") from error
        except ValueError as error:
            broken = number, error
            continue
        if type(row) is not dict:
            require_object(row, source.name, "line", number)
        numbers.append(number)
        rows.append(row)
    return numbers, rows, broken


def _broken(source: Source, number: int, error: ValueError) -> InputError:
    return InputError(
        f"{source.name}, line {number}: the JSON is broken ({safe(str(error))}). Every line must hold one object, such "
        'as {"step": 1, "reward": 0.5}; correct the line, or delete it.'
    )


def _opens_object(line: bytes) -> bool:
    """Whether it begins an object of JSON; the dicts that Python prints have single quotes."""
    return line.startswith(b"{") and line[1:].lstrip()[:1] in (b'"', b"}", b"")
