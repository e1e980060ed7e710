"""Simulated sweeps with known answers, for the tests and the studies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from sde_grpo.runs import Configuration, Run, run_from_arrays


def made_run(reward: np.ndarray, first_step: int = 1, source: str = "made", **known: Any) -> Run:
    """A run whose rewards lie in [0, 1]."""
    settings: dict[str, Any] = {"reward_range": (0.0, 1.0)} | known
    configuration = Configuration(**settings)
    steps = np.arange(first_step, first_step + len(reward))
    return run_from_arrays(steps, reward, configuration=configuration, source=source)


def simulate_runs(
    rng: np.random.Generator,
    *,
    group_sizes: Sequence[int] = (4, 8, 16, 4, 8, 16),
    orders: Sequence[int] = (1, 1, 1, 2, 2, 2),
    steps: int = 50,
    prompts: int = 32,
    relaxation_time: float = 12.0,
    slope_log_curvature: float = 0.0,
    slope_fixed_point: float = 0.0,
    levels: tuple[float, float] = (-1.2, 1.2),
    correlation: float = 0.2,
    shared: float = 0.0,
    stationary_sd: float = 0.0,
    temperature_exponent: float = 1.0,
) -> list[Run]:
    """Single exponentials in the logit with a first-order fluctuation, design-effect noise and a shared part of it.

    Slopes are per doubling of G about the mean, `levels` the logits of start and plateau, `stationary_sd` that of the
    logit at the mean group size.
    """
    log2 = np.log2(group_sizes)
    common = {order: rng.standard_normal(steps) for order in sorted(set(orders))}
    runs = []
    for x, size, order in zip(log2 - log2.mean(), group_sizes, orders, strict=True):
        tau = relaxation_time * np.exp(-slope_log_curvature * x)
        plateau = levels[1] + slope_fixed_point * x
        sd = stationary_sd * 2 ** (-temperature_exponent * x / 2) * np.sqrt(tau / relaxation_time)
        decay = np.exp(-1 / tau)
        path = np.zeros(steps)
        for k in range(1, steps):
            path[k] = decay * path[k - 1] + sd * np.sqrt(1 - decay**2) * rng.standard_normal()
        p = expit(plateau + (levels[0] - plateau) * np.exp(-np.arange(steps) / tau))
        variance = p * (1 - p) * (correlation + (1 - correlation) / size) / prompts
        noise = np.sqrt(shared) * common[order] + np.sqrt(1 - shared) * rng.standard_normal(steps)
        reward = p + p * (1 - p) * path + np.sqrt(variance) * noise
        grid = size * prompts
        runs.append(made_run(np.clip(np.round(reward * grid) / grid, 0, 1), group_size=size, prompts_per_step=prompts))
    return runs
