"""Each law against an independent integration of its equation, its inverse, its tail and its discrete map."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import expit, logit

from sde_grpo.errors import InputError
from sde_grpo.fixed_points import (
    anchored,
    exponential_range,
    group_law,
    kl_free,
    kl_free_time,
    linearised,
    mean_only,
    mean_only_time,
    plateau,
    second_order,
    signal_ratio_derivatives,
)
from sde_grpo.groups import GroupRule
from tests.tolerance import assert_close

T = np.linspace(0.0, 2000.0, 60)
LEAVE_ONE_OUT = GroupRule(scale="none", baseline="leave_one_out")
DROP = GroupRule(silent="drop")


def integrated(p_start, learning_rate, p_ref=0.5, kl_weight=0.0, group_size=None, rule=LEAVE_ONE_OUT, t=T):
    """d theta/dt = eta w [R - beta (theta - theta_ref)] by LSODA to 1e-11."""

    def slope(_, theta):
        w = expit(theta) * expit(-theta)
        ratio = signal_ratio_derivatives(theta, group_size, rule).value
        return learning_rate * w * (ratio - kl_weight * (theta - logit(p_ref)))

    span = (0, t[-1])
    return expit(solve_ivp(slope, span, [logit(p_start)], t_eval=t, method="LSODA", rtol=1e-11, atol=1e-11).y[0])


@pytest.mark.parametrize("p_start", [1e-3, 0.2, 0.8])
def test_the_closed_laws_solve_their_equations(p_start):
    assert_close(kl_free(T, p_start, 0.05), integrated(p_start, 0.05, rule=GroupRule()), 1e-8)
    assert_close(mean_only(T, p_start, 0.05), integrated(p_start, 0.05), 1e-8)


def test_the_kl_free_law_is_that_of_the_note_and_of_the_discrete_map():
    z = -(1 - 0.2) / (2 * math.sqrt(0.1 * 0.9)) + 0.01 * T / 4
    assert_close(kl_free(T, 0.1, 0.01), (1 + z / np.sqrt(1 + z**2)) / 2, 1e-12)
    theta, path = float(logit(0.1)), []
    for _ in range(2001):
        path.append(float(expit(theta)))
        theta += 0.01 * math.sqrt(path[-1] * (1 - path[-1]))
    assert 1e-4 < np.abs(np.array(path) - np.asarray(kl_free(np.arange(2001.0), 0.1, 0.01))).max() < 6e-4


@pytest.mark.parametrize(("law", "inverse"), [(kl_free, kl_free_time), (mean_only, mean_only_time)])
def test_the_inverse_and_the_ceiling(law, inverse):
    curve = law(T, 0.05, 0.03, 0.8)
    assert_close(inverse(curve, 0.05, 0.03, 0.8), T, 1e-9)
    assert_close(curve, 0.8 * law(T, 0.0625, 0.03), 1e-12)
    assert inverse(0.01, 0.05, 0.03, 0.8) < 0
    assert float(law(0.0, 0.5, 0.03)) == pytest.approx(0.5, rel=1e-15)


def test_mean_only_is_exact_over_all_times_and_differentiable():
    late = jnp.logspace(-3, 12, 40)
    assert_close(mean_only_time(mean_only(late[:20], 0.3, 1.0), 0.3, 1.0) / late[:20], np.ones(20), 1e-9)
    assert_close((1 - mean_only(late[30:], 0.3, 1.0)) * late[30:], np.ones(10), 1e-3)
    # dp/dt = eta w^2 and d2p/dt2 = 2 eta^2 w^3 (1 - 2p), from autodiff through the Newton steps; 0.5 is its midpoint
    for p in (1e-4, 0.5, 0.9):
        w = p * (1 - p)
        first, second = jax.grad(mean_only), jax.grad(jax.grad(mean_only))
        assert float(first(0.0, p, 2.0)) == pytest.approx(2 * w**2, rel=1e-8)
        assert float(second(0.0, p, 2.0)) == pytest.approx(8 * w**3 * (1 - 2 * p), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    ("group_size", "rule", "law", "factor"),
    [
        (None, GroupRule(), kl_free, 1),
        (2, GroupRule(), mean_only, 1),
        (5, LEAVE_ONE_OUT, mean_only, 1),
        (5, GroupRule(scale="none"), mean_only, 0.8),
    ],
)
def test_groups_whose_law_is_closed(group_size, rule, law, factor):
    assert_close(group_law(T, 0.06, 0.05, group_size, rule, 0.6), law(T, 0.06, 0.05 * factor, 0.6), 1e-6)


def test_tails():
    """1 - p: 4/(eta t)^2 for many completions, 1/(G s(1) eta t) for any group, exponential where silence is dropped."""
    t = np.array([1e5, 2e5])
    assert_close((1 - kl_free(t, 0.1, 1.0)) * t**2, [4.0, 4.0], 1e-3)
    assert_close((1 - group_law(t, 0.1, 1.0, 8)) * t, [1 / math.sqrt(7)] * 2, 1e-3)
    t = np.array([80.0, 90.0])
    gap = 1 - np.asarray(group_law(t, 0.1, 1.0, 8, DROP))
    assert math.log(gap[0] / gap[1]) / 10 == pytest.approx(math.sqrt(7) / 8, rel=1e-3)
    t = np.array([20.0, 1e4])  # 1 - p is 0.01 and 4e-8 with many completions, against 1/G = 0.002
    ratio = (1 - group_law(t, 0.5, 1.0, 512)) / (1 - kl_free(t, 0.5, 1.0))
    assert ratio[0] < 1.1
    assert ratio[1] > 100


@pytest.mark.parametrize(
    ("p_start", "kl_weight", "group_size", "rule"),
    [(0.1, 2.5, 8, GroupRule()), (0.95, 2.5, 8, GroupRule()), (0.1, 40.0, 8, GroupRule()), (0.1, 1.0, None, DROP)],
)
def test_the_anchored_law(p_start, kl_weight, group_size, rule):
    expected = integrated(p_start, 0.05, 0.5, kl_weight, group_size, rule)
    assert_close(anchored(T, p_start, 0.05, 0.5, kl_weight, group_size, rule), expected, 1e-6)
    shuffled = np.random.default_rng(1).permutation(len(T))
    assert_close(anchored(T[shuffled], p_start, 0.05, 0.5, kl_weight, group_size, rule), expected[shuffled], 1e-6)


def test_the_anchored_law_over_thousands_of_relaxation_times_ends_on_the_plateau():
    end = anchored(np.array([0.0, 1e6]), 0.01, 0.05, 0.5, 2.5, 8)
    assert_close(end, [0.01, plateau(0.5, 2.5, 8).p], 1e-12)
    assert_close(anchored(np.zeros(2), 0.3, 0.05, 0.5, 2.5, 8), [0.3, 0.3], 1e-15)


def test_the_anchored_law_differentiates():
    t = np.array([0.0, 10.0, 300.0])

    def total(x):
        return anchored(t, x[0], x[1], x[2], x[3], 8).sum()

    at = np.array([0.1, 0.05, 0.5, 2.5])
    gradient, h = jax.grad(total)(jnp.asarray(at)), 1e-6
    numeric = [float(total(at + h * np.eye(4)[i]) - total(at - h * np.eye(4)[i])) / (2 * h) for i in range(4)]
    assert_close(gradient, numeric, 1e-5)


@pytest.mark.parametrize(("group_size", "rule"), [(None, GroupRule()), (8, GroupRule()), (4, LEAVE_ONE_OUT)])
def test_the_exponential_holds_near_the_fixed_point_and_fails_as_predicted_away_from_it(group_size, rule):
    point = plateau(0.5, 2.5, group_size, rule)
    b = second_order(point, group_size, rule)
    t = np.linspace(0, 8, 200) / (0.05 * point.curvature)
    for distance in (-1e-3, 1e-3):
        law = np.asarray(anchored(t, point.p + distance, 0.05, 0.5, 2.5, group_size, rule))
        exponential = np.asarray(linearised(t, point.p + distance, 0.05, point))
        decay = np.exp(-0.05 * point.curvature * t)
        assert_close(law - exponential, b * distance**2 / point.curvature * (decay - decay**2), 0.02)
        assert np.abs(law - exponential).max() / 1e-3 == pytest.approx(abs(b) * 1e-3 / (4 * point.curvature), rel=0.02)


def test_the_range_of_the_exponential():
    tight, loose = (exponential_range(x, 0.5, 2.5) for x in (0.002, 0.05))
    assert tight.below == pytest.approx(tight.leading_order, rel=0.02)
    assert tight.above == pytest.approx(tight.leading_order, rel=0.02)
    assert loose.below == pytest.approx(0.0665, abs=2e-4)
    assert loose.above == pytest.approx(0.0475, abs=2e-4)
    point, t = plateau(0.5, 2.5), np.linspace(0, 8, 400) / (0.05 * plateau(0.5, 2.5).curvature)
    start = point.p - loose.below
    error = np.abs(integrated(start, 0.05, 0.5, 2.5, None, GroupRule(), t) - linearised(t, start, 0.05, point)).max()
    assert error / loose.below == pytest.approx(0.05, rel=0.01)


@pytest.mark.parametrize(
    ("law", "arguments", "message"),
    [
        (kl_free, (-1.0, 0.1, 0.1), r"t is -1\.0; it must be finite and not negative"),
        (kl_free, (1.0, 0.0, 0.1), r"p_start is 0\.0; it must be strictly between 0 and 1"),
        (mean_only, (1.0, 0.9, 0.1, 0.8), r"p_start is 0\.9; it must be strictly between 0 and 0\.8"),
        (mean_only, (1.0, 0.1, math.nan), "learning_rate is nan; it must be positive and finite"),
        (kl_free, (1.0, 0.1, 0.1, -1.0), r"ceiling is -1\.0; it must be positive and finite"),
        (kl_free_time, (1.0, 0.1, 0.1), r"p is 1\.0; it must be strictly between 0 and 1"),
        (mean_only_time, (0.5, math.nan, 0.1), "p_start is nan; it must be strictly between 0 and 1"),
        (anchored, (T, 0.1, 0.0, 0.5, 1.0), r"learning_rate is 0\.0; it must be positive and finite"),
        (anchored, (T, 0.1, 0.1, 1.0, 1.0), r"p_ref is 1\.0; it must be strictly between 0 and 1"),
        (anchored, (T, 0.1, 0.1, 0.5, -1.0), r"kl_weight is -1\.0; it must be finite and not negative"),
        (anchored, (T, 0.1, 0.1, 0.5, 1.0, 1), "group_size is 1; it must be a whole number of at least 2"),
        (anchored, (T[None], 0.1, 0.1, 0.5, 1.0), r"t has shape \(1, 60\); it must have one axis"),
        (group_law, (T, 1.0, 0.1, 8), r"p_start is 1\.0; it must be strictly between 0 and 1"),
        (exponential_range, (0.0, 0.5, 2.5), r"tolerance is 0\.0; it must lie strictly between 0 and 1"),
    ],
)
def test_errors(law, arguments, message):
    with pytest.raises(InputError, match=message):
        law(*arguments)


def test_float64_is_required():
    with jax.enable_x64(False), pytest.raises(InputError, match="needs float64"):
        kl_free(1.0, 0.1, 0.1)
