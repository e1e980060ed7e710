"""Under the truth p-values are uniform (conservative where the statistic is discrete), and flags as rare as stated."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, kstest

from sde_grpo.checks.pit import mean_and_spread, pit_values, uniformity
from sde_grpo.checks.statistics import STATISTICS
from sde_grpo.checks.verdict import FLAG_BELOW, CheckReport
from tests.checks.simulated import SD, STEPS, TRAJECTORY, autoregressive, report_on
from tests.tolerance import assert_close

RUNS = 300
THRESHOLD = 1e-3  # below 1 / number of comparisons, about 80; fixed seeds
DISCRETE = {"band_share", "longest_run"}
NAMES = [*(s.name for s in STATISTICS), "pit"]


@pytest.fixture(scope="module", params=[0.0, 0.5], ids=["white", "correlated"])
def reports(request: pytest.FixtureRequest) -> list[CheckReport]:
    correlation = request.param
    rng = np.random.default_rng(20)
    noise = autoregressive(rng, (RUNS, STEPS), correlation)
    return [report_on(noise[i], 5000 + i, correlation=correlation) for i in range(RUNS)]


@pytest.mark.parametrize("index", range(len(NAMES)), ids=NAMES)
def test_p_values_under_the_truth(reports: list[CheckReport], index: int) -> None:
    p = np.array([report.rows[index].p_value for report in reports])
    if NAMES[index] not in DISCRETE:
        assert kstest(p, "uniform").pvalue > THRESHOLD
    for level in (0.05, 0.2, 0.5):
        assert binom.sf(np.sum(p < level) - 1, RUNS, level) > THRESHOLD
    assert np.mean(p < 0.5) > 0.2  # discrete, but not dead


def test_family_rate(reports: list[CheckReport]) -> None:
    """At most 9 x 0.01 of the runs that the model describes raise a flag; and some do."""
    count = sum(any(row.flagged for row in report.rows if row.statistic in NAMES) for report in reports)
    assert binom.sf(count - 1, RUNS, len(NAMES) * FLAG_BELOW) > THRESHOLD
    assert count > 0


def test_wander_is_about_the_noise_not_the_model(reports: list[CheckReport]) -> None:
    """White residuals are flagged at most one time in a hundred; correlated ones always, though the model has them."""
    rows = [next(row for row in report.rows if row.statistic == "wander") for report in reports]
    count = sum(row.flagged for row in rows)
    correlated = np.mean([row.observed for row in rows]) > 0.25
    assert count > 0.99 * RUNS if correlated else binom.sf(count - 1, RUNS, FLAG_BELOW) > THRESHOLD


def test_pit_is_uniform_under_the_truth(reports: list[CheckReport]) -> None:
    pooled = np.concatenate([report.pit for report in reports])
    assert uniformity(pooled)[1] > THRESHOLD
    assert np.all(np.abs(mean_and_spread(pooled)) < 4)


@pytest.mark.parametrize("factor", [0.8, 1.25], ids=["too narrow", "too wide"])
def test_pit_tells_a_wrong_width(factor: float) -> None:
    rng = np.random.default_rng(30)
    reward = np.tile(TRAJECTORY, 20) + SD * rng.standard_normal(20 * STEPS)
    mean = np.tile(TRAJECTORY, 20)[None]
    right = pit_values(reward, mean, np.full_like(mean, SD))
    wrong = pit_values(reward, mean, np.full_like(mean, factor * SD))
    assert uniformity(right)[1] > THRESHOLD > uniformity(wrong)[1]
    assert np.sign(mean_and_spread(wrong)[1]) == (1 if factor < 1 else -1)


def test_pit_averages_over_draws() -> None:
    reward, mean, sd = np.array([0.0, 1.0]), np.array([[0.0, 1.0], [1.0, 1.0]]), np.ones((2, 2))
    assert_close(pit_values(reward, mean, sd), [(0.5 + 0.15865525393145707) / 2, 0.5])


def test_standard_errors_of_mean_and_spread() -> None:
    values = np.array([mean_and_spread(u) for u in np.random.default_rng(40).random((4000, 50))])
    assert np.all(np.abs(values.mean(axis=0)) < 4 / np.sqrt(4000))
    assert np.all(np.abs(values.std(axis=0) - 1) < 0.05)
