"""The features of a trace that are compared with the model's: realised discrepancies T(y, θ).

With r_k = (y_k - m_k) / s_k, m the trajectory and s the marginal standard deviation of a draw θ, every function maps
reward (..., step), mean and sd (draw, step) to one value per draw, (draw,); a reward of shape (step,) serves all draws.
Gelman, Meng and Stern (1996), Statistica Sinica 6, 733-760.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from sde_grpo.intervals import UPPER

Vector = NDArray[np.float64]
Discrepancy = Callable[[Vector, Vector, Vector], Vector]

BAND = float(norm.ppf(UPPER))  # 1.645: half-width of the 90 % band, in standard deviations
THIRDS = ("first", "middle", "last")


def autocorrelation(reward: Vector, mean: Vector, sd: Vector) -> Vector:
    """Σ r_k r_{k+1} / Σ r_k², about the trajectory and not about the residuals' own mean; 0 where every r_k is 0."""
    r = (reward - mean) / sd
    total = np.sum(r**2, axis=-1)
    return np.sum(r[..., 1:] * r[..., :-1], axis=-1) / np.where(total > 0, total, 1.0)


def drawdown(reward: Vector, mean: Vector, sd: Vector) -> Vector:
    """max_k (max_{j <= k} y_j - y_k): the largest fall below the running maximum of the trace itself."""
    fall = np.max(np.maximum.accumulate(reward, axis=-1) - reward, axis=-1)
    return np.broadcast_to(fall, mean.shape[:-1])


def spread(reward: Vector, mean: Vector, sd: Vector, third: int) -> Vector:
    """√(mean of r_k²) over third 0, 1 or 2 of the logged points."""
    r = (reward - mean) / sd
    return np.sqrt(np.mean(np.array_split(r, 3, axis=-1)[third] ** 2, axis=-1))


def band_share(reward: Vector, mean: Vector, sd: Vector) -> Vector:
    """Share of points with |r_k| < 1.645."""
    return np.mean(np.abs(reward - mean) < BAND * sd, axis=-1)


def longest_run(reward: Vector, mean: Vector, sd: Vector) -> Vector:
    """Most consecutive points on one side of the trajectory; a point on it counts as above."""
    above = reward >= mean
    index = np.arange(above.shape[-1])
    begins = np.concatenate([np.ones_like(above[..., :1]), above[..., 1:] != above[..., :-1]], axis=-1)
    start = np.maximum.accumulate(np.where(begins, index, 0), axis=-1)
    return (np.max(index - start, axis=-1) + 1).astype(float)


def largest_residual(reward: Vector, mean: Vector, sd: Vector) -> Vector:
    """max_k |r_k|."""
    return np.max(np.abs(reward - mean) / sd, axis=-1)


@dataclass(frozen=True)
class Statistic:
    """A feature: its `name` in ``summary.json``, one line on what it is, and T(reward, mean, sd)."""

    name: str
    description: str
    function: Discrepancy


STATISTICS: tuple[Statistic, ...] = (
    Statistic("autocorrelation", "lag-1 autocorrelation of the standardised residuals", autocorrelation),
    Statistic("drawdown", "largest fall of the reward below its running maximum", drawdown),
    *(
        Statistic(f"spread_{part}", f"rms of the standardised residuals, {part} third", partial(spread, third=third))
        for third, part in enumerate(THIRDS)
    ),
    Statistic("band_share", "share of points inside the 90 % band", band_share),
    Statistic("longest_run", "most consecutive points on one side of the trajectory", longest_run),
    Statistic("largest_residual", "largest absolute standardised residual", largest_residual),
)
