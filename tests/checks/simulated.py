"""Fits without a sampler: a trajectory known exactly, noise of known law, arrays as a `Fit` holds them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sde_grpo.checks.verdict import CheckReport, check_arrays

Vector = NDArray[np.float64]

STEPS = 150
DRAWS = 400
SD = 0.05
TRAJECTORY = 0.3 + 0.4 * (1 - np.exp(-np.arange(STEPS) / 25))
NAMES = ("reward", "mean", "marginal_sd", "ahead_mean", "ahead_sd")


def report_on(noise: Vector, seed: int, *, correlation: float = 0.0) -> CheckReport:
    """Checks of TRAJECTORY + noise against a model that knows it, with AR(1) noise of sd SD and `correlation`."""
    return check_arrays(TRAJECTORY + noise, *model_arrays(noise, seed, correlation))


def model_arrays(noise: Vector, seed: int, correlation: float = 0.0) -> tuple[Vector, ...]:
    """Replicated traces, mean, sd, one-step-ahead mean and sd, each (DRAWS, STEPS)."""
    shape = (DRAWS, STEPS)
    replicated = TRAJECTORY + autoregressive(np.random.default_rng(seed), shape, correlation)
    ahead = TRAJECTORY + np.concatenate([[0.0], correlation * noise[:-1]])
    ahead_sd = np.full(STEPS, SD * np.sqrt(1 - correlation**2))
    ahead_sd[0] = SD
    full = [np.broadcast_to(v, shape) for v in (TRAJECTORY, np.asarray(SD), ahead, ahead_sd)]
    return replicated, *full


def autoregressive(rng: np.random.Generator, shape: tuple[int, ...], correlation: float = 0.0) -> Vector:
    """Stationary noise of sd SD, correlation^k between steps k apart; steps last."""
    innovation = SD * rng.standard_normal(shape)
    noise = innovation.copy()
    for k in range(1, shape[-1]):
        noise[..., k] = correlation * noise[..., k - 1] + np.sqrt(1 - correlation**2) * innovation[..., k]
    return noise


def stand_in(reward: Vector, arrays: tuple[Vector, ...], chains: int = 4) -> Any:
    """What `check_fit` reads of a `Fit`."""
    replicated, mean, sd, ahead_mean, ahead_sd = arrays
    values = dict(zip(NAMES, (replicated, mean, sd, ahead_mean, ahead_sd), strict=True))
    data = {n: (("chain", "draw", "step"), v.reshape(chains, -1, v.shape[-1])) for n, v in values.items()}
    times = np.arange(len(reward), dtype=float)
    return SimpleNamespace(run=SimpleNamespace(reward=reward, times=times), predictive=xr.Dataset(data))
