"""Smoother, conditional sampler and simulator against the dense Gaussian."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sde_grpo.likelihood import OscillatorTrace, State, simulate, smooth
from sde_grpo.oscillator import transition
from tests.likelihood import dense
from tests.likelihood.dense import RATES, Case, make_case
from tests.tolerance import assert_close

DRAWS = 20_000
# Largest of the standardised deviations below; a normal variate exceeds it once in 1.7 million.
THRESHOLD = 5.0


def deviations(draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    """Largest |sample moment - moment| over mean and covariance, in standard errors of the sample moment."""
    variance = np.diag(covariance)
    tiny = 1e-12 * variance.max()
    error_mean = np.abs(draws.mean(0) - mean) / np.sqrt(variance / len(draws) + tiny**2)
    spread = np.sqrt((np.outer(variance, variance) + covariance**2) / len(draws)) + tiny
    centred = draws - mean
    return float(max(error_mean.max(), (np.abs(centred.T @ centred / len(draws) - covariance) / spread).max()))


# One lane: the step is the leading axis of the transitions already.
jitted_smooth = jax.jit(smooth)


@jax.jit
def conditional_draws(law: OscillatorTrace, value: jax.Array) -> jax.Array:
    """Independent draws of the path given the trace."""
    return jax.vmap(lambda key: law.conditional_path(key, value))(jax.random.split(jax.random.key(1), DRAWS))


@jax.jit
def unconditional_draws(law: OscillatorTrace) -> tuple[jax.Array, jax.Array]:
    """Independent replicated traces and their paths."""
    return law.sample_with_path(jax.random.key(2), (DRAWS,))


def smoothed(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of x at each step given the trace."""
    law = case.law()
    mean, variance = jitted_smooth(law.steps, dense.filtered(law, case.value))
    return np.asarray(mean), np.asarray(variance)


@pytest.mark.parametrize("stationary", [False, True], ids=["at rest", "stationary"])
@pytest.mark.parametrize("rates", RATES)
def test_smoother_is_the_dense_conditional(rates: str, stationary: bool) -> None:
    case = make_case(rates, stationary)
    mean, covariance = case.conditional_path()
    x, xx = smoothed(case)
    assert_close(x, mean, 1e-8)
    assert_close(xx, np.diag(covariance), 1e-8)


def test_smoother_without_fluctuation_stays_at_the_mean() -> None:
    x, xx = smoothed(dataclasses.replace(make_case("critical"), sd=0.0))
    assert np.all(x == 0.0)
    assert np.all(xx == 0.0)


@pytest.mark.parametrize("scale", [1e-4, 1e-2])
def test_smoother_survives_very_short_steps(scale: float) -> None:
    """Steps far below both time scales: the noise of a step has a small determinant."""
    case = make_case("oscillatory")
    case = dataclasses.replace(case, gaps=case.gaps * scale, noise=case.noise * scale**3)
    mean, covariance = case.conditional_path()
    x, xx = smoothed(case)
    assert_close(x, mean, 1e-5)
    assert_close(xx, np.diag(covariance), 1e-5)


@pytest.mark.parametrize(("rates", "stationary"), [("oscillatory", False), ("overdamped", True), ("critical", False)])
def test_conditional_path_has_the_dense_moments(rates: str, stationary: bool) -> None:
    case = make_case(rates, stationary, steps=9)
    draws = np.asarray(conditional_draws(case.law(), np.where(case.observed, case.value, np.nan)))
    mean, covariance = case.conditional_path()
    assert deviations(draws, mean, covariance) < THRESHOLD
    # The check has the power to see the law without the data, and a mean that is half right.
    assert deviations(draws, mean, case.path_covariance()) > 3 * THRESHOLD
    assert deviations(draws, mean / 2, covariance) > 3 * THRESHOLD


@pytest.mark.parametrize(("rates", "stationary"), [("oscillatory", False), ("overdamped", True), ("critical", False)])
def test_samples_have_the_dense_moments(rates: str, stationary: bool) -> None:
    case = make_case(rates, stationary, steps=9)
    rewards, paths = unconditional_draws(case.law())
    assert deviations(np.asarray(rewards), case.loc, case.trace_covariance()) < THRESHOLD
    assert deviations(np.asarray(paths), np.zeros(9), case.path_covariance()) < THRESHOLD
    opposite = dataclasses.replace(case, stationary=not stationary)
    assert deviations(np.asarray(paths), np.zeros(9), opposite.path_covariance()) > 3 * THRESHOLD


def test_simulated_end_is_a_state_known_exactly_that_a_second_run_continues() -> None:
    b, k, sd = jnp.full(DRAWS, 0.05), jnp.full(DRAWS, 0.5), jnp.full(DRAWS, 0.3)
    steps = jax.tree.map(lambda entry: jnp.broadcast_to(entry, (4, DRAWS)), transition(b, k, sd, 1.0))
    first, end = simulate(jax.random.key(3), State.stationary(sd, k), steps)
    second, _ = simulate(jax.random.key(4), end, steps)
    assert not any(np.any(np.asarray(entry)) for entry in (end.xx, end.xv, end.vv))
    assert np.array_equal(end.x, first[-1])
    case = make_case("oscillatory", stationary=True, steps=8)
    case = dataclasses.replace(case, gaps=np.ones(8))
    draws = np.concatenate([first, second]).T
    assert deviations(draws, np.zeros(8), case.path_covariance()) < THRESHOLD
