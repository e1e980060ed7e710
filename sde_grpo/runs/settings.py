"""Settings from the log's own columns, a sidecar file and the command line, each with its origin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sde_grpo.runs.cells import Row, number_or_none
from sde_grpo.runs.columns import Choice
from sde_grpo.runs.configuration import WORDS, Configuration
from sde_grpo.runs.readers.base import Log

COUNT_COLUMNS: dict[str, tuple[str, ...]] = {
    "group_size": ("group_size", "num_generations", "rollout_n", "group_size_mean"),
    "prompts_per_step": ("prompts_per_step", "num_questions"),
    "refresh_interval": ("refresh_interval",),
}
NUMBER_COLUMNS = ("momentum", "kl_weight")  # read only under these names, our own
WORD_COLUMNS = ("momentum_kind", "lag_schedule")  # the same
LEARNING_RATE_COLUMNS = ("learning_rate", "train/learning_rate", "optim/lr", "lr", "actor_lr", "actor/lr")
SAME_RATE = 1e-6


@dataclass
class Settings:
    """What is known so far: a configuration, where each field came from, and what to warn of."""

    configuration: Configuration
    provenance: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def add(self, name: str, value: Any, origin: str) -> None:
        """Set one field."""
        self.configuration = self.configuration.merged(Configuration(**{name: value}))
        self.provenance[name] = origin

    def override(self, given: Configuration, origin: str | None) -> None:
        """Let `given` win; the origin None stands for the command line, where each field has its option."""
        for name, value in given.known().items():
            source = origin or f"--{name.replace('_', '-')}"
            before = getattr(self.configuration, name)
            if before is not None and before != value:
                self.warnings.append(
                    f"{name} is {value} by {source}, but {before} by {self.provenance[name]}; {value} is used."
                )
            self.add(name, value, source)


def from_log(log: Log, choice: Choice, rows: Sequence[Row]) -> Settings:
    """The settings that the log itself states; `rows` are its training rows of every kind."""
    settings = Settings(Configuration())
    for name, columns in COUNT_COLUMNS.items():
        _read_count(settings, name, columns, rows)
    for name in NUMBER_COLUMNS:
        values = _values(rows, name)
        if values and min(values) == max(values):
            settings.add(name, values[0], f"log ({name} column)")
    for name in WORD_COLUMNS:
        words = {str(row.cells[name]).strip() for row in rows if row.cells.get(name) is not None}
        if len(words) == 1 and words <= set(WORDS[name]):
            settings.add(name, words.pop(), f"log ({name} column)")
    _read_learning_rate(settings, rows)
    if log.step_unit is not None:
        settings.add("step_unit", log.step_unit, log.unit_source)
    elif choice.step == "optimizer_step":
        settings.add("step_unit", "optimizer", "log (optimizer_step column)")
    elif choice.step == "grpo_step":
        settings.add("step_unit", "rollout", "log (grpo_step column)")
    elif any(c.startswith(("critic/", "critic_", "training/global_step")) for row in rows[:1] for c in row.cells):
        settings.add("step_unit", "rollout", "log (verl columns, one row a rollout batch)")
    return settings


def averaging_window(settings: Settings, logging_steps: float | None, row_steps: Sequence[float]) -> float | None:
    """The number of steps that one logged value averages over; None where each value belongs to its own step.

    Unless it is given, rows_averaged = max(1, logging_steps / K_ref), the sampled batches in one value, is set. Where
    it is given and the log does not state its window, the window is the median gap between the rows.
    """
    known = settings.configuration
    if known.rows_averaged is not None:
        if known.rows_averaged == 1:
            return None
        gaps = np.diff(np.unique(row_steps))
        return logging_steps or (float(np.median(gaps)) if len(gaps) else None)
    if logging_steps is None or logging_steps <= 1:
        return None
    origin = "log (logging_steps)"
    if known.refresh_interval is not None and known.refresh_interval > 1:
        origin += f" divided by refresh_interval ({settings.provenance['refresh_interval']})"
    settings.add("rows_averaged", max(1.0, logging_steps / (known.refresh_interval or 1)), origin)
    return logging_steps


def warn_of_unit(settings: Settings) -> None:
    """Warn where K_ref > 1 and the unit of the steps has to be assumed."""
    known = settings.configuration
    if known.refresh_interval is not None and known.refresh_interval > 1 and known.step_unit is None:
        settings.warnings.append(
            f"The refresh interval is {known.refresh_interval}, but the log does not say what a step is: steps are "
            'taken as optimizer updates. If they count rollout batches, write step_unit = "rollout" in the file '
            "given with --config."
        )


def _read_count(settings: Settings, name: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
    for column in columns:
        values = _values(rows, column)
        if not values:
            continue
        low, high = min(values), max(values)
        if low == high and low >= 1 and low == int(low):
            settings.add(name, int(low), f"log ({column} column)")
        elif low != high:
            settings.warnings.append(
                f"{column} varies over the rows ({low:g} to {high:g}) and is not used; give --{name.replace('_', '-')}."
            )
        return


def _read_learning_rate(settings: Settings, rows: Sequence[Row]) -> None:
    for column in LEARNING_RATE_COLUMNS:
        values = _values(rows, column)
        if not values:
            continue
        low, high = min(values), max(values)
        if high - low <= SAME_RATE * high:
            if low > 0:
                settings.add("learning_rate", values[0], f"log ({column} column)")
        else:
            settings.warnings.append(
                f"The learning rate varies over the log ({column}: from {values[0]:g} to {values[-1]:g}, at most "
                f"{high:g}), so a plateau may be the schedule's. It is not taken from the log, for the model wants a "
                "constant one."
            )
        return


def _values(rows: Sequence[Row], column: str) -> list[float]:
    numbers = (number_or_none(row.cells.get(column)) for row in rows)
    return [value for value in numbers if value is not None]
