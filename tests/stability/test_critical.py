"""The limits of stability and ringing: the table of the theory note, closed forms, and direct simulation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sde_grpo.discrete_map import phase_per_step, spectral_radius
from sde_grpo.errors import InputError
from sde_grpo.oscillator import LagSchedule, UpdateRule, reduce_update
from sde_grpo.stability import (
    average_stiffness,
    critical_learning_rate,
    critical_refresh_interval,
    critical_stiffness,
    paper_stiffness,
    ringing_stiffness,
)
from tests.stability.simulation import changes_sign, first, grows
from tests.tolerance import assert_close

INTERVALS = (1, 2, 4, 8, 16, 32, 64)
TABLE: list[tuple[float, LagSchedule, tuple[str, ...]]] = [
    (0.0, "constant", ("1.000", "1.236", "1.389", "1.476", "1.523", "1.546", "1.559")),
    (0.0, "periodic", ("2.000", "2.000", "2.000", "2.000", "2.000", "2.000", "2.000")),
    (0.5, "constant", ("1.000", "1.123", "1.247", "1.361", "1.448", "1.504", "1.536")),
    (0.5, "periodic", ("6.000", "5.000", "3.579", "2.660", "2.286", "2.133", "2.065")),
    (0.9, "constant", ("1.000", "1.025", "1.060", "1.115", "1.198", "1.300", "1.398")),
    (0.9, "periodic", ("38.00", "4.222", "2.922", "2.709", "2.985", "4.070", "2.780")),
]
WINDOW = UpdateRule(1.0, 0.95, "heavy_ball", 16, "periodic", 0.2)  # unstable, stable again, and unstable for good
RULES = [
    UpdateRule(1.0, 0.0, "heavy_ball", 3, "constant"),
    UpdateRule(1.0, 0.9, "heavy_ball", 8, "periodic"),
    UpdateRule(1.0, 0.9, "ema", 4, "constant"),
    UpdateRule(1.0, 0.5, "ema", 5, "periodic", 0.7),
    UpdateRule(1.0, 0.6, "heavy_ball", 3, "periodic", -0.4),
    UpdateRule(1.0, 0.8, "heavy_ball", 8, "constant", -0.5),
    UpdateRule(1.0, 0.3, "heavy_ball", 2, "periodic", 1.5),
    UpdateRule(1.0, 0.5, "heavy_ball", 4, "constant", 1.0, (0.4, 0.3, 0.0, 0.2, 0.1)),
    UpdateRule(1.0, 0.9, "heavy_ball", 3, "constant", 0.6, (0.1, 0.2, 0.3, 0.4)),
    WINDOW,
]


@pytest.mark.parametrize(("momentum", "schedule", "printed"), TABLE, ids=lambda value: str(value)[:8])
def test_the_table_of_the_theory_note(momentum: float, schedule: LagSchedule, printed: tuple[str, ...]) -> None:
    for interval, ratio in zip(INTERVALS, printed, strict=True):
        rule = UpdateRule(0.1, momentum, refresh_interval=interval, lag_schedule=schedule)
        found = critical_stiffness(rule) / paper_stiffness(rule)
        assert f"{found:.{len(ratio.split('.')[1])}f}" == ratio, (interval, found)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_critical_stiffness_is_where_the_update_begins_to_grow(rule: UpdateRule) -> None:
    simulated = first(grows, rule, 1e-3 * (1 - float(rule.momentum)), 8.0, 1e-7)
    assert_close(critical_stiffness(rule), simulated, 1e-6)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_ringing_stiffness_is_where_the_update_begins_to_change_sign(rule: UpdateRule) -> None:
    found = ringing_stiffness(rule)
    # With phi < 0 a real root may be overtaken by a pair: near there both decay alike, and a path tells them apart
    # late. Elsewhere the angle grows as the square root of the distance.
    tolerance = 3e-3 if float(rule.stale_fraction) < 0 else 5e-4
    assert_close(found, first(changes_sign, rule, found / 3, found * 3, tolerance / 5), tolerance)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_it_is_the_first_crossing_of_the_spectral_radius(rule: UpdateRule) -> None:
    rule = dataclasses.replace(rule, momentum_kind="heavy_ball")
    critical, ringing = critical_stiffness(rule), ringing_stiffness(rule)
    below = np.linspace(1e-3, 1, 400)
    assert np.all(spectral_radius(rule, critical * (1 - 1e-9) * below) < 1)
    assert np.all(phase_per_step(rule, ringing * (1 - 1e-9) * below) == 0)
    assert spectral_radius(rule, critical * (1 + 1e-6)) > 1
    assert phase_per_step(rule, ringing * (1 + 1e-6)) > 0


def test_the_first_limit_is_found_although_the_map_is_stable_again_above_it() -> None:
    critical = critical_stiffness(WINDOW)
    assert_close(critical, 0.0421, 1e-2)
    radius = spectral_radius(WINDOW, critical * np.array([0.9, 1.1, 2.0, 10.0]))
    assert (radius < 1).tolist() == [True, False, True, False]


@pytest.mark.parametrize("mu", [0.0, 0.4, 0.9, 0.99])
@pytest.mark.parametrize("phi", [1.0, -2.0])
def test_without_lag_the_limits_are_those_of_heavy_ball(mu: float, phi: float) -> None:
    """Roots of z^2 - (1 + mu - a) z + mu: complex above (1 - sqrt mu)^2, on the circle at 2 (1 + mu)."""
    cases: tuple[tuple[int, LagSchedule], ...] = ((1, "periodic"), (0, "constant"))
    for interval, schedule in cases:
        rule = UpdateRule(0.1, mu, "heavy_ball", interval, schedule, phi)
        assert_close(critical_stiffness(rule), 2 * (1 + mu), 1e-12)
        assert_close(ringing_stiffness(rule), (1 - np.sqrt(mu)) ** 2, 1e-10)


@pytest.mark.parametrize("lag", [1, 2, 5, 20])
def test_pure_delay_has_its_known_limits(lag: int) -> None:
    """x_{k+1} = x_k - a x_{k-L}: stable below 2 sin(pi/(4L + 2)), without overshoot below L^L/(L+1)^{L+1}."""
    rule = UpdateRule(0.1, refresh_interval=lag, lag_schedule="constant")
    assert_close(critical_stiffness(rule), 2 * np.sin(np.pi / (4 * lag + 2)), 1e-12)
    assert_close(ringing_stiffness(rule), lag**lag / (lag + 1) ** (lag + 1), 1e-10)


def test_a_refresh_interval_without_momentum_rings_at_half_its_limit() -> None:
    """x_K = (1 - a K) x_0."""
    for interval in (1, 3, 10):
        rule = UpdateRule(0.1, refresh_interval=interval)
        assert_close([ringing_stiffness(rule), critical_stiffness(rule)], np.array([1, 2]) / interval, 1e-12)


def test_ringing_within_a_cycle_counts_although_its_root_is_positive() -> None:
    """phi = -1, K = 2, mu = 0: x_1 = (1 - a) x_0, and x_2 = (1 - 2a + 2a^2) x_0 is positive for every a."""
    rule = UpdateRule(1.0, 0.0, "heavy_ball", 2, "periodic", -1.0)
    assert phase_per_step(rule, 0.95) == 0
    assert_close(phase_per_step(rule, 1.05), np.pi, 1e-12)


def test_a_negative_dominant_root_rings() -> None:
    """L = 1, phi = -1, mu = 0: z^2 - (1 - 2a) z - a has real roots, of which the negative one leads above a = 1/2."""
    assert_close(ringing_stiffness(UpdateRule(1.0, 0.0, "heavy_ball", 1, "constant", -1.0)), 0.5, 1e-10)


def test_a_mixture_of_one_lag_is_that_lag_and_of_two_lies_between() -> None:
    lag = lambda weights: UpdateRule(  # noqa: E731
        0.1, 0.5, refresh_interval=len(weights) - 1, lag_schedule="constant", lag_weights=weights
    )
    short, long = (UpdateRule(0.1, 0.5, refresh_interval=n, lag_schedule="constant") for n in (1, 4))
    assert_close(critical_stiffness(lag((0.0, 0.0, 0.0, 0.0, 1.0))), critical_stiffness(long), 1e-12)
    between = critical_stiffness(lag((0.0, 0.5, 0.0, 0.0, 0.5)))
    assert critical_stiffness(long) < between < critical_stiffness(short)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_average_limit_is_where_the_damping_vanishes(rule: UpdateRule) -> None:
    limit = average_stiffness(rule)
    if float(rule.stale_fraction) < 0:
        assert limit == paper_stiffness(rule) == np.inf
        return
    damping = reduce_update(dataclasses.replace(rule, momentum_kind="heavy_ball"), limit).damping
    assert_close(damping, 0.0, 1e-12, scale=1.0)
    if rule.lag_schedule == "periodic":
        assert_close(limit / paper_stiffness(rule), 2 * rule.refresh_interval / (rule.refresh_interval - 1), 1e-12)


@pytest.mark.parametrize("kind", ["heavy_ball", "ema"])
def test_at_the_critical_learning_rate_the_radius_is_one(kind) -> None:
    rule, kappas = UpdateRule(0.01, 0.9, kind, 4), np.array([0.3, 2.0])
    rates = critical_learning_rate(rule, kappas)
    for rate, kappa in zip(rates, kappas, strict=True):
        assert_close(spectral_radius(dataclasses.replace(rule, learning_rate=float(rate)), kappa), 1.0, 1e-12)


@pytest.mark.parametrize("rule", [RULES[0], RULES[1], RULES[3], WINDOW], ids=str)
def test_every_interval_up_to_the_critical_one_is_stable(rule: UpdateRule) -> None:
    rule = dataclasses.replace(rule, momentum_kind="heavy_ball")
    a = np.array([0.01, 0.05, 0.3])
    for stiffness, longest in zip(a, critical_refresh_interval(rule, a), strict=True):
        radius = lambda k: spectral_radius(dataclasses.replace(rule, refresh_interval=k), stiffness)  # noqa: B023, E731
        assert all(radius(k) < 1 for k in range(1, int(min(longest, 64)) + 1))
        if np.isfinite(longest):
            assert radius(int(longest) + 1) >= 1


def test_there_may_be_no_critical_interval_or_none_short_enough() -> None:
    """Without momentum and with phi < 1/2 a block settles at -phi/(1-phi) of its start, however long it is."""
    rule = UpdateRule(1.0, 0.0, "heavy_ball", 1, "periodic", 0.3)
    assert critical_refresh_interval(rule, np.array([0.5, 3.0])).tolist() == [np.inf, 0.0]
    assert critical_refresh_interval(UpdateRule(1.0, lag_schedule="constant"), 3.0) == -1


def test_a_mixed_lag_has_no_critical_interval() -> None:
    with pytest.raises(InputError, match=r"a critical refresh interval needs a single lag\. Leave lag_weights out"):
        critical_refresh_interval(RULES[7], 0.1)
