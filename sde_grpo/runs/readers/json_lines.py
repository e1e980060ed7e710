"""JSON Lines, one row a line, and a JSON list of rows."""

from __future__ import annotations

import json
from typing import Any

from sde_grpo.errors import InputError, require
from sde_grpo.runs.cells import listed
from sde_grpo.runs.readers.base import Log
from sde_grpo.runs.readers.json_text import flat_rows, parse_document


class JsonLines:
    """Flat or nested objects, one a line, or together in one list.

    A last line that breaks off belongs to a run that is still writing: it is dropped, with a warning.
    """

    format = "JSON Lines or a JSON list"

    def recognises(self, text: str) -> bool:
        return text.lstrip()[:1] in ("{", "[")

    def read(self, text: str, source: str) -> Log:
        lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
        if _one_object_a_line(lines):
            return _read_lines(lines, source)
        document = parse_document(text, source)
        if not isinstance(document, list):
            raise InputError(
                f"{source} is one JSON value ({_found(document)}): neither a list of rows, nor several lines of rows, "
                "nor a trainer_state.json with log_history. Write its reward curve as a CSV with the columns step and "
                "reward."
            )
        require(bool(document), f"{source}: the JSON list is empty; has the run logged anything yet?")
        return Log(flat_rows(enumerate(document, start=1), source, "entry"), "entry")


def _found(document: Any) -> str:
    return f"an object with the keys {listed(list(document))}" if isinstance(document, dict) else repr(document)[:40]


def _one_object_a_line(lines: list[tuple[int, str]]) -> bool:
    """Whether at least two lines open an object at their start, or the first of several is a whole value."""
    openings = [line.lstrip().startswith("{") for _, line in lines[:2]]
    if len(openings) < 2 or not openings[0]:
        return False
    return openings[1] or _is_whole(lines[0][1])


def _is_whole(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _read_lines(lines: list[tuple[int, str]], source: str) -> Log:
    items: list[tuple[int, Any]] = []
    warnings = []
    for number, line in lines:
        try:
            items.append((number, json.loads(line)))
        except RecursionError as error:
            raise InputError(f"{source}, line {number}: the JSON is nested too deeply to be a log.") from error
        except ValueError as error:
            if number == lines[-1][0] and items:
                warnings.append(f"The last line ({number}) breaks off and was dropped; the run may still be writing.")
                continue
            raise InputError(
                f"{source}, line {number}: the JSON is broken ({error}). Every line must hold one object, such as "
                '{"step": 1, "reward": 0.5}; correct the line, or delete it.'
            ) from error
    return Log(flat_rows(items, source, "line"), "line", warnings=tuple(warnings))
