"""Noise without a model."""

from __future__ import annotations

import numpy as np

from sde_grpo.answers.explained import step_noise_variance


def test_step_noise_is_recovered_under_a_trend_and_uneven_gaps() -> None:
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.integers(1, 4, 20_000)).astype(float)
    reward = 1 - np.exp(-times / 5000) + 0.1 * rng.standard_normal(len(times))
    np.testing.assert_allclose(step_noise_variance(reward, times), 0.01, rtol=0.05)
