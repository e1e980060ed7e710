"""From one row per completion to one row per step, with exact statistics of the groups.

Of a step with P groups of G rewards r_ij: the reward is the mean over all completions; ``within_group_std`` the root
of the mean over groups of the unbiased variances s_i^2; ``zero_variance_share`` the share of groups with s_i = 0.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from math import isfinite, sqrt
from typing import Any

from sde_grpo.runs.readers.base import Log
from sde_grpo.runs.table import TableBuilder

SAME_REWARD = 1e-9


@dataclass
class _Group:
    count: int = 0
    mean: float = 0.0
    squares: float = 0.0  # sum of squared deviations from the mean (Welford)

    def add(self, reward: float) -> None:
        self.count += 1
        step = reward - self.mean
        self.mean += step / self.count
        self.squares += step * (reward - self.mean)


@dataclass
class Samples:
    """The completions of a run, added one by one in any order; only sums are kept."""

    missing: int = 0
    _steps: dict[float, dict[Hashable, _Group]] = field(default_factory=dict)

    def add(self, step: float, reward: float | None, group: Hashable | None) -> None:
        """One completion: its step, its reward (None: not graded), and its prompt, or None where that is not known."""
        if reward is None or not isfinite(reward):
            self.missing += 1
            return
        self._steps.setdefault(step, {}).setdefault(group, _Group()).add(reward)

    def log(self, wanted: Collection[str] = frozenset(), **about: Any) -> Log:
        """One row per step, in the order in which the steps first came; `about` are further fields of the `Log`."""
        builder = TableBuilder(wanted)
        for number, (step, groups) in enumerate(self._steps.items(), start=1):
            builder.add(number, _row(step, groups))
        warnings = list(about.pop("warnings", ()))
        about.setdefault("logging_steps", 1.0)  # a row is one batch, whatever the trainer's log averages
        if self.missing:
            warnings.append(f"{self.missing} completions without a reward were left out.")
        return Log(builder.table(), "step", warnings=tuple(warnings), **about)


def _row(step: float, groups: dict[Hashable, _Group]) -> dict[str, Any]:
    completions = sum(group.count for group in groups.values())
    row: dict[str, Any] = {"step": step, "reward": sum(g.count * g.mean for g in groups.values()) / completions}
    known = [group for name, group in groups.items() if name is not None and group.count > 1]
    if len(known) == len(groups):
        sizes = {group.count for group in known}
        row["prompts_per_step"] = len(known)
        if len(sizes) == 1:
            row["group_size"] = sizes.pop()
        variances = [group.squares / (group.count - 1) for group in known]
        row["within_group_std"] = sqrt(sum(variances) / len(variances))
        row["zero_variance_share"] = sum(v <= SAME_REWARD for v in variances) / len(variances)
    return row
