"""What a reader is, and what it hands on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sde_grpo.runs.configuration import StepUnit
from sde_grpo.runs.source import Source
from sde_grpo.runs.table import Table


@dataclass(frozen=True)
class RawConfig:
    """A trainer's own configuration, flat or nested, under the trainer's own names, and where it stands."""

    values: Mapping[str, Any]
    origin: str


@dataclass(frozen=True)
class Log:
    """A file, or a folder of files, as one table, with what the whole says.

    **Arguments**

    - `table`: the rows, in file order. Several runs are told apart by a column such as ``run`` or ``seed``.
    - `row_name`: what the rows' numbers count, such as ``"line"``.
    - `format`: what it is, in words; the registry fills in the reader's.
    - `step_unit`: the unit of the step column, where the format fixes it; `unit_source` says how.
    - `logging_steps`: steps per logged row, over which the trainer averages, where the file says so.
    - `configs`: configurations found in the file, the surest first.
    - `warnings`: sentences on what was left out.
    - `refusals`: sentences on why a fit would mean nothing.
    """

    table: Table
    row_name: str
    format: str = ""
    step_unit: StepUnit | None = None
    unit_source: str = ""
    logging_steps: float | None = None
    configs: tuple[RawConfig, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()


class Reader(Protocol):
    """One format. The first reader in the registry that recognises a source reads it."""

    @property
    def format(self) -> str:
        """What the format is called."""
        ...

    def recognises(self, source: Source) -> bool:
        """Whether the source looks like this format, by its head, name or folder; must be quick and must not raise."""
        ...

    def read(self, source: Source, wanted: frozenset[str]) -> Log:
        """The rows; `wanted` are columns to keep beside the known ones. Raises `InputError` where it is broken."""
        ...
