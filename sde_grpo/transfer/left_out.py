"""A setting left out: what the others predict for it, and what it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sde_grpo.intervals import describe, interval
from sde_grpo.runs import Run
from sde_grpo.transfer.predict import Prediction, quantiles

CLIPPED = 0.01  # mean share of clipped tokens that counts as clipping
FAR = 1.0  # distance from start to fixed point, logit, beyond which the drift need not be linear
NEAR_THE_LIMIT = 0.3  # a K_ref / (1 - mu), of the 1 at which the paper's damping vanishes


@dataclass(frozen=True)
class LeftOut:
    """One run of a setting that the fit did not see.

    - `predicted`, `own`: relaxation time, {q05, q50, q95}; `own` is from the run alone.
    - `log_ratio`: log of own over that of the others' shared curvature, without scatter: by how much the one-curvature
      claim is off here.
    - `covered`: whether the own median lies in the predicted 90 % interval, which has the scatter in it.
    - `rewards_inside`: share of the run's rewards in the pointwise 90 % band predicted for them.
    - `circumstances`: what about the setting is known to break the claim.
    """

    run: str
    setting: str
    predicted: dict[str, float]
    own: dict[str, float]
    log_ratio: dict[str, float]
    covered: bool
    rewards_inside: float
    circumstances: tuple[str, ...]

    @property
    def fails(self) -> bool:
        """Whether the interval of the log ratio leaves zero out."""
        return self.log_ratio["q05"] > 0 or self.log_ratio["q95"] < 0

    @property
    def record(self) -> dict[str, Any]:
        """Plain data for ``summary.json``."""
        return {
            "run": self.run,
            "setting": self.setting,
            "predicted_relaxation_time": self.predicted,
            "own_relaxation_time": self.own,
            "log_ratio": self.log_ratio,
            "covered": self.covered,
            "rewards_inside": self.rewards_inside,
            "fails": self.fails,
            "circumstances": list(self.circumstances),
        }

    @property
    def sentence(self) -> str:
        """The finding in words."""
        p, o = self.predicted, self.own
        factor = {name: np.exp(value) for name, value in self.log_ratio.items() if name.startswith("q")}
        why = f" ({'; '.join(self.circumstances)})" if self.fails and self.circumstances else ""
        what = "fails here" if self.fails else "holds"
        return (
            f"{self.run}: predicted {p['q50']:.3g} [{p['q05']:.3g}, {p['q95']:.3g}], found {o['q50']:.3g} "
            f"[{o['q05']:.3g}, {o['q95']:.3g}], {factor['q50']:.2f} [{factor['q05']:.2f}, {factor['q95']:.2f}] times "
            f"that of the shared curvature: {what}{why}; {100 * self.rewards_inside:.0f} % of its rewards in the 90 % "
            "band."
        )


def compare_left_out(
    run: Run, prediction: Prediction, own: dict[str, NDArray[np.float64]], *, seed: int = 0
) -> LeftOut:
    """Set a run beside what was predicted for it; `own` holds its draws (`OwnDraws`, one row)."""
    rng = np.random.default_rng(seed)
    alone = np.where(own["relaxation_time"] > 0, own["relaxation_time"], np.inf)
    shared = rng.permutation(prediction.shared_relaxation_time)
    size = min(alone.size, shared.size)
    finite = np.isfinite(alone[:size]) & np.isfinite(shared[:size])
    ratio = np.log(alone[:size][finite] / shared[:size][finite]) if finite.any() else np.array([np.inf, np.inf])
    predicted, found = quantiles(prediction.relaxation_time), quantiles(alone)
    low, high = interval(prediction.reward, axis=0)
    inside = float(np.mean((run.reward >= low) & (run.reward <= high)))
    return LeftOut(
        run.label or run.source,
        prediction.setting.label,
        predicted,
        found,
        describe(ratio),
        predicted["q05"] <= found["q50"] <= predicted["q95"],
        inside,
        _circumstances(run, own, prediction),
    )


def _circumstances(run: Run, own: dict[str, NDArray[np.float64]], prediction: Prediction) -> tuple[str, ...]:
    setting, found = prediction.setting, []
    if setting.momentum_kind == "ema":
        found.append("adaptive optimizer: its step does not scale with the gradient")
    if "clip_share" in run.series:
        share = float(np.mean(run.series["clip_share"].values))
        if share > CLIPPED:
            found.append(f"{100 * share:.0f} % of the tokens clipped")
    distance = float(np.median(np.abs(own["start"] - own["fixed_point"])))
    if distance > FAR:
        found.append(f"starts {distance:.1f} logits from its fixed point, where the drift need not be linear")
    stiffness = setting.rate * np.exp(np.median(own["log_curvature"])) / (1 - setting.momentum)
    lag = float(stiffness * setting.refresh_interval)
    if lag > NEAR_THE_LIMIT:
        found.append(f"a K_ref/(1 - mu) = {lag:.2f}, near the stability limit")
    return tuple(found)
