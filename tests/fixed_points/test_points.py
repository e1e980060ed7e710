"""Fixed points, curvatures and folds against the theory note, brute-force roots and finite differences."""

import math
from itertools import product

import jax
import numpy as np
import pytest
from scipy.special import expit, logit

from sde_grpo.errors import InputError
from sde_grpo.fixed_points import curvature, fixed_point, fixed_points, folds, plateau, signal_ratio_derivatives
from sde_grpo.groups import GroupRule, signal_ratio
from sde_grpo.oscillator import UpdateRule, reduce_update
from tests.tolerance import assert_close

RULES = [
    GroupRule(scale=scale, baseline=baseline, silent=silent)
    for scale, baseline, silent in product(
        ("population", "sample", "none"), ("group_mean", "leave_one_out"), ("keep", "drop")
    )
]
DROP = GroupRule(silent="drop")
GROUP_SIZES = (2, 4, 8, 16, 32, 64, None)
FIXED_POINTS = (0.5987, 0.6572, 0.6854, 0.6975, 0.7022, 0.7044, 0.7065)
CURVATURES = (0.60065, 0.55579, 0.49176, 0.45057, 0.43604, 0.43006, 0.42437)
BANDITS = [(0.5, 2.5, 2), (0.5, 2.5, None), (0.2, 1.7, 5), (0.9, 6.0, 64), (0.3, 1.0, 3), (1e-4, 0.25, 32)]


def mean_signal(theta, group_size, rule):
    """E s, from the advantages of every group written out; no drift of the package is used."""
    theta = np.atleast_1d(theta)
    log_p, log_q = -np.logaddexp(0, -theta), -np.logaddexp(0, theta)
    if group_size is None:
        return np.exp((1.0 if rule.scale == "none" else 0.5) * (log_p + log_q))
    total, live = np.zeros_like(theta), np.zeros_like(theta)
    for k in range(1, group_size):
        rewards = (np.arange(group_size) < k) * 1.0
        alone = (rewards.sum() - rewards) / (group_size - 1)
        centred = rewards - (alone if rule.baseline == "leave_one_out" else rewards.mean())
        scale = {"population": rewards.std(), "sample": rewards.std(ddof=1), "none": 1.0}[rule.scale]
        chance = math.comb(group_size, k) * np.exp(k * log_p + (group_size - k) * log_q)
        total += chance * np.mean(centred / scale * rewards)  # the score is reward - p, and advantages sum to zero
        live += chance
    return total / live if rule.silent == "drop" else total


def drift(theta, theta_old, p_ref, kl_weight, group_size, rule):
    """E s w(theta)/w(theta_old) - beta w (theta - theta_ref), as the note writes it."""

    def w(x):
        return expit(x) * expit(-x)

    signal = mean_signal(theta_old, group_size, rule)
    return signal * w(theta) / w(theta_old) - kl_weight * w(theta) * (theta - logit(p_ref))


@pytest.mark.parametrize(
    ("group_size", "p", "kappa"), list(zip(GROUP_SIZES, FIXED_POINTS, CURVATURES, strict=True)), ids=str
)
def test_the_tables_of_the_note(group_size, p, kappa):
    assert round(fixed_point(0.5, 2.5, group_size), 4) == p
    assert round(curvature(0.5, 2.5, group_size), 5) == kappa


def test_the_example_of_the_note():
    point = plateau(0.5, 2.5)
    assert round(point.p, 5) == 0.70649
    assert round(point.kappa_now, 5) == 0.51840
    assert round(point.kappa_old, 5) == -0.09403
    assert point.curvature == pytest.approx(0.424372110163, rel=1e-11)
    assert point.stale_fraction == pytest.approx(-0.2215748, rel=1e-6)


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("group_size", [2, 7, None])
def test_the_signal_ratio_and_its_derivatives_are_those_of_the_groups(group_size, rule):
    theta, h = np.array([-20.0, -3.0, 0.0, 0.7, 5.0, 20.0]), 1e-5
    ratio = signal_ratio_derivatives(theta, group_size, rule)
    np.testing.assert_allclose(ratio.value, signal_ratio(theta, group_size, rule), rtol=1e-12)
    up, down = (signal_ratio_derivatives(theta + x, group_size, rule) for x in (h, -h))
    np.testing.assert_allclose(ratio.slope, (up.value - down.value) / (2 * h), atol=1e-8 * ratio.value.max())
    np.testing.assert_allclose(ratio.bend, (up.slope - down.slope) / (2 * h), atol=1e-8 * ratio.value.max())


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize(("p_ref", "kl_weight", "group_size"), BANDITS)
def test_every_root_of_the_drift_is_found_with_its_curvature(p_ref, kl_weight, group_size, rule):
    grid = np.linspace(logit(p_ref), logit(1 - 1e-9), 4_001)[1:]
    force = drift(grid, grid, p_ref, kl_weight, group_size, rule)
    brute = grid[:-1][(force[:-1] > 0) != (force[1:] > 0)]
    points = fixed_points(p_ref, kl_weight, group_size, rule)
    assert_close([point.theta for point in points], brute, relative=1.1 * (grid[1] - grid[0]), scale=1.0)
    for i, point in enumerate(points):
        step = 1e-4
        now, old, both = (
            float(
                drift(point.theta - step * a, point.theta - step * b, p_ref, kl_weight, group_size, rule)[0]
                - drift(point.theta + step * a, point.theta + step * b, p_ref, kl_weight, group_size, rule)[0]
            )
            / (2 * step)
            for a, b in ((1, 0), (0, 1), (1, 1))
        )
        scale = abs(point.kappa_now) + abs(point.kappa_old)
        assert_close([point.kappa_now, point.kappa_old, point.curvature], [now, old, both], 1e-6, scale)
        assert (point.curvature > 0) == (i % 2 == 0)


def test_a_large_group_tends_to_many_completions_as_one_over_its_size():
    errors = [fixed_point(0.5, 2.5, g) - fixed_point(0.5, 2.5) for g in (256, 512, 1024)]
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.02)
    assert errors[1] / errors[2] == pytest.approx(2, rel=0.02)


def test_the_mean_only_rule_moves_the_logit_by_one_over_beta():
    rule = GroupRule(scale="none", baseline="leave_one_out")
    for group_size in (2, 9, None):
        (point,) = fixed_points(0.3, 0.8, group_size, rule)
        assert point.theta == pytest.approx(logit(0.3) + 1 / 0.8, rel=1e-12)
        assert point.curvature == pytest.approx(0.8 * point.p * (1 - point.p), rel=1e-12)
        assert point.stale_fraction == pytest.approx(0, abs=1e-12)


def test_the_fold_of_many_completions():
    """beta (2 asinh beta - theta_ref) = 2 sqrt(1 + beta^2), at p_ref = 1/2: beta = 1.50888."""
    for p_ref in (0.5, 0.05, 0.9):
        (fold,) = folds(p_ref)
        beta = fold.kl_weight
        assert beta * (2 * math.asinh(beta) - logit(p_ref)) == pytest.approx(2 * math.sqrt(1 + beta**2), rel=1e-12)
        assert logit(fold.p) == pytest.approx(2 * math.asinh(beta), rel=1e-9)
        assert len(fixed_points(p_ref, beta * (1 + 1e-6))) == 2
        assert len(fixed_points(p_ref, beta * (1 - 1e-6))) == 0
    assert round(folds(0.5)[0].kl_weight, 4) == 1.5089


def test_a_finite_group_has_no_fold_or_two_with_three_fixed_points_between():
    assert folds(0.5, 8) == ()
    assert 0.79 < fixed_point(0.5, 1.508, 8) < 0.82  # where many completions have none
    low, high = folds(0.01, 32)
    counts = [
        len(fixed_points(0.01, beta, 32)) for beta in np.linspace(low.kl_weight, high.kl_weight, 12)[1:-1].tolist()
    ]
    assert counts == [3] * 10
    assert len(fixed_points(0.01, low.kl_weight - 1e-4, 32)) == len(fixed_points(0.01, high.kl_weight + 1e-4, 32)) == 1
    assert fixed_point(0.01, low.kl_weight - 1e-4, 32) - fixed_point(0.01, low.kl_weight + 1e-4, 32) > 0.25


def test_dropping_silent_groups_brings_the_fold_back():
    (fold,) = folds(0.5, 8, DROP)
    assert len(fixed_points(0.5, fold.kl_weight + 1e-4, 8, DROP)) == 2
    with pytest.raises(InputError, match="no interior fixed point"):
        plateau(0.5, fold.kl_weight - 1e-4, 8, DROP)


@pytest.mark.parametrize(
    "update",
    [
        UpdateRule(learning_rate=0.01),
        UpdateRule(learning_rate=0.01, momentum=0.9, momentum_kind="ema", refresh_interval=8),
    ],
)
def test_the_predicted_oscillator_has_the_points_own_stale_fraction(update):
    point = plateau(0.5, 2.5, 8)
    m1, _ = update.lag_moments
    stiffness = float(update.effective_learning_rate) * point.curvature
    oscillator = point.oscillator(update)
    assert float(oscillator.stiffness) == pytest.approx(stiffness)
    expected = (1 - update.momentum - point.stale_fraction * stiffness * m1) / stiffness
    assert float(oscillator.relaxation_time) == pytest.approx(expected)
    if update.refresh_interval > 1:  # the lag adds damping where phi < 0, and takes it away where phi = 1
        assert oscillator.damping > 1 - update.momentum > reduce_update(update, point.curvature).damping


def test_importing_does_not_touch_the_precision_flag():
    with jax.enable_x64(False):
        assert round(curvature(0.5, 2.5, 8), 5) == 0.49176


@pytest.mark.parametrize("function", [fixed_point, curvature, plateau])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 2.5), r"p_ref is 0\.0; it must lie strictly between 0 and 1"),
        ((math.nan, 2.5), r"p_ref is nan; it must lie strictly between 0 and 1"),
        ((0.5, -1.0), r"kl_weight is -1\.0; it must be finite and not negative"),
        ((0.5, math.inf), "kl_weight is inf; it must be finite and not negative"),
        ((0.5, 2.5, 1), r"group_size is 1; it must be a whole number of at least 2"),
        ((0.5, 0.0), r"no interior fixed point at p_ref = 0\.5, kl_weight = 0\.0, group_size = None"),
        ((0.5, 0.05, 8), r"no interior fixed point at p_ref = 0\.5, kl_weight = 0\.05, group_size = 8"),
    ],
)
def test_errors(function, arguments, message):
    with pytest.raises(InputError, match=message):
        function(*arguments)


def test_more_errors():
    with pytest.raises(InputError, match=r"p_ref is 1\.5; it must lie strictly"):
        folds(1.5)
    with pytest.raises(InputError, match=r"group_size is True; it must be a whole number"):
        folds(0.5, True)
    repelling = fixed_points(0.5, 2.5)[1]
    with pytest.raises(InputError, match=r"p = 0\.993723 has curvature -.*: it repels.*Take a stable one"):
        repelling.oscillator(UpdateRule(learning_rate=0.01))
