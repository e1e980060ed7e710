"""What the transfer needs of its runs: designs of one shape, and the optimizer settings of each."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from sde_grpo.errors import require
from sde_grpo.likelihood.links import Link
from sde_grpo.model import Design, build_design, padded
from sde_grpo.runs import Configuration, Run
from sde_grpo.transfer.modes import Settings

NEEDED = ("learning_rate", "momentum", "refresh_interval")


@dataclass(frozen=True, order=True)
class Setting:
    """A configuration of the optimizer: what the curvature is shared across."""

    learning_rate: float
    momentum: float
    momentum_kind: str
    refresh_interval: int

    @property
    def label(self) -> str:
        """Such as ``"learning_rate=0.01 momentum=0.9 refresh_interval=8"``; ``ema`` is named where it applies."""
        kind = " ema" if self.momentum_kind == "ema" else ""
        return (
            f"learning_rate={self.learning_rate:g} momentum={self.momentum:g}{kind} "
            f"refresh_interval={self.refresh_interval}"
        )

    @property
    def rate(self) -> float:
        """eta, or eta (1 - mu) for an EMA."""
        return self.learning_rate * ((1 - self.momentum) if self.momentum_kind == "ema" else 1.0)


def setting_of(configuration: Configuration, source: str) -> Setting:
    """The setting of a run; raises `InputError` where one of its parts is unknown, or the lag is constant."""
    missing = [name for name in NEEDED if getattr(configuration, name) is None]
    require(
        not missing,
        f"{source}: {', '.join(missing)} is not known, and one curvature can be shared across runs only where "
        f"{', '.join(NEEDED)} of each are. Give what is missing in a TOML file (--config) or as an option.",
    )
    require(
        configuration.lag_schedule != "constant",
        f"{source}: its lag_schedule is 'constant'; the transfer across settings is worked out for 'periodic' refresh.",
    )
    c = configuration
    assert c.learning_rate is not None
    assert c.momentum is not None
    assert c.refresh_interval is not None
    return Setting(c.learning_rate, c.momentum, c.momentum_kind or "heavy_ball", c.refresh_interval)


class Lane(NamedTuple):
    """One run: the design of its trace, its settings, and log kappa at which it covers four relaxation times."""

    design: Design
    settings: Settings
    centre: Float[Array, ""]


def build_lanes(runs: Sequence[Run], link: Link | None = None) -> tuple[list[Lane], list[Setting]]:
    """The lanes of several runs, all of one shape, so that they share compiled programs, and the setting of each.

    Raises `InputError` where settings are unknown, all runs have the same one, or reward ranges differ or are unknown.
    """
    settings = [setting_of(run.configuration, run.label or run.source) for run in runs]
    distinct = sorted({setting.label for setting in settings})
    require(
        len(distinct) > 1,
        f"All {len(runs)} runs have the setting {distinct[0] if distinct else '(none)'}; sharing a curvature says "
        "something only across settings. Add runs with another learning rate, momentum or refresh interval.",
    )
    ranges = {run.configuration.reward_range for run in runs}
    require(
        len(ranges) == 1 and None not in ranges,
        f"The reward ranges of the runs are {', '.join(sorted(map(str, ranges)))}; they must be known and the same for "
        "a common fixed point. Declare the range with --reward-range LOW HIGH.",
    )
    designs = [padded(build_design(run, link, "mechanistic")) for run in runs]
    steps, gaps = (max(len(getattr(d, name)) for d in designs) for name in ("time", "gaps"))
    return [_lane(d, s, steps, gaps) for d, s in zip(designs, settings, strict=True)], settings


def settings_of(setting: Setting, time_unit: float = 1.0) -> Settings:
    """The setting as the update takes it; `time_unit` is the number of optimizer steps in a unit of time."""
    values = (setting.rate, setting.momentum, float(setting.refresh_interval), time_unit)
    return Settings(*(jax.device_put(np.asarray(value)) for value in values))


def longest(settings: Sequence[Setting]) -> int:
    """The greatest refresh interval, rounded up to a power of two: runs of similar settings share programs."""
    return 2 ** math.ceil(math.log2(max(setting.refresh_interval for setting in settings)))


def _lane(design: Design, setting: Setting, steps: int, gaps: int) -> Lane:
    more = steps - len(design.time)
    gap = np.pad(np.asarray(design.gaps), (0, gaps - len(design.gaps)), mode="edge")
    time = np.asarray(design.time)
    fields = {
        "reward": np.pad(np.asarray(design.reward), (0, more), constant_values=0.5),
        "time": np.concatenate([time, time[-1] + gap[min(1, gaps - 1)] * np.arange(1, more + 1)]),
        "gaps": gap,
        "gap_index": np.pad(np.asarray(design.gap_index), (0, more), constant_values=min(1, gaps - 1)),
        "observed": np.pad(np.asarray(design.observed), (0, more)),
    }
    arrays = jax.device_put(tuple(fields.values()))
    longer = eqx.tree_at(lambda d: tuple(getattr(d, n) for n in fields), design, arrays)
    unit, length = float(design.time_unit), float(design.length)
    centre = math.log((1 - setting.momentum) / (setting.rate * 0.25 * length * unit))
    # The settings stand in `settings`; a rule with a static refresh interval would be another program.
    shared = dataclasses.replace(longer, rule=None)
    return Lane(shared, settings_of(setting, unit), jax.device_put(np.asarray(centre)))
