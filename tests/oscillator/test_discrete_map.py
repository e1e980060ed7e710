"""Order and limit: the discrete update of the theory note, simulated, tends to the oscillator as a -> 0."""

from __future__ import annotations

import numpy as np
import pytest

from sde_grpo.oscillator import LagSchedule, UpdateRule, reduce_update
from tests.tolerance import assert_close

SETTINGS = [
    ("periodic", 1, 0.0, 1.0),
    ("periodic", 8, 0.0, 1.0),
    ("periodic", 8, 0.6, 1.0),
    ("periodic", 4, 0.5, 0.3),
    ("constant", 1, 0.0, 1.0),
    ("constant", 6, 0.0, 1.0),
    ("constant", 6, 0.6, 1.0),
    ("constant", 3, 0.5, -0.4),
]


def simulated_time(a: float, schedule: LagSchedule, lag: int, mu: float, phi: float) -> float:
    """Time constant of x_{k+1} = x_k - a [(1-phi) x_k + phi x_old] + mu (x_k - x_{k-1}), from its late decay."""
    block = lag if schedule == "periodic" else 1
    start = block * (int(6 / a) // block)
    length = block * max(1, int(1 / a) // block)
    x = [1.0] * (lag + 2)  # at rest before the first step
    first = len(x) - 1
    old = x[-1]
    for k in range(start + length):
        if schedule == "constant":
            old = x[-1 - lag]
        elif k % lag == 0:
            old = x[-1]
        x.append(x[-1] - a * ((1 - phi) * x[-1] + phi * old) + mu * (x[-1] - x[-2]))
    return -length / np.log(x[first + start + length] / x[first + start])


@pytest.mark.parametrize(("schedule", "lag", "mu", "phi"), SETTINGS)
def test_relaxation_time_is_approached_to_first_order(schedule: LagSchedule, lag: int, mu: float, phi: float) -> None:
    """tau = C/K leaves out the inertia, hence an error of order a."""
    stiffnesses = (1 - mu) * 0.02 / max(lag, 1) / 2.0 ** np.arange(4)
    errors = []
    for a in stiffnesses:
        oscillator = reduce_update(UpdateRule(a, mu, "heavy_ball", lag, schedule, phi), 1.0)
        errors.append(abs(float(oscillator.relaxation_time) / simulated_time(a, schedule, lag, mu, phi) - 1))
    assert errors[0] < 0.03
    assert_close(np.divide(errors[:-1], errors[1:]), np.full(3, 2.0), 0.15)


@pytest.mark.parametrize(("schedule", "lag", "mu", "phi"), SETTINGS)
def test_slow_mode_with_inertia_is_approached_to_second_order(
    schedule: LagSchedule, lag: int, mu: float, phi: float
) -> None:
    """The slow root of M r^2 - C r + K = 0 has an error of order a^2: mass and both moments of the lag are right."""
    for reduced in (0.04, 0.02, 0.01, 0.005):
        a = (1 - mu) * reduced / max(lag, 1)
        oscillator = reduce_update(UpdateRule(a, mu, "heavy_ball", lag, schedule, phi), 1.0)
        tau, q = float(oscillator.relaxation_time), float(oscillator.inertia_ratio)
        slow = tau * (1 + np.sqrt(1 - 4 * q)) / 2
        assert_close(slow, simulated_time(a, schedule, lag, mu, phi), 1.5 * reduced**2)
