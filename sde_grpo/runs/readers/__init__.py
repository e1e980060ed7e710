"""Files to rows: the first reader that recognises the content of a file reads it."""

from __future__ import annotations

from pathlib import Path

from sde_grpo.errors import InputError
from sde_grpo.runs.readers.base import Log, Reader
from sde_grpo.runs.readers.delimited import Delimited
from sde_grpo.runs.readers.json_lines import JsonLines
from sde_grpo.runs.readers.text import ACCEPTED, read_text
from sde_grpo.runs.readers.trainer_state import TrainerState

READERS: tuple[Reader, ...] = (TrainerState(), JsonLines(), Delimited())

__all__ = ["READERS", "Log", "Reader", "read_log"]


def read_log(path: Path) -> Log:
    """The rows of a file; raises `InputError` for a file that is missing, broken, or of no known format."""
    text = read_text(path)
    for reader in READERS:
        if reader.recognises(text):
            return reader.read(text, path.name)
    first = text.strip().splitlines()[0][:60]
    raise InputError(
        f"{path.name}: the format is not known (the file begins with {first!r}). Accepted are {ACCEPTED}; write the "
        "reward curve as a CSV with the columns step and reward."
    )
