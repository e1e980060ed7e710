"""Settings from the log's columns, a trainer's configuration, a TOML file and the command line, with their origin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sde_grpo.runs.columns import Choice
from sde_grpo.runs.configuration import COUNTS, WORDS, Configuration, StepUnit
from sde_grpo.runs.frameworks import Stated
from sde_grpo.runs.readers.base import Log
from sde_grpo.runs.roles import SETTING_COLUMNS, plain
from sde_grpo.runs.source import safe
from sde_grpo.runs.table import Mask, Table, Vector

SAME_RATE = 1e-6
# The columns by which a trainer is known, and what its steps count.
_SIGNS: tuple[tuple[str, tuple[str, ...], StepUnit], ...] = (
    ("verl", ("critic_", "training_global_step"), "rollout"),
    ("TRL", ("rewards_", "frac_reward_zero_std", "completions_"), "optimizer"),
    ("ms-swift", ("global_step_max_steps", "train_speed"), "optimizer"),
    ("tinker", ("env_all_",), "rollout"),
    ("prime-rl", ("agg_all_", "agg_effective_", "batch_solve_none", "batch_solve_all"), "rollout"),
    ("OpenRLHF", ("rollout_reward_mean", "rollout_response_length"), "rollout"),
    ("NeMo-RL", ("baseline_reward_", "gen_kl_error", "token_mult_prob_error"), "rollout"),
    ("open-instruct", ("scores", "batch_filtered_prompts"), "rollout"),
    ("EasyR1", ("reward_overall",), "rollout"),
)


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

    def complete(self, stated: Stated) -> None:
        """Add what a trainer's configuration states, where the log itself has not said it already."""
        for name, value in stated.values.items():
            origin = f"{stated.origin} ({stated.keys[name]})"
            before = getattr(self.configuration, name)
            if before is None:
                self.add(name, value, origin)
            elif before != Configuration(**{name: value}).known()[name]:
                self.warnings.append(
                    f"{name} is {before} by {self.provenance[name]}, but {value} by {origin}; {before} is used."
                )


def from_log(log: Log, choice: Choice, table: Table, rows: Mask) -> Settings:
    """The settings that the log itself states; `rows` are its training rows of every kind."""
    settings = Settings(Configuration())
    for name in SETTING_COLUMNS:
        for column in table.with_role(name):
            if (table[column].filled & rows).any():
                _read_setting(settings, name, column, table, rows)
                break
    _read_updates(settings, table, rows)
    _read_learning_rate(settings, table, rows)
    if "step_unit" in settings.provenance:
        return settings
    if log.step_unit is not None:
        settings.add("step_unit", log.step_unit, log.unit_source)
    elif choice.step is not None and plain(choice.step) == "optimizer_step":
        settings.add("step_unit", "optimizer", f"log ({safe(choice.step)} column)")
    elif choice.step is not None and plain(choice.step) in ("grpo_step", "rollout_step"):
        settings.add("step_unit", "rollout", f"log ({safe(choice.step)} column)")
    else:
        for trainer, starts, unit in _SIGNS:
            if any(plain(name).startswith(starts) for name in table.names):
                counted = "one row a rollout batch" if unit == "rollout" else "its steps are optimizer steps"
                settings.add("step_unit", unit, f"log ({trainer} columns, {counted})")
                break
    return settings


def averaging_window(settings: Settings, logging_steps: float | None, row_steps: Vector) -> float | None:
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
    """Warn where K_ref > 1 and a step is a whole rollout batch, or has to be assumed to be an optimizer update."""
    known = settings.configuration
    if known.refresh_interval is None or known.refresh_interval == 1:
        return
    if known.step_unit == "rollout" and not settings.provenance["refresh_interval"].startswith("--"):
        settings.warnings.append(
            f"A step of this log is a rollout batch, on which the optimizer takes {known.refresh_interval} steps "
            "(refresh_interval): do not compare its time constants with those of a log that counts optimizer steps, as "
            "TRL's does."
        )
    elif known.step_unit is None:
        settings.warnings.append(
            f"The refresh interval is {known.refresh_interval}, but the log does not say what a step is: steps are "
            'taken as optimizer updates. If they count rollout batches, write step_unit = "rollout" in the file '
            "given with --config."
        )


def _read_setting(settings: Settings, name: str, column: str, table: Table, rows: Mask) -> None:
    taken = table[column].take(rows)
    origin = f"log ({safe(column)} column)"
    if name in WORDS:
        words = set(taken.values())
        if len(words) == 1 and words <= set(WORDS[name]):
            settings.add(name, words.pop(), origin)
        return
    values = taken.numbers[taken.finite]
    if not len(values):
        return
    low, high = float(values.min()), float(values.max())
    if low == high:
        if name in COUNTS and low >= 1 and low == int(low):
            settings.add(name, int(low), origin)
        elif name not in COUNTS and (0 <= low < 1 if name == "momentum" else low >= (name == "rows_averaged")):
            settings.add(name, low, origin)
    elif name in COUNTS:
        settings.warnings.append(
            f"{safe(column)} varies over the rows ({low:g} to {high:g}) and is not used; "
            f"give --{name.replace('_', '-')}."
        )


def _read_updates(settings: Settings, table: Table, rows: Mask) -> None:
    """K_ref where the log counts both optimizer steps and rollout batches, or says how it passes over a batch."""
    if settings.configuration.refresh_interval is not None:
        return
    counted: dict[str, str | None] = {"optimizer_step": None, "grpo_step": None, "rollout_step": None}
    for name in table.columns:
        if plain(name) in counted:
            counted[plain(name)] = name
    batch = counted["grpo_step"] or counted["rollout_step"]
    if counted["optimizer_step"] is None or batch is None:
        return
    updates, batches = table[counted["optimizer_step"]].numbers, table[batch].numbers
    both = rows & (updates > 0) & (batches > 0)
    if not both.any():
        return
    ratio = updates[both].max() / batches[both].max()
    if ratio >= 1 and abs(ratio - round(ratio)) < 1e-9:
        settings.add("refresh_interval", round(ratio), f"log ({counted['optimizer_step']} per {batch})")


def _read_learning_rate(settings: Settings, table: Table, rows: Mask) -> None:
    for column in table.with_role("learning_rate"):
        values = table[column].numbers[rows & table[column].finite]
        if not len(values):
            continue
        low, high = float(values.min()), float(values.max())
        if high - low <= SAME_RATE * high:
            if low > 0:
                settings.add("learning_rate", float(values[0]), f"log ({safe(column)} column)")
        else:
            settings.provenance["learning_rate"] = f"log ({safe(column)} column)"
            settings.warnings.append(
                f"The learning rate varies over the log ({safe(column)}: from {values[0]:g} to {values[-1]:g}, at most "
                f"{high:g}), so a plateau may be the schedule's. It is not taken from the log, for the model wants a "
                "constant one."
            )
        return


def facts_of(stated: Sequence[Stated]) -> dict[str, Any]:
    """What the configurations say beside the settings; the first that says it wins."""
    facts: dict[str, Any] = {}
    for one in reversed(stated):
        facts |= one.facts
    return facts
