"""From optimizer settings to mass, damping and stiffness: the formulas, their inverses and their errors."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sde_grpo.errors import InputError
from sde_grpo.oscillator import (
    LagSchedule,
    MomentumKind,
    Oscillator,
    UpdateRule,
    curvature_from_relaxation_time,
    reduce_update,
    regime,
    temperature,
)
from tests.tolerance import assert_close

SCHEDULES: tuple[LagSchedule, ...] = ("periodic", "constant")
MOMENTA: tuple[MomentumKind, ...] = ("heavy_ball", "ema")


def numbers(oscillator: Oscillator) -> list[float]:
    """M, C, K as floats."""
    return [float(entry) for entry in oscillator]


@pytest.mark.parametrize("interval", [1, 2, 3, 8, 64])
def test_lag_moments_of_a_refresh_are_averages_over_the_sawtooth(interval: int) -> None:
    lags = np.arange(interval)
    rule = UpdateRule(0.1, refresh_interval=interval)
    assert_close(rule.lag_moments, [lags.mean(), (lags**2).mean()], 1e-15)
    constant = UpdateRule(0.1, refresh_interval=interval, lag_schedule="constant")
    assert constant.lag_moments == (interval, interval**2)


@pytest.mark.parametrize("kind", MOMENTA)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("phi", [1.0, 0.4, -0.2])
def test_coefficients_of_the_oscillator(schedule: LagSchedule, kind: MomentumKind, phi: float) -> None:
    eta, mu, interval, kappa = 0.02, 0.9, 4, 0.3
    rule = UpdateRule(eta, mu, kind, interval, schedule, phi)
    a = eta * kappa * (0.1 if kind == "ema" else 1.0)
    m1, m2 = {"periodic": (1.5, 3.5), "constant": (4.0, 16.0)}[schedule]
    expected = [(1 + mu) / 2 + phi * a * m2 / 2, (1 - mu) - phi * a * m1, a]
    oscillator = reduce_update(rule, kappa)
    assert_close(numbers(oscillator), expected, 1e-15)
    mass, damping, stiffness = expected
    assert_close(oscillator.relaxation_time, damping / stiffness, 1e-14)
    assert_close(oscillator.inertia_ratio, mass * stiffness / damping**2, 1e-14)


def test_plain_gradient_descent_has_no_lag() -> None:
    assert_close(numbers(reduce_update(UpdateRule(0.1), 2.0)), [0.5, 1.0, 0.2], 1e-15)
    no_lag = UpdateRule(0.1, refresh_interval=0, lag_schedule="constant")
    assert numbers(reduce_update(no_lag, 2.0)) == numbers(reduce_update(UpdateRule(0.1), 2.0))


def test_curvatures_broadcast_and_differentiate() -> None:
    rule, kappa = UpdateRule(0.02, 0.5, refresh_interval=4), jnp.linspace(0.1, 3.0, 6).reshape(2, 3)
    oscillator = jax.jit(reduce_update)(rule, kappa)
    assert oscillator.damping.shape == oscillator.relaxation_time.shape == (2, 3)
    slope = jax.grad(lambda kappa: reduce_update(rule, kappa).damping)(1.0)
    assert_close(slope, -0.02 * 1.5, 1e-14)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    tau=st.floats(1e-2, 1e6),
    eta=st.floats(1e-6, 1.0),
    mu=st.floats(0.0, 0.99),
    kind=st.sampled_from(MOMENTA),
    schedule=st.sampled_from(SCHEDULES),
    interval=st.integers(1, 64),
    phi=st.floats(0.0, 1.0),
)
def test_curvature_from_relaxation_time_inverts_the_reduction(
    tau: float,
    eta: float,
    mu: float,
    kind: MomentumKind,
    schedule: LagSchedule,
    interval: int,
    phi: float,
) -> None:
    rule = UpdateRule(eta, mu, kind, interval, schedule, phi)
    kappa = curvature_from_relaxation_time(rule, tau)
    assert float(kappa) > 0
    oscillator = reduce_update(rule, kappa)
    assert float(oscillator.damping) > 0
    # The damping is a difference: where tau is far below the lag its digits go.
    assert_close(oscillator.relaxation_time, tau, 1e-14 * (4 + interval / tau))


@pytest.mark.parametrize(
    ("damping", "inertia_ratio", "name"),
    [
        (0.5, 1e-6, "overdamped"),
        (0.5, 0.2499, "overdamped"),
        (0.5, 0.25, "critical"),
        (0.5, 0.25 + 1e-10, "critical"),
        (0.5, 0.2501, "oscillatory"),
        (0.5, 40.0, "oscillatory"),
        (0.0, 1.0, "unstable"),
        (-0.5, 0.1, "unstable"),
    ],
)
def test_regime_names(damping: float, inertia_ratio: float, name: str) -> None:
    size = damping**2 or 1.0
    oscillator = Oscillator(jnp.asarray(inertia_ratio * size), jnp.asarray(damping), jnp.asarray(1.0))
    assert regime(oscillator) == name


def test_longer_refresh_leads_through_the_regimes() -> None:
    rules = [UpdateRule(0.1, refresh_interval=interval) for interval in (1, 8, 25)]
    assert [regime(reduce_update(rule, 1.0)) for rule in rules] == ["overdamped", "oscillatory", "unstable"]


def test_temperature_falls_as_one_over_group_size() -> None:
    oscillator = reduce_update(UpdateRule(0.02, 0.5), 0.3)
    groups = np.array([1, 2, 8, 64])
    temperatures = temperature(oscillator, 0.7, 0.02, groups)
    assert_close(temperatures, (0.02 * 0.7) ** 2 / groups / (2 * 0.5), 1e-14)
    spread = np.sqrt(np.asarray(temperatures) / float(oscillator.stiffness))
    assert_close(spread * np.sqrt(groups), np.full(4, spread[0]), 1e-14)
    assert_close(jax.jit(temperature)(oscillator, 0.7, 0.02, groups), temperatures, 1e-15)


GOOD: dict[str, Any] = {"learning_rate": 0.1, "momentum": 0.5, "refresh_interval": 2}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0.0}, r"learning_rate is 0\.0; it must be positive"),
        ({"learning_rate": -1.0}, r"learning_rate is -1\.0; it must be positive"),
        ({"learning_rate": float("nan")}, r"learning_rate is nan; it must be positive"),
        ({"momentum": 1.0}, r"momentum is 1\.0; it must lie in \[0, 1\)"),
        ({"momentum": -0.1}, r"momentum is -0\.1; it must lie in \[0, 1\)"),
        ({"momentum_kind": "nesterov"}, r"momentum_kind is 'nesterov'; allowed are 'heavy_ball' \(SGD\) and 'ema'"),
        ({"lag_schedule": "random"}, r"lag_schedule is 'random'; allowed are 'periodic' and 'constant'"),
        ({"refresh_interval": 0}, r"refresh_interval is 0; under the periodic schedule it must be at least 1"),
        (
            {"refresh_interval": -1, "lag_schedule": "constant"},
            r"refresh_interval is -1; under the constant schedule it must be at least 0",
        ),
    ],
)
def test_settings_out_of_range_are_refused(change: dict[str, Any], message: str) -> None:
    UpdateRule(**GOOD)
    with pytest.raises(InputError, match=message):
        UpdateRule(**(GOOD | change))


def test_temperature_refuses_what_has_no_stationary_state() -> None:
    stable, unstable = (reduce_update(UpdateRule(0.1, refresh_interval=k), 1.0) for k in (1, 40))
    with pytest.raises(InputError, match=r"group_size is 0; it must be at least 1"):
        temperature(stable, 1.0, 0.1, 0)
    with pytest.raises(InputError, match=r"a temperature needs positive damping\. Shorten the refresh interval"):
        temperature(unstable, 1.0, 0.1, 8)
