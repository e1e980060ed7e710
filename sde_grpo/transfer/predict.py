"""The posterior predictive of a setting: relaxation time, mean trajectory, rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sde_grpo.errors import InputError, require
from sde_grpo.intervals import describe, interval
from sde_grpo.likelihood.links import Link, gain, to_unit
from sde_grpo.oscillator import displacement
from sde_grpo.runs import Configuration
from sde_grpo.transfer.design import Setting, longest, setting_of, settings_of
from sde_grpo.transfer.modes import motion
from sde_grpo.transfer.one_run import OwnDraws

Vector = NDArray[np.float64]
DRAWS = 1000


@dataclass(frozen=True)
class Batches:
    """How rewards are logged: G P completions a value, steps per unit of time, the least reward, the range."""

    completions: float
    time_unit: float
    low: float
    width: float


@dataclass(frozen=True)
class Prediction:
    """Draws for one run of a setting.

    - `relaxation_time`: (draw,), in units of the log's time; `shared_relaxation_time`: the same without any scatter of
      the curvature between settings and runs.
    - `stable`: (draw,), whether the exact update is; an unstable one has no relaxation time, and infinity stands there.
    - `times`: (time,) since the first logged value; `mean` and `reward`: (draw, time), the latter as it is logged.
    """

    setting: Setting
    relaxation_time: Vector
    shared_relaxation_time: Vector
    stable: NDArray[np.bool_]
    fixed_point: Vector
    times: Vector
    mean: NDArray[np.float64]
    reward: NDArray[np.float64]

    @property
    def record(self) -> dict[str, Any]:
        """Plain data for ``summary.json``."""
        low, high = interval(self.mean, axis=0)
        below, above = interval(self.reward, axis=0)
        return {
            "setting": self.setting.label,
            "relaxation_time": quantiles(self.relaxation_time),
            "fixed_point": describe(self.fixed_point),
            "probability_unstable": float(1 - self.stable.mean()),
            "times": self.times.tolist(),
            "mean": {"q05": low.tolist(), "q50": np.median(self.mean, axis=0).tolist(), "q95": high.tolist()},
            "reward": {"q05": below.tolist(), "q95": above.tolist()},
        }

    @property
    def sentence(self) -> str:
        """The prediction in words."""
        tau, end = quantiles(self.relaxation_time), describe(self.mean[:, -1])
        risk = 1 - float(self.stable.mean())
        unstable = f" The update itself is unstable with probability {100 * risk:.0f} %." if risk >= 0.01 else ""
        return (
            f"{self.setting.label}: relaxation time {tau['q50']:.3g} [{tau['q05']:.3g}, {tau['q95']:.3g}], reward "
            f"{end['q50']:.3f} [{end['q05']:.3f}, {end['q95']:.3f}] after {self.times[-1]:g} steps.{unstable}"
        )


def quantiles(draws: Vector) -> dict[str, float]:
    """q05, q50, q95; infinite draws are allowed, and a quantile may be infinite."""
    q05, q50, q95 = (float(q) for q in np.quantile(draws, [0.05, 0.5, 0.95], method="inverted_cdf"))
    return {"q05": q05, "q50": q50, "q95": q95}


def parse_setting(text: str, like: Sequence[Setting]) -> Setting:
    """A setting from ``learning_rate=0.02,momentum=0.9,refresh_interval=4``, ``momentum_kind`` too where it is known.

    The kind of momentum is that of the runs where all have one. Raises `InputError` for anything else.
    """
    kinds = {setting.momentum_kind for setting in like}
    allowed = ("learning_rate", "momentum", "refresh_interval", "momentum_kind")
    values: dict[str, Any] = {"momentum_kind": next(iter(kinds))} if len(kinds) == 1 else {}
    for part in text.split(","):
        name, _, value = (word.strip() for word in part.partition("="))
        require(
            name in allowed and bool(value),
            f"--predict has {part.strip()!r}; write {', '.join(f'{n}=...' for n in allowed[:3])}, and "
            "momentum_kind=heavy_ball or ema where the runs have both.",
        )
        try:
            values[name] = value if name == "momentum_kind" else int(value) if name == allowed[2] else float(value)
        except ValueError as error:
            raise InputError(f"--predict has {part.strip()!r}; {name} must be a number.") from error
    return setting_of(Configuration(**values), "--predict")


def predict_setting(
    population: Mapping[str, Vector],
    setting: Setting,
    own: OwnDraws,
    counted: NDArray[np.bool_],
    times: Vector,
    batches: Batches,
    link: Link,
    *,
    seed: int = 0,
) -> Prediction:
    """Draws for a run of `setting` from the population, as it would be logged.

    **Arguments**

    - `population`: draws (draw,) of the common parameters; `own`, `counted` (run,): the runs whose noise is taken.
    - `times`: since the first logged value, in units of the log's time.
    """
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(population["log_curvature"]), DRAWS)
    h = {name: values[chosen] for name, values in population.items() if np.ndim(values) == 1}
    normal = rng.standard_normal((4, DRAWS))
    log_curvature = h["log_curvature"] + h["scatter_of_settings"] * normal[0] + h["scatter_of_runs"] * normal[1]
    start = h["start"] + h["scatter_of_start"] * normal[2]
    fixed_point = h["fixed_point"] + h["scatter_of_fixed_point"] * normal[3]
    settings = settings_of(setting, batches.time_unit)
    moved = motion(settings, np.exp(log_curvature), longest=longest([setting]))
    shared = motion(settings, np.exp(h["log_curvature"]), longest=longest([setting]))
    b, k, velocity = (np.asarray(value)[:, None] for value in moved)
    x0 = (start - fixed_point)[:, None]
    unit = np.asarray(to_unit(link, fixed_point[:, None] + displacement(b, k, x0, velocity * x0, times)))
    runs = rng.choice(np.flatnonzero(counted), DRAWS)
    draws = rng.integers(own.start.shape[1], size=DRAWS)
    gradient_noise, dispersion = own.gradient_noise[runs, draws], own.dispersion[runs, draws]
    stable = np.asarray(moved.b) > 0
    tau = np.where(stable, np.asarray(moved.relaxation_time), np.inf)
    sd = gradient_noise / (np.exp(log_curvature) * np.sqrt(tau * batches.time_unit * batches.completions))
    fluctuation = (sd[:, None] * np.asarray(gain(link, jnp.asarray(unit)))) ** 2 * -np.expm1(-2 * times / tau[:, None])
    flips = dispersion[:, None] / batches.completions * np.clip(unit * (1 - unit), 0, None)
    noise = np.sqrt(fluctuation + flips) * rng.standard_normal(unit.shape)
    return Prediction(
        setting,
        tau,
        np.where(np.asarray(shared.b) > 0, np.asarray(shared.relaxation_time), np.inf),
        stable,
        batches.low + batches.width * np.asarray(to_unit(link, fixed_point)),
        times,
        batches.low + batches.width * unit,
        batches.low + batches.width * (unit + noise),
    )
