"""JSON Lines, one row a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sde_grpo.errors import InputError
from sde_grpo.runs.readers.base import Log
from sde_grpo.runs.readers.curves import curve_of
from sde_grpo.runs.readers.json_text import parse_line, require_object
from sde_grpo.runs.roles import tells_runs_apart
from sde_grpo.runs.source import Source, safe
from sde_grpo.runs.table import TableBuilder


class JsonLines:
    """Flat or nested objects, one a line.

    A last line that breaks off belongs to a run that is still writing: it is dropped, with a warning.
    """

    format = "JSON Lines"

    def recognises(self, source: Source) -> bool:
        lines = [line.strip() for line in source.head.split(b"\n")]
        openings = [_opens_object(line) for line in lines if line][:2]
        if not openings or not openings[0]:
            return False
        return (all(openings) and len(openings) == 2) or _is_whole(next(line for line in lines if line), source)

    def read(self, source: Source, wanted: frozenset[str]) -> Log:
        builder = TableBuilder(wanted)
        warnings: list[str] = []
        for number, item in objects(source, warnings):
            if list in map(type, item.values()) and (curve := curve_of(item)) is not None:
                name = {} if any(tells_runs_apart(key) for key in item) else {"run": f"line {number}"}
                said = {key: value for key, value in item.items() if not isinstance(value, (list, dict))}
                for row in curve[1]:
                    builder.add(len(builder) + 1, said | name | row)
            elif len(item) == 2 and type(item.get("data")) is dict:  # verl's file logger
                builder.add(number, {"step": item.get("step"), **item["data"]})
            else:
                builder.add(number, item)
        return Log(builder.table(), "line", warnings=tuple(warnings))


def objects(source: Source, warnings: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The numbered objects of a JSON Lines file; raises `InputError` for a line that is none."""
    broken: tuple[int, ValueError] | None = None
    count = 0
    for number, line in source.lines():
        if not line or line.isspace():
            continue
        if broken is not None:
            raise _broken(source, *broken)
        try:
            item = parse_line(line)
        except RecursionError as error:
            raise InputError(f"{source.name}, line {number}: the JSON is nested too deeply to be a log.") from error
        except ValueError as error:
            broken = number, error
            continue
        if type(item) is not dict:
            require_object(item, source.name, "line", number)
        count += 1
        yield number, item
    if broken is not None:
        if not count:
            raise _broken(source, *broken)
        warnings.append(f"The last line ({broken[0]}) breaks off and was dropped; the run may still be writing.")


def _broken(source: Source, number: int, error: ValueError) -> InputError:
    return InputError(
        f"{source.name}, line {number}: the JSON is broken ({safe(str(error))}). Every line must hold one object, such "
        'as {"step": 1, "reward": 0.5}; correct the line, or delete it.'
    )


def _opens_object(line: bytes) -> bool:
    """Whether it begins an object of JSON; the dicts that Python prints have single quotes."""
    return line.startswith(b"{") and line[1:].lstrip()[:1] in (b'"', b"}", b"")


def _is_whole(line: bytes, source: Source) -> bool:
    try:
        return isinstance(parse_line(line), dict) and _more_follows(source)
    except (ValueError, RecursionError):
        return False


def _more_follows(source: Source) -> bool:
    return b"\n" in source.head.strip()
