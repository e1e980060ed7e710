"""The model-free band: its size without an effect, what pairing cancels, and its power."""

from __future__ import annotations

import numpy as np
import pytest

from sde_grpo import Configuration, InputError, run_from_arrays
from sde_grpo.invariance.model_free import common_cells, compare_without_model, directions, slope_band

STEPS, SWEEPS = 40, 40


def sweep(seed: int, *, effect: float = 0.0, shared: float = 0.0, process: float = 0.0):
    """Three group sizes and two seeds: rising means, sampling noise that falls with G, AR(1) process noise."""
    rng = np.random.default_rng(seed)
    x, block = np.repeat([1.0, 2.0, 3.0], 2), np.tile([0, 1], 3)
    rise = 1 - np.exp(-np.arange(STEPS) / 8)
    path, state = np.zeros((6, STEPS)), np.zeros(6)
    for k in range(STEPS):
        path[:, k] = state
        state = 0.88 * state + process * np.sqrt(1 - 0.88**2) * rng.standard_normal(6)
    noise = 0.08 * 2 ** (-x / 4)[:, None] * rng.standard_normal((6, STEPS))
    common = shared * rng.standard_normal((2, STEPS))[block]
    mean = 0.3 + (0.4 + effect * (x - 2)[:, None]) * rise
    return np.arange(STEPS, dtype=float), mean + path + noise + common, x, block


@pytest.mark.parametrize("process", [0.0, 0.03])
def test_band_excludes_zero_in_no_more_than_a_tenth_of_sweeps_without_effect(process: float) -> None:
    outside = 0
    for seed in range(SWEEPS):
        times, rewards, x, block = sweep(seed, process=process, shared=0.05)
        low, high = slope_band(times, rewards, x, block)[3:5]
        outside += bool(np.any((low > 0) | (high < 0)))
    assert outside <= 9  # of 40; binomial(40, 0.1) exceeds it with probability 0.005


def test_effect_is_found_and_covered_everywhere() -> None:
    times, rewards, x, block = sweep(0, effect=0.06, shared=0.05)
    steps, _, slope, low, high, _, count = slope_band(times, rewards, x, block)
    assert count == 2
    truth = 0.06 * (1 - np.exp(-steps / 8))
    assert np.all((low < truth + 0.01) & (truth - 0.01 < high))
    assert np.any(low > 0)
    assert abs(slope[-1] - 0.06) < 0.02


def test_pairing_cancels_what_runs_of_a_seed_have_in_common() -> None:
    """With blocks that lack a level nothing balances the shared effect but the pairing itself."""
    times, rewards, x, block = sweep(1, shared=0.3)
    kept = [0, 2, 3, 5]
    paired = slope_band(times, rewards[kept], x[kept], block[kept])
    alone = slope_band(times, rewards[kept], x[kept], None)
    assert np.mean(paired[4] - paired[3]) < 0.5 * np.mean(alone[4] - alone[3])


def test_directions_are_orthogonal_to_blocks_and_levels() -> None:
    x, block = np.repeat([1.0, 2.0, 4.0], 2), np.tile([0, 1], 3)
    within, noise = directions(x, block)
    assert noise.shape == (6, 2)
    for member in (block == 0, x == 2.0):
        assert np.abs(noise[member].sum(axis=0)).max() < 1e-12
    assert np.abs(within @ noise).max() < 1e-12
    assert directions(np.array([1.0, 2.0, 3.0]), None)[1].shape == (3, 1)  # no replicates: what a line leaves


def runs_of(x, rewards, start: int = 1):
    known = Configuration(reward_range=(0.0, 1.0))
    return [run_from_arrays(np.arange(start, start + len(r)), r, configuration=known) for r in rewards]


def test_runs_in_words_and_numbers() -> None:
    _, rewards, x, block = sweep(0, effect=0.15)
    found = compare_without_model(runs_of(x, rewards), x, blocks=list(block))
    assert found.verdict == "changed"
    assert found.excludes_zero
    assert found.record["rope"] == 0.02
    assert "the mean trajectory changes" in found.sentence
    narrow = compare_without_model(runs_of(x, sweep(2)[1]), x, rope=0.1)
    assert narrow.verdict == "invariant"


def test_cells_are_common_to_runs_logged_at_different_steps() -> None:
    every = run_from_arrays(np.arange(1, 81), np.linspace(0, 1, 80))
    fourth = run_from_arrays(np.arange(1, 81, 4), np.linspace(0, 1, 20))
    times, means = common_cells([every, fourth])
    assert means.shape == (2, 20)
    assert np.all(np.diff(times) > 0)


def test_what_cannot_be_compared_is_refused() -> None:
    _, rewards, x, _ = sweep(0)
    with pytest.raises(InputError, match="does not vary"):
        compare_without_model(runs_of(x, rewards), np.ones(6))
    with pytest.raises(InputError, match=r"within any set of paired runs.*--paired off"):
        compare_without_model(runs_of(x, rewards), x, blocks=list(x))
    apart = runs_of(x[:3], rewards[:3]) + runs_of(x[3:], rewards[3:], start=36)
    with pytest.raises(InputError, match="steps in common"):
        compare_without_model(apart, x)
