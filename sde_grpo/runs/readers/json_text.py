"""Parsing JSON, shared by the JSON readers."""

from __future__ import annotations

import json
from typing import Any

from sde_grpo.errors import InputError, require
from sde_grpo.runs.source import safe

HISTORY = "log_history"  # under which Hugging Face's Trainer keeps its rows


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


def parse_line(line: bytes) -> Any:
    """One line as a JSON value, NaN and Infinity allowed. Raises `ValueError` and `RecursionError`."""
    import orjson

    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return json.loads(line)  # slower, but it knows NaN, and says where the line breaks off


def require_object(item: Any, source: str, row_name: str, number: int) -> None:
    """Raise `InputError` unless the item is a JSON object."""
    require(
        isinstance(item, dict),
        f"{source}, {row_name} {number}: found {_kind(item)} where a row was expected; each must be an object, "
        'such as {"step": 1, "reward": 0.5}.',
    )


def found(document: Any) -> str:
    """What a JSON value is, in words."""
    from sde_grpo.runs.cells import listed

    if isinstance(document, dict):
        return f"an object with the keys {listed(list(document))}"
    return safe(repr(document), 40)


def _kind(item: Any) -> str:
    if item is None:
        return "null"
    names = {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(item), "something else")
