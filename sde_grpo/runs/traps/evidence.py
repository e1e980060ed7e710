"""What the traps are looked for in, and what they leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sde_grpo.runs.columns import Choice
from sde_grpo.runs.readers.base import Log
from sde_grpo.runs.run import Run, Series
from sde_grpo.runs.table import Mask, Table, Vector


@dataclass(frozen=True, eq=False)
class Evidence:
    """A run as assembled, and the table it came from: the rows of `training` (n,), their `steps` (n,), and the `facts`
    that the configurations state."""

    run: Run
    table: Table
    choice: Choice
    training: Mask
    steps: Vector
    facts: Mapping[str, Any]
    log: Log


@dataclass
class Found:
    """Sentences to warn with, reasons to refuse a fit, further series, and the names of series that mislead."""

    warnings: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    series: dict[str, Series] = field(default_factory=dict)
    unusable_series: set[str] = field(default_factory=set)
