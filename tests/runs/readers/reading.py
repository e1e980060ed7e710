"""A reader on a path, as the registry calls it."""

from __future__ import annotations

from pathlib import Path

from sde_grpo.runs.readers.base import Log, Reader
from sde_grpo.runs.source import open_source


def read(reader: Reader, path: Path, *wanted: str) -> Log:
    source = open_source(path)
    assert reader.recognises(source)
    return reader.read(source, frozenset(wanted))


def numbers(log: Log, column: str) -> list[float]:
    return log.table[column].numbers.tolist()
