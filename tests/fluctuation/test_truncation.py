"""The oscillator's variance against the map's: its error, to the figures of the theory note, and its order."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from sde_grpo.errors import InputError
from sde_grpo.fluctuation import (
    discrete_fluctuation,
    oscillator_fluctuation,
    truncated_variance,
    truncation_error,
)
from sde_grpo.oscillator import UpdateRule, reduce_update
from tests.tolerance import assert_close

# Percent at a/(1 - mu) = 0.02, phi = 1: the table of the README.
TABLE = {
    0.0: ((-1.00, -0.93, -0.66, 0.53), (-0.30, -0.05, 0.58), 9.99),
    0.5: ((-0.33, -0.30, -0.08, 1.00), (-0.18, 0.03, 0.73), 10.63),
    0.9: ((-0.05, -0.04, 0.02, 0.54), (-0.04, 0.03, 0.60), 10.74),
}


def rule(reduced: float, mu: float, refresh_interval: int) -> UpdateRule:
    """With a/(1 - mu) = `reduced` at curvature 1."""
    return UpdateRule(reduced * (1 - mu), mu, "heavy_ball", refresh_interval)


def percent(reduced: float, mu: float, refresh_interval: int, epochs: int = 1) -> float:
    return round(100 * truncation_error(rule(reduced, mu, refresh_interval), 1.0, epochs=epochs), 2)


@pytest.mark.parametrize("mu", list(TABLE))
def test_table_of_the_readme(mu: float) -> None:
    fresh, reused, constant = TABLE[mu]
    assert [percent(0.02, mu, k) for k in (1, 4, 8, 16)] == pytest.approx(fresh, abs=1e-9)
    assert [percent(0.02, mu, k, epochs=k) for k in (4, 8, 16)] == pytest.approx(reused, abs=1e-9)
    exact = discrete_fluctuation(rule(0.02, mu, 8), 1.0).variance
    taken = UpdateRule(0.02 * (1 - mu), mu, "heavy_ball", 8, "constant")
    wrong = float(oscillator_fluctuation(reduce_update(taken, 1.0), 1.0).variance)
    assert round(100 * (wrong / exact - 1), 2) == pytest.approx(constant, abs=1e-9)


def test_figures_of_the_theory_note() -> None:
    """1 % at a/(1-mu) = 0.02 for every mu; 0.03 % at 0.005 only with momentum: a/(2(1+mu)) is 0.25 % at mu = 0."""
    momenta, intervals = (0.0, 0.5, 0.8, 0.9, 0.95), (1, 2, 4, 8)
    assert max(abs(percent(0.02, mu, k)) for mu in momenta for k in intervals) == 1.0
    assert max(abs(percent(0.005, mu, k)) for mu in (0.8, 0.9, 0.95) for k in intervals) <= 0.03
    assert percent(0.005, 0.0, 1) == -0.25


@pytest.mark.parametrize("schedule", ["periodic", "constant"])
@pytest.mark.parametrize(("mu", "phi"), [(0.0, 1.0), (0.6, 1.0), (0.6, 0.3), (0.3, -0.5)])
def test_first_order_error_is_that_of_noise_in_kicks(schedule, mu: float, phi: float) -> None:
    """What remains after -a/(2(1+mu)) falls fourfold when a is halved."""
    remainders = []
    for a in 0.01 * (1 - mu) / 2.0 ** np.arange(4):
        setting = UpdateRule(a, mu, "heavy_ball", 5, schedule, phi)
        remainders.append(truncation_error(setting, 1.0) + a / (2 * (1 + mu)))
    assert_close(np.divide(remainders[:-1], remainders[1:]), np.full(3, 4.0), 0.15)


@pytest.mark.parametrize("mu", [0.0, 0.5, 0.9])
def test_reuse_of_a_batch_vanishes_to_first_order_and_is_not_a_fresh_noise(mu: float) -> None:
    """The oscillator with reuse has an error of order a; the fresh-noise oscillator is wrong by the factor K_ref."""
    errors = [truncation_error(rule(reduced, mu, 8), 1.0, epochs=8) for reduced in (4e-3, 2e-3, 1e-3, 5e-4)]
    assert abs(errors[0]) < 1e-3
    assert abs(errors[-1]) < 0.6 * abs(errors[-2])
    exact = discrete_fluctuation(rule(1e-3, mu, 8), 1.0, epochs=8).variance
    fresh = float(truncated_variance(rule(1e-3, mu, 8), 1.0))
    assert 7.8 < exact / fresh < 8.01


def test_mini_batches_gone_through_twice() -> None:
    setting = rule(0.005, 0.5, 8)
    exact = discrete_fluctuation(setting, 1.0, epochs=2).variance
    assert float(truncated_variance(setting, 1.0, epochs=2)) == pytest.approx(exact, rel=2e-3)
    doubled = 2 * float(truncated_variance(setting, 1.0))
    assert doubled / exact - 1 > 5e-3  # the two passes are four steps apart: not quite one noise of twice the size


def test_many_curvatures_at_once() -> None:
    setting = rule(0.01, 0.5, 4)
    curvatures = jnp.array([[0.5, 1.0], [1.5, 2.0]])
    one_by_one = [float(truncated_variance(setting, kappa, 0.3, epochs=4)) for kappa in curvatures.ravel()]
    assert_close(truncated_variance(setting, curvatures, 0.3, epochs=4), np.reshape(one_by_one, (2, 2)))


def test_bad_input() -> None:
    with pytest.raises(InputError, match="epochs is 3, but a rollout serves 8"):
        truncated_variance(rule(0.01, 0.0, 8), 1.0, epochs=3)
    with pytest.raises(InputError, match="spectral radius"):
        truncation_error(rule(0.3, 0.0, 8), 1.0)


def test_the_map_may_be_stable_where_the_oscillator_is_not() -> None:
    """C = 1 - mu - a (K_ref - 1)/2 turns negative first; a long lag with phi < 0 has a negative mass."""
    for setting, name in (
        (UpdateRule(0.4, 0.5, "heavy_ball", 4), "damping"),
        (UpdateRule(0.02, 0.0, "heavy_ball", 20, "constant", -0.3), "mass"),
    ):
        assert discrete_fluctuation(setting, 1.0).variance > 0
        with pytest.raises(InputError, match=f"{name} is -.* use discrete_fluctuation"):
            truncation_error(setting, 1.0)
