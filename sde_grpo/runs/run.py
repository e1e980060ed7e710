"""A run as the rest of the package sees it: steps, rewards, settings, and what had to be assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sde_grpo.runs.checks import require_trajectory
from sde_grpo.runs.configuration import Configuration
from sde_grpo.runs.source import safe

Vector = NDArray[np.float64]
GRID_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Series:
    """A further logged quantity: `values` at strictly increasing `steps`, both of shape (m,)."""

    steps: Vector
    values: Vector

    def truncated(self, last_step: float) -> Series:
        """The values up to and with `last_step`."""
        kept = self.steps <= last_step
        return Series(self.steps[kept], self.values[kept])


@dataclass(frozen=True, eq=False)
class Run:
    """One reward curve.

    **Arguments**

    - `source`: name of the file, without its folder.
    - `steps`: shape (n,), strictly increasing, the log's own step stamps, in units of `configuration.step_unit`.
    - `times`: shape (n,), the step each value belongs to. A value that averages the rows since the last log belongs
      to the middle of its window, step - (gap - 1)/2; any other value to its step.
    - `reward`: shape (n,), finite, mean reward of the sampled batch, in the units of the log.
    - `reward_column`: the column it was read from.
    - `configuration`: what is known of the settings.
    - `provenance`: for each known setting, where it came from, such as ``"--group-size"``.
    - `series`: further quantities, under eval_reward, within_group_std, zero_variance_share, entropy, kl, clip_share,
      gradient_norm, lag and length, where the log has them.
    - `warnings`: sentences on what was assumed or left out.
    - `refusals`: sentences on why a fit would mean nothing; empty for a run that can be fitted.
    - `format`: what the log is, in words.
    - `key`: what tells the run apart from others in the same file, column -> value; empty for the only one.
    - `restarts`: how often the log goes back to an earlier step.
    """

    source: str
    steps: Vector
    times: Vector
    reward: Vector
    reward_column: str
    configuration: Configuration
    provenance: Mapping[str, str] = field(default_factory=dict)
    series: Mapping[str, Series] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    format: str = ""
    key: Mapping[str, str] = field(default_factory=dict)
    restarts: int = 0

    def truncated(self, last_step: float) -> Run:
        """The run up to and with `last_step`; raises `NothingToFitError` where too little is left."""
        kept = self.steps <= last_step
        require_trajectory(f"{self.source} up to step {last_step:g}", self.reward[kept])
        return replace(
            self,
            steps=self.steps[kept],
            times=self.times[kept],
            reward=self.reward[kept],
            series={
                name: series.truncated(last_step)
                for name, series in self.series.items()
                if (series.steps <= last_step).any()
            },
        )

    @property
    def label(self) -> str:
        """The key as one phrase, such as ``"group_size=4 seed=42"``; empty for the only run of a file."""
        return " ".join(f"{safe(name)}={safe(value)}" for name, value in self.key.items())

    @property
    def binary(self) -> bool:
        """Whether every reward is a mean of G P rows_averaged zeros and ones, to 1e-6, as far as is known."""
        known = self.configuration
        if known.group_size is None or known.prompts_per_step is None or known.reward_range != (0.0, 1.0):
            return False
        completions = known.group_size * known.prompts_per_step * (known.rows_averaged or 1.0)
        nearest = np.round(self.reward * completions) / completions
        return bool(np.all(np.abs(self.reward - nearest) <= GRID_TOLERANCE))
