"""Each run's own estimate of its stationary fluctuation, without what the sweep's model assumes of G."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import chi2

from sde_grpo.intervals import PROBABILITY

# Both in units of the run's residual variance.
_SIGMA2 = np.concatenate([[0.0], np.geomspace(1e-3, 4.0, 60)])
_NOISE = np.linspace(0.02, 1.4, 24)


class OwnSpread(NamedTuple):
    """Stationary sd, one entry a run: best value and 90 % likelihood interval. A lower end of 0 is an upper limit."""

    best: Float[np.ndarray, "run"]
    low: Float[np.ndarray, "run"]
    high: Float[np.ndarray, "run"]


def own_spread(
    residual: Float[np.ndarray, "run step"],
    times: Float[np.ndarray, "run step"],
    relaxation_time: Float[np.ndarray, "run"],
) -> OwnSpread:
    """Profile likelihood of sigma in r_k = x_k + e_k, Cov(x_j, x_k) = sigma^2 exp(-|t_j - t_k|/tau), e_k white.

    The variance of e_k is profiled out, so the estimate rests on the *memory* of the residuals: variance without
    memory is sampling noise, however large. The interval holds the sigma whose log likelihood is within
    chi2_1(0.90)/2 of the best.

    **Arguments**

    - `residual`: reward minus mean trajectory, NaN where there is no row.
    - `times`: of the rows, in steps; anything where `residual` is NaN.
    - `relaxation_time`: tau of each run, in steps; the overdamped memory.

    One scalar Kalman filter over all runs and grid points at once. The trajectory is taken as known, which makes
    sigma a little small where it was fitted to few rows.
    """
    variance = np.nanvar(residual, axis=1)[:, None, None]
    sigma2, noise = np.broadcast_arrays(variance * _SIGMA2[None, :, None], variance * _NOISE[None, None, :])
    log_likelihood = np.zeros(sigma2.shape)
    mean, spread = np.zeros(sigma2.shape), np.array(sigma2)
    last = np.full(len(residual), np.nan)
    for y, now in zip(residual.T, times.T, strict=True):
        there = np.isfinite(y)
        gap = np.where(there & np.isfinite(last), now - last, 0.0)
        memory = np.exp(-gap / relaxation_time)[:, None, None]
        mean, spread = memory * mean, memory**2 * spread + (1 - memory**2) * sigma2
        predicted = spread + noise
        off = np.where(there, y, 0.0)[:, None, None] - mean
        seen = there[:, None, None]
        log_likelihood -= np.where(seen, 0.5 * (np.log(predicted) + off**2 / predicted), 0.0)
        gain = np.where(seen, spread / predicted, 0.0)
        mean, spread = mean + gain * off, (1 - gain) * spread
        last = np.where(there, now, last)
    profile = log_likelihood.max(axis=2)
    sd = np.sqrt(variance[:, :, 0] * _SIGMA2)
    inside = profile >= profile.max(axis=1, keepdims=True) - chi2.ppf(PROBABILITY, 1) / 2
    inside[:, :-1] |= inside[:, 1:].copy()  # the ends lie between grid points: take those outside
    inside[:, 1:] |= inside[:, :-1].copy()
    low = np.where(inside, sd, np.inf).min(axis=1)
    high = np.where(inside, sd, -np.inf).max(axis=1)
    return OwnSpread(np.take_along_axis(sd, profile.argmax(axis=1)[:, None], 1)[:, 0], low, high)
