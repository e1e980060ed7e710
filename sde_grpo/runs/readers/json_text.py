"""Parsing and flattening JSON, shared by the JSON readers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sde_grpo.errors import InputError, require
from sde_grpo.runs.cells import Row


def parse_document(text: str, source: str) -> Any:
    """The whole text as one JSON value; raises `InputError` that says where it breaks off."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        cut = not text[error.pos :].strip() or error.msg.startswith("Unterminated string")
        found = "the JSON is cut off" if cut else "the JSON is broken"
        raise InputError(
            f"{source}: {found} at line {error.lineno}, character {error.colno} ({error.msg}). Copy the file again, "
            "after the trainer has finished writing it."
        ) from error
    except RecursionError as error:
        raise InputError(f"{source}: the JSON is nested too deeply to be a log; name the log file itself.") from error
    except ValueError as error:
        raise InputError(f"{source}: the JSON cannot be read ({error}).") from error


def flat_rows(items: Iterable[tuple[int, Any]], source: str, row_name: str) -> list[Row]:
    """Rows from numbered JSON objects; ``{"a": {"b": 1}}`` becomes ``{"a/b": 1}``."""
    rows = []
    for number, item in items:
        require(
            isinstance(item, dict),
            f"{source}, {row_name} {number}: found {_kind(item)} where a row was expected; each must be an object, "
            'such as {"step": 1, "reward": 0.5}.',
        )
        rows.append(Row(number, _flat(item)))
    return rows


def _flat(item: dict[str, Any]) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    pending = [("", item)]
    while pending:
        prefix, nested = pending.pop()
        for key, value in nested.items():
            if isinstance(value, dict):
                pending.append((f"{prefix}{key}/", value))
            else:
                cells[prefix + key] = value
    return cells


def _kind(item: Any) -> str:
    if item is None:
        return "null"
    names = {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(item), "something else")
