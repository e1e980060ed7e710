"""The rule's size and power, with the effect removed and planted, and whether the promised effort is enough."""

import numpy as np
import pytest
from scipy.stats import norm

from sde_grpo.errors import InputError
from sde_grpo.invariance.effort import ASSURANCE, effort
from sde_grpo.invariance.slopes import slope_test
from sde_grpo.invariance.verdict import Region, decide, rope_mass

REGION = Region(0.0, 0.1)
DRAWS = norm.ppf((np.arange(4000) + 0.5) / 4000)  # a standard normal without Monte-Carlo error
SWEEPS = 4000


def verdicts(truth: float, sd: float, questions: int = 1, region: Region = REGION) -> dict[str, float]:
    """Shares of the verdicts over `SWEEPS` posteriors Normal(estimate, sd), the estimate scattered about the truth."""
    rng = np.random.default_rng(17)
    means = truth + sd * rng.standard_normal(SWEEPS)
    found = [decide(m + sd * DRAWS, region, questions) for m in means]
    return {v: found.count(v) / SWEEPS for v in ("invariant", "changed", "undecided")}


@pytest.mark.parametrize("sd", [0.01, 0.05, 0.1, 0.3, 1.0, 10.0])
@pytest.mark.parametrize("questions", [1, 2])
def test_without_an_effect_a_change_is_rarely_called(sd, questions):
    """However wide the posterior: the rule on both sides together would call one nearly always at sd 10."""
    limit = 0.05 / questions
    assert verdicts(0.0, sd, questions)["changed"] < limit + 3 * np.sqrt(limit / SWEEPS)
    if sd == 10.0:
        assert 1 - rope_mass(sd * DRAWS, REGION) > 0.95


@pytest.mark.parametrize("sd", [0.01, 0.05, 0.3])
def test_at_the_end_of_the_region_neither_error_is_common(sd):
    found = verdicts(0.1, sd)
    assert found["changed"] < 0.025 + 0.01 + 3 * np.sqrt(0.025 / SWEEPS)
    assert found["invariant"] < 0.05 + 3 * np.sqrt(0.05 / SWEEPS)


def test_with_an_effect_it_is_found():
    assert verdicts(0.26, 0.04)["changed"] > 0.9
    assert verdicts(0.0, 0.03)["invariant"] > 0.9
    assert verdicts(0.0, 0.3)["undecided"] > 0.9


def test_the_region_may_have_another_centre():
    assert decide(1.0 + 0.05 * DRAWS, Region(1.0, 0.275)) == "invariant"
    assert decide(0.0 + 0.05 * DRAWS, Region(1.0, 0.275)) == "changed"
    with pytest.raises(InputError, match="at least one must be asked"):
        decide(DRAWS, REGION, 0)


def test_the_promised_effort_decides_as_often_as_promised():
    """Truth drawn from today's posterior, `factor` times the data, judged again."""
    mean, sd, prior_sd = 0.05, 0.09, 1.0
    needed = effort(mean, sd, prior_sd, REGION)
    assert needed.factor is not None
    assert needed.factor > 1
    rng = np.random.default_rng(5)
    information = 1 / sd**2 - 1 / prior_sd**2
    noise = (needed.factor - 1) * information
    truth = mean + sd * rng.standard_normal(SWEEPS)
    new = truth + rng.standard_normal(SWEEPS) / np.sqrt(noise)
    later = (1 / sd**2 + noise) ** -0.5
    means = later**2 * (mean / sd**2 + noise * new)
    decided = np.mean([decide(m + later * DRAWS, REGION) != "undecided" for m in means])
    assert decided == pytest.approx(needed.chance, abs=0.03)
    assert decided > ASSURANCE - 0.03


def test_more_is_asked_where_less_is_known_and_nothing_is_promised_of_silent_data():
    close, far = effort(0.02, 0.06, 1.0, REGION), effort(0.02, 0.09, 1.0, REGION)
    assert close.factor is not None
    assert far.factor is not None
    assert close.factor < far.factor
    silent = effort(1.0, 0.49, 0.5, Region(1.0, 0.275))
    assert silent.says_nothing
    assert silent.factor is None
    hopeless = effort(0.0, 0.8, 1.0, Region(0.0, 0.001))
    assert hopeless.factor is None
    assert not hopeless.says_nothing


def test_a_slope_is_judged_and_written_down():
    draws = (0.02 + 0.06 * DRAWS)[np.random.default_rng(0).permutation(4000)].reshape(4, 1000)
    found = slope_test(draws, REGION, 1.0, prior_density=float(norm.pdf(0)))
    record = found.as_dict()
    assert record["verdict"] == "undecided"
    assert record["slope"]["mean"] == pytest.approx(0.02, abs=0.001)
    assert record["slope"]["q95"] == pytest.approx(0.02 + 1.645 * 0.06, abs=0.002)
    assert record["rope"] == [-0.1, 0.1]
    assert record["bayes_factor"] == pytest.approx(norm.pdf(0, 0.02, 0.06) / norm.pdf(0), rel=0.05)
    assert record["effort"]["factor"] > 1
    decided = slope_test(0.1 * draws, REGION, 1.0, prior_density=float(norm.pdf(0)))
    assert decided.verdict == "invariant"
    assert decided.as_dict()["effort"] is None
