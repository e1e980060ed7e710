"""What a reader is, and what it hands on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sde_grpo.runs.cells import Row
from sde_grpo.runs.configuration import StepUnit


@dataclass(frozen=True)
class Log:
    """A file as flat rows, with what the file as a whole says.

    **Arguments**

    - `rows`: in file order.
    - `row_name`: what the rows' numbers count, such as ``"line"``.
    - `step_unit`: the unit of the step column, where the format fixes it; `unit_source` says how.
    - `logging_steps`: steps per logged row, over which the trainer averages, where the file says so.
    - `warnings`: sentences on what was left out.
    """

    rows: list[Row]
    row_name: str
    step_unit: StepUnit | None = None
    unit_source: str = ""
    logging_steps: float | None = None
    warnings: tuple[str, ...] = ()


class Reader(Protocol):
    """One file format. The first reader in the registry that recognises the text of a file reads it."""

    @property
    def format(self) -> str:
        """What the format is called in messages."""
        ...

    def recognises(self, text: str) -> bool:
        """Whether the text looks like this format; must be quick and must not raise."""
        ...

    def read(self, text: str, source: str) -> Log:
        """The rows of the text; raises `InputError`, naming the file `source`, where it is broken."""
        ...
