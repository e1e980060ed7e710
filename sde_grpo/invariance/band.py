"""The 1/sqrt(G) band: how far the policy wanders at each group size, and what is only sampling noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from sde_grpo.groups import GroupRule
from sde_grpo.intervals import interval
from sde_grpo.invariance.own_spread import OwnSpread, own_spread

POINTS = 25  # group sizes, evenly spaced on the log axis, at which the band is drawn


@dataclass(frozen=True)
class FluctuationBand:
    """Stationary sd of the policy in reward units against G.

    - `group_size`: (point,); `low`, `middle`, `high`: the credible band there (5, 50 and 95 %).
    - `leading`: middle(G_max) sqrt(G_max/G), the leading law; `exact`: the finite-G curve, or None where it does not
      apply.
    - `run_group_size`, `own`: each run's G and its own estimate.
    - `raw_sd`: of each run's residuals; `noise_sd`: the part of it that is sampling noise.
    """

    group_size: Float[np.ndarray, "point"]
    low: Float[np.ndarray, "point"]
    middle: Float[np.ndarray, "point"]
    high: Float[np.ndarray, "point"]
    leading: Float[np.ndarray, "point"]
    exact: Float[np.ndarray, "point"] | None
    run_group_size: Float[np.ndarray, "run"]
    own: OwnSpread
    raw_sd: Float[np.ndarray, "run"]
    noise_sd: Float[np.ndarray, "run"]

    @property
    def noise_share(self) -> float:
        """Median over the runs of noise^2/raw^2, at most 1: the share of sampling noise in the residual variance."""
        return float(np.median(np.minimum(1.0, (self.noise_sd / self.raw_sd) ** 2)))

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "group_size": self.group_size.tolist(),
            "q05": self.low.tolist(),
            "q50": self.middle.tolist(),
            "q95": self.high.tolist(),
            "leading_law": self.leading.tolist(),
            "exact": None if self.exact is None else self.exact.tolist(),
            "noise_share": self.noise_share,
            "runs": [
                {"group_size": g, "own": own, "own_q05": low, "own_q95": high, "raw_sd": raw, "noise_sd": noise}
                for g, own, low, high, raw, noise in zip(
                    *(x.tolist() for x in (self.run_group_size, *self.own, self.raw_sd, self.noise_sd)), strict=True
                )
            ],
        }


def line_in_log2(
    values: Float[np.ndarray, "draw run"], group_size: Float[np.ndarray, "run"], at: Float[np.ndarray, "point"]
) -> Float[np.ndarray, "draw point"]:
    """Least-squares line of `values` in log2 G over the runs, draw by draw, at the group sizes `at`."""
    x = np.log2(group_size)
    design = np.stack([np.ones_like(x), x - x.mean()])
    level, slope = np.linalg.pinv(design.T) @ values.T
    return level[:, None] + slope[:, None] * (np.log2(at) - x.mean())


def fluctuation_band(
    stationary_sd: Float[np.ndarray, "draw run"],
    noise_sd: Float[np.ndarray, "draw run"],
    relaxation_time: Float[np.ndarray, "draw run"],
    fixed_point: Float[np.ndarray, "draw run"],
    residual: Float[np.ndarray, "run step"],
    times: Float[np.ndarray, "run step"],
    group_size: Float[np.ndarray, "run"],
    *,
    rule: GroupRule | None = None,
) -> FluctuationBand:
    """Band of exp(line of log sd in log2 G), with the laws and the runs' own estimates.

    The exact curve is sd(G) ~ w_G sqrt(tau_G Var s_G(p_G)), w = p(1-p), with plateau p_G and relaxation time tau_G as
    the runs show them and Var s the exact variance of a group's signal; like the leading law it is set to the band's
    middle at the greatest G, so both are statements on the *shape*.

    **Arguments**

    - `stationary_sd`, `noise_sd`, `fixed_point`: reward units; `relaxation_time`: steps.
    - `residual`, `times`: reward minus mean trajectory and its steps, NaN-padded.
    - `group_size`: G of each run, at least two values.
    - `rule`: how advantages were normalised; None where the exact sums do not apply (rewards that are not 0/1).

    Source: theory note, sections 4 to 6.
    """
    grid = np.geomspace(group_size.min(), group_size.max(), POINTS)
    low, high = np.exp(interval(line_in_log2(np.log(stationary_sd), group_size, grid), axis=0))
    middle = np.exp(np.median(line_in_log2(np.log(stationary_sd), group_size, grid), axis=0))
    tau = np.median(relaxation_time, axis=0)
    exact = None
    if rule is not None:
        sizes = np.unique(group_size).astype(int)
        at = sizes.astype(float)
        tau_at = np.exp(np.median(line_in_log2(np.log(relaxation_time), group_size, at), axis=0))
        inside = np.clip(fixed_point, 1e-6, 1 - 1e-6)
        theta = np.median(line_in_log2(np.log(inside / (1 - inside)), group_size, at), axis=0)
        exact = _exact_shape(sizes, theta, tau_at, rule)
        exact = None if exact is None else np.exp(np.interp(np.log(grid), np.log(at), np.log(middle[-1] * exact)))
    return FluctuationBand(
        group_size=grid,
        low=low,
        middle=middle,
        high=high,
        leading=middle[-1] * np.sqrt(grid[-1] / grid),
        exact=exact,
        run_group_size=group_size,
        own=own_spread(residual, times, tau),
        raw_sd=np.nanstd(residual, axis=1),
        noise_sd=np.median(noise_sd, axis=0),
    )


def _exact_shape(
    sizes: np.ndarray, theta: Float[np.ndarray, "point"], tau: Float[np.ndarray, "point"], rule: GroupRule
) -> Float[np.ndarray, "point"] | None:
    """w_G sqrt(tau_G Var s_G) relative to the greatest G; None where a G has no noise at all."""
    from sde_grpo.groups import group_signal

    p = 1 / (1 + np.exp(-theta))
    variance = np.array([float(group_signal(x, int(g), rule).variance) for x, g in zip(theta, sizes, strict=True)])
    if not np.all(variance > 0):
        return None
    shape = p * (1 - p) * np.sqrt(tau * variance)
    return shape / shape[-1]
