"""The Kalman filter against the dense Gaussian, lane by lane, under jit, vmap and grad, and with missing steps."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sde_grpo.likelihood import OscillatorTrace, State
from sde_grpo.oscillator import transition
from tests.likelihood import dense
from tests.likelihood.dense import RATES, make_case
from tests.tolerance import assert_close

STARTS = {"at rest": False, "stationary": True}


@jax.jit
def log_prob(b, k, sd, gaps, loc, gain, noise, observed, value):
    """Start at rest; all lanes at once."""
    return OscillatorTrace(loc, gain, noise, transition(b, k, sd, gaps), observed).log_prob(value)


def arguments(case):
    """The arguments of `log_prob`, as arrays."""
    names = ("b", "k", "sd", "gaps", "loc", "gain", "noise", "observed", "value")
    return tuple(jnp.asarray(getattr(case, name)) for name in names)


@pytest.mark.parametrize("stationary", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("rates", RATES)
def test_log_likelihood_is_that_of_the_dense_gaussian(rates: str, stationary: bool) -> None:
    for seed in range(3):
        case = make_case(rates, stationary, seed=seed)
        assert_close(dense.log_prob(case.law(), case.value), case.log_density(), 1e-9)


@pytest.mark.parametrize("rates", RATES)
def test_without_fluctuation_the_rewards_are_independent(rates: str) -> None:
    case = dataclasses.replace(make_case(rates), sd=0.0)
    seen = case.observed
    residual, variance = (case.value - case.loc)[seen], case.noise[seen]
    independent = -0.5 * np.sum(residual**2 / variance + np.log(2 * np.pi * variance))
    assert_close(log_prob(*arguments(case)), independent, 1e-12)


def test_one_step_ahead_densities_sum_to_the_log_likelihood() -> None:
    case = make_case("oscillatory")
    filtered = dense.filtered(case.law(), case.value)
    assert_close(filtered.log_density.sum(), log_prob(*arguments(case)), 1e-12)
    assert np.all(np.asarray(filtered.log_density)[~case.observed] == 0.0)
    # Each is the normal density of the reward given those before it.
    residual = case.value - np.asarray(filtered.mean)
    variance = np.asarray(filtered.variance)
    each = -0.5 * (residual**2 / variance + np.log(2 * np.pi * variance))
    assert_close(np.asarray(filtered.log_density)[case.observed], each[case.observed], 1e-12)


def test_one_step_ahead_predictions_are_the_dense_conditionals() -> None:
    case = make_case("critical", stationary=True)
    filtered = dense.filtered(case.law(), case.value)
    covariance = case.trace_covariance()
    for i in range(40):
        before = np.flatnonzero(case.observed[:i])
        weights = np.linalg.solve(covariance[np.ix_(before, before)], covariance[before, i])
        assert_close(filtered.mean[i], case.loc[i] + weights @ (case.value - case.loc)[before], 1e-9)
        assert_close(filtered.variance[i], covariance[i, i] - weights @ covariance[before, i], 1e-9)


def test_lanes_equal_one_by_one_also_under_vmap() -> None:
    cases = [make_case(rates, seed=seed) for seed, rates in enumerate(RATES)]
    alone = jnp.stack([log_prob(*arguments(case)) for case in cases])
    stacked = [jnp.stack(column) for column in zip(*map(arguments, cases), strict=True)]
    lanes = log_prob(*(column[:, None] if column.ndim == 1 else column for column in stacked))
    assert lanes.shape == (4,)
    assert_close(lanes, alone, 1e-12)
    assert_close(jax.vmap(log_prob)(*stacked), alone, 1e-12)


@jax.jit
def shifted(p, b, k, sd, gaps, loc, gain, noise, observed, value):
    """Relative changes of b, k, sd, gain and noise, and a shift of the mean."""
    scaled = (b * p[0], k * p[1], sd * p[2])
    return log_prob(*scaled, gaps, loc + p[5], gain * p[3], noise * p[4], observed, value)


slope_of_shifted = jax.jit(jax.grad(shifted))


@pytest.mark.parametrize("rates", RATES)
def test_gradient_is_the_difference_quotient(rates: str) -> None:
    rest = arguments(make_case(rates))
    point, h = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0]), 1e-5
    difference = [(shifted(point + h * e, *rest) - shifted(point - h * e, *rest)) / (2 * h) for e in np.eye(6)]
    assert_close(slope_of_shifted(point, *rest), np.array(difference), 1e-7)


@pytest.mark.parametrize("stationary", STARTS.values(), ids=STARTS)
def test_a_missing_step_is_a_step_dropped_and_its_gap_merged(stationary: bool) -> None:
    case = make_case("oscillatory", stationary)
    seen = case.observed
    times = np.cumsum(case.gaps)[seen]
    fields = {name: getattr(case, name)[seen] for name in ("loc", "gain", "noise", "observed", "value")}
    dropped = dataclasses.replace(case, gaps=np.diff(times, prepend=0.0), **fields)
    assert dropped.observed.all()
    assert len(times) < len(case.gaps)
    whole, short = (dense.log_prob(c.law(), c.value) for c in (case, dropped))
    assert_close(whole, short, 1e-11)


def test_not_a_number_where_nothing_was_observed_is_harmless() -> None:
    case = make_case("overdamped")
    holes = dataclasses.replace(case, value=np.where(case.observed, case.value, np.nan))
    gradient = jax.jit(jax.value_and_grad(log_prob, argnums=(0, 1, 2, 4, 5, 6, 8)))
    value, slopes = gradient(*arguments(case))
    value_holes, slopes_holes = gradient(*arguments(holes))
    assert float(value) == float(value_holes)
    for slope, slope_holes in zip(slopes, slopes_holes, strict=True):
        assert np.all(np.isfinite(slope))
        assert_close(slope_holes, slope, 1e-13)


def test_nothing_observed_says_nothing() -> None:
    case = dataclasses.replace(make_case("critical"), observed=np.zeros(40, bool))
    assert float(log_prob(*arguments(case))) == 0.0


def test_starts() -> None:
    sd, k = jnp.array([0.2, 0.5]), jnp.array([0.1, 0.4])
    stationary = State.stationary(sd, k)
    assert_close(stationary.xx, np.array([0.04, 0.25]), 1e-15)
    assert_close(stationary.vv, np.array([0.004, 0.1]), 1e-15)
    assert all(np.all(np.asarray(entry) == 0) for entry in (stationary.x, stationary.v, stationary.xv))
    assert all(entry.shape == (2,) and not entry.any() for entry in State.at_rest(sd))
