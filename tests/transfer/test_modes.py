"""The exact update as an oscillator: against the map itself, and against its truncation."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sde_grpo.oscillator import UpdateRule, displacement, reduce_update
from sde_grpo.transfer.modes import Settings, motion
from tests.tolerance import assert_close

moving = jax.jit(partial(motion, longest=8))


def settings(momentum: float, refresh_interval: int, rate: float = 1.0, time_unit: float = 1.0) -> Settings:
    return Settings(*(jnp.asarray(float(v)) for v in (rate, momentum, refresh_interval, time_unit)))


def walk(a: float, momentum: float, refresh_interval: int, cycles: int) -> np.ndarray:
    """The map step by step, as the theory note writes it (phi = 1); its value at every refresh."""
    now = before = 1.0
    found = [now]
    for _ in range(cycles):
        old = now
        for _ in range(refresh_interval):
            now, before = now - a * old + momentum * (now - before), now
        found.append(now)
    return np.array(found)


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9, 0.97])
@pytest.mark.parametrize("refresh_interval", [1, 3, 8])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_values_at_refreshes_are_those_of_the_map(momentum: float, refresh_interval: int, share: float):
    a = share * (1 - momentum) / refresh_interval
    moved = moving(settings(momentum, refresh_interval), a)
    times = np.arange(13.0) * refresh_interval
    assert_close(
        displacement(moved.b, moved.k, 1.0, moved.velocity, times), walk(a, momentum, refresh_interval, 12), 1e-5
    )


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("refresh_interval", [1, 8])
def test_truncation_is_its_limit(momentum: float, refresh_interval: int) -> None:
    """The relative error of tau = C/K falls as a: by ten when a does."""
    errors = []
    for share in (1e-2, 1e-3):
        a = share * (1 - momentum)
        rule = UpdateRule(1.0, momentum, refresh_interval=refresh_interval)
        truncated = float(reduce_update(rule, a).relaxation_time)
        exact = float(moving(settings(momentum, refresh_interval), a).relaxation_time)
        errors.append(abs(truncated / exact - 1))
    assert errors[1] < 0.15 * errors[0] + 1e-9
    assert errors[0] < 0.01


def test_time_unit_is_the_only_difference_between_steps_and_rollouts() -> None:
    steps = moving(settings(0.9, 4), 0.002)
    rollouts = moving(settings(0.9, 4, time_unit=4.0), 0.002)
    assert_close(rollouts.relaxation_time, steps.relaxation_time / 4)
    assert_close(rollouts.velocity, steps.velocity * 4)


def test_gradient_is_finite_everywhere() -> None:
    """Also where the map is unstable, or rings from refresh to refresh, or is critically damped."""

    def level(x, s):
        moved = motion(s, jnp.exp(x), longest=8)
        return displacement(moved.b, moved.k, 1.0, moved.velocity, 40.0)

    gradients = jax.jit(jax.vmap(jax.grad(level), in_axes=(0, None)))
    for momentum in (0.0, 0.9):
        for refresh_interval in (1, 8):
            found = gradients(jnp.linspace(-12.0, 6.0, 181), settings(momentum, refresh_interval))
            assert np.isfinite(found).all()
