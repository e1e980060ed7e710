"""Every statistic against its textbook loop, one draw at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sde_grpo.checks.statistics import STATISTICS, Statistic
from tests.tolerance import assert_close


def residuals(y, m, s) -> list[float]:
    return [(y[k] - m[k]) / s[k] for k in range(len(y))]


def slow_autocorrelation(y, m, s) -> float:
    r = residuals(y, m, s)
    return sum(r[k] * r[k + 1] for k in range(len(r) - 1)) / sum(v * v for v in r)


def slow_drawdown(y, m, s) -> float:
    return max(y[j] - y[k] for k in range(len(y)) for j in range(k + 1))


def slow_spread(third: int) -> Callable[..., float]:
    def function(y, m, s) -> float:
        r, n = residuals(y, m, s), len(y)
        sizes = [n // 3 + (i < n % 3) for i in range(3)]  # the first thirds take what is left over
        begin = sum(sizes[:third])
        part = r[begin : begin + sizes[third]]
        return (sum(v * v for v in part) / len(part)) ** 0.5

    return function


def slow_band_share(y, m, s) -> float:
    return sum(abs(v) < 1.6448536269514722 for v in residuals(y, m, s)) / len(y)


def slow_longest_run(y, m, s) -> float:
    longest = current = 0
    side = None
    for v in residuals(y, m, s):
        current = current + 1 if (v >= 0) == side else 1
        side = v >= 0
        longest = max(longest, current)
    return longest


def slow_largest_residual(y, m, s) -> float:
    return max(abs(v) for v in residuals(y, m, s))


SLOW = {
    "autocorrelation": slow_autocorrelation,
    "drawdown": slow_drawdown,
    "spread_first": slow_spread(0),
    "spread_middle": slow_spread(1),
    "spread_last": slow_spread(2),
    "band_share": slow_band_share,
    "longest_run": slow_longest_run,
    "largest_residual": slow_largest_residual,
}


def test_every_statistic_has_a_loop() -> None:
    assert [s.name for s in STATISTICS] == list(SLOW)


@pytest.mark.parametrize("steps", [3, 20, 61, 62])
@pytest.mark.parametrize("per_draw", [True, False])
@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda s: s.name)
def test_against_loop(statistic: Statistic, per_draw: bool, steps: int) -> None:
    rng = np.random.default_rng(steps)
    mean, sd = rng.normal(size=(5, steps)), rng.uniform(0.5, 2.0, (5, steps))
    reward = rng.normal(size=(5, steps) if per_draw else steps) * 1.5
    rows = reward if per_draw else [reward] * 5
    slow = [SLOW[statistic.name](y, m, s) for y, m, s in zip(rows, mean, sd, strict=True)]
    assert_close(statistic.function(reward, mean, sd), slow)


def test_a_trace_on_its_trajectory_gives_no_nan() -> None:
    mean = np.broadcast_to(np.linspace(0.0, 1.0, 20), (3, 20))
    sd = np.full((3, 20), 0.1)
    values = {s.name: s.function(mean[0], mean, sd)[0] for s in STATISTICS}
    assert values == dict.fromkeys(SLOW, 0.0) | {"band_share": 1.0, "longest_run": 20.0}
