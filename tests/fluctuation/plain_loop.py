"""The update of the theory note as a plain loop over steps, the slow reference of these tests."""

from __future__ import annotations

import numpy as np

from sde_grpo.oscillator import UpdateRule


def run_loop(rule: UpdateRule, curvature: float, noise: np.ndarray) -> np.ndarray:
    """x before each step, (step, lane): at rest at 0, then x_{k+1} = x_k - a [...] + mu (x_k - x_{k-1}) + noise_k."""
    a = rule.learning_rate * (1 - rule.momentum if rule.momentum_kind == "ema" else 1) * curvature
    mu, phi, lag = rule.momentum, rule.stale_fraction, rule.refresh_interval
    x = [np.zeros(noise.shape[1])] * (lag + 2)
    old = x[-1]
    for k in range(len(noise)):
        if rule.lag_schedule == "periodic":
            old = x[-1] if k % lag == 0 else old
        elif rule.lag_weights is None:
            old = x[-1 - lag]
        else:
            old = sum(w * x[-1 - age] for age, w in enumerate(rule.lag_weights))
        x.append(x[-1] - a * ((1 - phi) * x[-1] + phi * old) + mu * (x[-1] - x[-2]) + noise[k])
    return np.array(x[lag + 1 : -1])


def step_noises(rule: UpdateRule, epochs: int, blocks: int, lanes: int, rng: np.random.Generator) -> np.ndarray:
    """(step, lane): per refresh block K_ref / epochs standard normal noises, gone through `epochs` times in order."""
    steps = rule.refresh_interval if rule.lag_schedule == "periodic" else 1
    fresh = rng.standard_normal((blocks, 1, steps // epochs, lanes))
    return np.broadcast_to(fresh, (blocks, epochs, steps // epochs, lanes)).reshape(blocks * steps, lanes)


def unit_responses(rule: UpdateRule, curvature: float, epochs: int, blocks: int) -> np.ndarray:
    """(noise of a block, step): the response of x to one unit noise that enters in the first block."""
    steps = rule.refresh_interval if rule.lag_schedule == "periodic" else 1
    batches = steps // epochs
    kicks = np.zeros((blocks * steps, batches))
    kicks[:steps] = np.tile(np.eye(batches), (epochs, 1))
    return run_loop(rule, curvature, kicks).T
