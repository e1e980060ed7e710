"""The band and the runs' own estimates, on simulated fluctuations: large, small beside the noise, none."""

import numpy as np
import pytest

from sde_grpo.bandit import curvature, fixed_point, stationary_sd
from sde_grpo.groups import GroupRule
from sde_grpo.invariance.band import fluctuation_band, line_in_log2
from sde_grpo.invariance.own_spread import own_spread

TAU = 12.0


def residuals(sigma: np.ndarray, noise: np.ndarray, steps: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """OU of stationary sd `sigma` plus white noise, one row a run; the last tenth of every second run is missing."""
    rng = np.random.default_rng(seed)
    x = np.empty((len(sigma), steps))
    x[:, 0] = sigma * rng.standard_normal(len(sigma))
    memory = np.exp(-1 / TAU)
    for k in range(1, steps):
        x[:, k] = memory * x[:, k - 1] + np.sqrt(1 - memory**2) * sigma * rng.standard_normal(len(sigma))
    y = x + noise[:, None] * rng.standard_normal(x.shape)
    y[::2, -steps // 10 :] = np.nan
    return y, np.tile(np.arange(steps, dtype=float), (len(sigma), 1))


def test_own_estimates_cover_and_a_run_without_fluctuation_gives_an_upper_limit():
    count = 120
    for sigma, noise, unseen in ((0.05, 0.05, (0.0, 0.05)), (0.02, 0.05, (0.0, 0.3)), (0.0, 0.05, (0.9, 1.0))):
        y, times = residuals(np.full(count, sigma), np.full(count, noise), seed=int(1000 * sigma))
        found = own_spread(y, times, np.full(count, TAU))
        covered = np.mean((found.low <= sigma) & (sigma <= found.high))
        assert covered > 0.9 - 3.3 * np.sqrt(0.09 / count)
        assert unseen[0] <= np.mean(found.low == 0) <= unseen[1]
        assert np.median(found.best) == pytest.approx(sigma, abs=0.006)


def test_noise_of_any_size_does_not_pass_for_fluctuation():
    """Raw residuals fall as 1/sqrt(G) without any fluctuation: the raw sd shows the law, the estimate does not."""
    sizes = np.repeat([2.0, 8.0, 32.0], 20)
    y, times = residuals(np.zeros(60), 0.4 / np.sqrt(sizes), seed=4)
    found = own_spread(y, times, np.full(60, TAU))
    raw = np.nanstd(y, axis=1)
    assert np.polyfit(np.log(sizes), np.log(raw), 1)[0] == pytest.approx(-0.5, abs=0.03)
    assert np.mean(found.low == 0) > 0.75
    assert np.all(found.best < 0.6 * raw)


def test_the_line_is_least_squares_draw_by_draw():
    sizes = np.array([2.0, 4.0, 8.0, 8.0])
    values = np.array([[3.0, 2.0, 1.0, 1.0], [0.0, 0.0, 1.0, -1.0]])
    assert line_in_log2(values, sizes, np.array([1.0, 16.0])) == pytest.approx(np.array([[4.0, 0.0], [0.0, 0.0]]))


def test_the_laws_are_set_at_the_greatest_group_and_the_exact_curve_is_the_bandits():
    sizes = np.repeat([2, 4, 8, 16, 32, 64], 2)
    bandit = [(0.5, 2.5, int(g)) for g in sizes]
    sd = np.array([stationary_sd(*b, prompts_per_step=64, learning_rate=1e-4).p for b in bandit])
    tau = np.array([1e4 / curvature(*b) for b in bandit])
    level = np.array([fixed_point(*b) for b in bandit])
    draws = np.random.default_rng(0).standard_normal((500, 1))
    y, times = residuals(sd, np.full(12, 0.02), steps=60)
    flat = np.ones((500, 12))
    found = fluctuation_band(
        sd * np.exp(0.1 * draws),
        0.02 * flat,
        tau * flat,
        level * flat,
        y,
        times,
        sizes.astype(float),
        rule=GroupRule(),
    )
    assert found.exact is not None
    assert found.leading[0] / found.leading[-1] == pytest.approx(np.sqrt(32))
    # plateau and time enter as lines in log2 G, which these are only roughly
    assert found.exact[0] / found.exact[-1] == pytest.approx(sd[0] / sd[-1], rel=0.1)
    assert np.all((found.low < found.middle) & (found.middle < found.high))
    assert found.high[5] / found.low[5] == pytest.approx(np.exp(0.329), rel=0.1)
    assert found.noise_share > 0.8
    record = found.as_dict()
    assert len(record["runs"]) == 12
    assert record["runs"][0]["noise_sd"] == pytest.approx(0.02)
