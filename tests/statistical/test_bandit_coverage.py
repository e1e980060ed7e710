"""The coverage study in short: near runs are covered, far ones are biased and say so."""

from __future__ import annotations

import pytest
from scipy.stats import binom

from sde_grpo.bandit import fixed_point
from sde_grpo.intervals import PROBABILITY
from tests.statistical.bandit_coverage import START_FAR, START_NEAR, study

RUNS = 6


def test_runs_that_start_near_are_covered() -> None:
    found = study(RUNS, fixed_point(0.5, 2.5, 8) - START_NEAR, "logit", seed=3)
    assert found["converged"] == RUNS
    assert found["divergences"] == 0
    for name, count in found["covered"].items():
        assert binom.cdf(count, RUNS, PROBABILITY) > 1e-3, name


@pytest.mark.parametrize(("link", "least_bias"), [("logit", 0.05), ("identity", 0.3)])
def test_the_bias_of_runs_that_start_far_is_flagged(link, least_bias) -> None:
    """The plateau stands, the curvature does not, and of all checks `wander` is the one that notices."""
    found = study(2, START_FAR, link, seed=4)
    assert found["relative_error_of_median"]["curvature"][0] < -least_bias
    assert abs(found["relative_error_of_median"]["fixed_point"][0]) < 0.15
    assert found["runs_flagged_by_check"]["wander"] == 2
