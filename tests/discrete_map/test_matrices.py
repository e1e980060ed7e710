"""The matrices against the update itself, written out as a loop."""

from __future__ import annotations

import numpy as np
import pytest

from sde_grpo.discrete_map import cycle_matrix, step_matrices
from sde_grpo.errors import InputError
from sde_grpo.oscillator import UpdateRule
from tests.tolerance import assert_close

RULES = [
    UpdateRule(0.02, 0.5, "heavy_ball", 1),
    UpdateRule(0.02, 0.5, "heavy_ball", 5, "periodic", 0.3),
    UpdateRule(0.02, 0.9, "ema", 4, "periodic", -0.6),
    UpdateRule(0.02, 0.0, "heavy_ball", 0, "constant"),
    UpdateRule(0.02, 0.6, "ema", 1, "constant", 1.4),
    UpdateRule(0.02, 0.6, "heavy_ball", 5, "constant", -0.2),
    UpdateRule(0.02, 0.6, "heavy_ball", 3, "constant", 0.7, (0.1, 0.2, 0.3, 0.4)),
]


def looped(rule: UpdateRule, a: float, x: list[float], noise: np.ndarray) -> list[float]:
    """x_{k+1} = x_k - a [(1-phi) x_k + phi x_old] + mu (x_k - x_{k-1}) + xi_k, from the history `x` on."""
    x, old = list(x), 0.0
    mu, phi, lag = float(rule.momentum), float(rule.stale_fraction), rule.refresh_interval
    weights = rule.lag_weights or [0.0] * lag + [1.0]
    for k, xi in enumerate(noise):
        if rule.lag_schedule == "constant":
            old = sum(w * x[-1 - age] for age, w in enumerate(weights))
        elif k % lag == 0:
            old = x[-1]
        x.append(x[-1] - a * ((1 - phi) * x[-1] + phi * old) + mu * (x[-1] - x[-2]) + xi)
    return x


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_matrices_are_the_update(rule: UpdateRule) -> None:
    kappa = 7.0
    rng = np.random.default_rng(1)
    steps = step_matrices(rule, kappa)
    history = list(rng.standard_normal(8))
    noise = rng.standard_normal(3 * len(steps) + 1)
    a = 0.02 * kappa * (1 - float(rule.momentum) if rule.momentum_kind == "ema" else 1)
    expected = looped(rule, a, history, noise)[8:]
    state = np.array(history[::-1][: steps.shape[-1]])
    found = []
    for k, xi in enumerate(noise):
        state = steps[k % len(steps)] @ state
        state[0] += xi
        found.append(state[0])
    assert_close(found, expected, 1e-13)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_cycle_is_the_product_of_its_steps(rule: UpdateRule) -> None:
    product = np.eye(step_matrices(rule, 3.0).shape[-1])
    for step in step_matrices(rule, 3.0):
        product = step @ product
    assert_close(cycle_matrix(rule, 3.0), product, 1e-14)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_curvatures_come_first(rule: UpdateRule) -> None:
    kappas = np.array([[0.5, 1.0, 4.0], [2.0, 8.0, 16.0]])
    steps = step_matrices(rule, kappas)
    assert steps.shape[:2] == (2, 3)
    assert_close(steps[1, 2], step_matrices(rule, 16.0), 1e-15)
    assert_close(cycle_matrix(rule, kappas)[0, 1], cycle_matrix(rule, 1.0), 1e-15)


@pytest.mark.parametrize("curvature", [0.0, -1.0, float("nan"), float("inf"), np.array([1.0, -2.0])])
def test_a_curvature_that_is_not_positive_is_refused(curvature: float | np.ndarray) -> None:
    given = np.ravel(curvature)[-1]
    with pytest.raises(InputError, match=rf"curvature is {given}; it must be positive and finite: without a restoring"):
        step_matrices(RULES[0], curvature)
