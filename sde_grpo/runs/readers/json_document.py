"""A JSON document: a list of rows, one run with its curve, or many runs."""

from __future__ import annotations

import re
from typing import Any

from sde_grpo.errors import InputError, require
from sde_grpo.runs.readers.base import Log
from sde_grpo.runs.readers.curves import curve_of, runs_in
from sde_grpo.runs.readers.json_text import found, parse_document, require_object
from sde_grpo.runs.source import Source
from sde_grpo.runs.table import TableBuilder

# Console output may begin with a Python dict, or with [rank0] or [2026-01-31 12:00:00].
OPENING = re.compile(
    rb'\s*(?:\{\s*(?:["}]|$)|\[\s*(?:[\[{"\]]|(?:true|false|null|NaN|-?\d[\d.eE+-]{0,30})\s*(?:[,\]]|$)|$))'
)


class JsonDocument:
    """One JSON value: a list of rows, of rewards or of (step, reward) pairs, or objects that hold reward curves.

    What stands beside and above a curve (group size, seed, learning rate, ...) becomes further columns of its rows.
    """

    format = "JSON"

    def recognises(self, source: Source) -> bool:
        return OPENING.match(source.head) is not None

    def read(self, source: Source, wanted: frozenset[str]) -> Log:
        document = parse_document(source.text(), source.name)
        bare = isinstance(document, list) and bool(document) and not isinstance(document[0], dict)
        if bare and curve_of({"reward": document}) is not None:
            document = {"reward": document}
        if isinstance(document, list) and (not document or curve_of(_first(document)) is None):
            require(bool(document), f"{source.name}: the JSON list is empty; has the run logged anything yet?")
            if not isinstance(document[0], dict) or not any(True for _ in runs_in(document)):
                return _rows(document, source, wanted)
        builder = TableBuilder(wanted)
        for said, rows in runs_in(document):
            for row in rows:
                builder.add(len(builder) + 1, said | row)
        if not len(builder):
            raise InputError(
                f"{source.name} is one JSON value ({found(document)}): neither a list of rows, nor several lines of "
                "rows, nor a trainer_state.json with log_history. Write its reward curve as a CSV with the columns "
                "step and reward."
            )
        return Log(builder.table(), "point", format="JSON with whole curves")


def _first(document: list[Any]) -> Any:
    return next((item for item in document if isinstance(item, dict)), None)


def _rows(document: list[Any], source: Source, wanted: frozenset[str]) -> Log:
    builder = TableBuilder(wanted)
    for number, item in enumerate(document, start=1):
        require_object(item, source.name, "entry", number)
        builder.add(number, item)
    return Log(builder.table(), "entry", format="JSON list")
