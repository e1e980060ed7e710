"""The update itself as a loop, and from it alone where it grows and where it changes sign."""

from __future__ import annotations

import numpy as np

from sde_grpo.oscillator import UpdateRule

BLOCK = 100  # steps between renormalisations, so that nothing overflows or dies out


def paths(rule: UpdateRule, a: np.ndarray, blocks: int):
    """x_{k+1} = x_k - a [(1-phi) x_k + phi x_old] + mu (x_k - x_{k-1}), for all `a` at once, block by block.

    Yields the values (BLOCK, a) and the logarithm of their unit.
    """
    mu, phi, interval = float(rule.momentum), float(rule.stale_fraction), rule.refresh_interval
    weights = rule.lag_weights or (*[0.0] * interval, 1.0)
    lags = [(age, weight) for age, weight in enumerate(weights) if weight]
    x = [np.full(a.shape, value) for value in 1.0 + 0.1 * np.random.default_rng(0).standard_normal(interval + 2)]
    old, unit, k = x[-1], np.zeros(a.shape), 0
    for _ in range(blocks):
        for _ in range(BLOCK):
            if rule.lag_schedule == "constant":
                old = sum(weight * x[-1 - age] for age, weight in lags)
            elif k % interval == 0:
                old = x[-1]
            x.append(x[-1] - a * ((1 - phi) * x[-1] + phi * old) + mu * (x[-1] - x[-2]))
            k += 1
        yield np.array(x[-BLOCK:]), unit.copy()
        size = np.max(np.abs(x[-(interval + 2) :]), axis=0)
        x = [value / size for value in x[-(interval + 2) :]]
        old, unit = old / size, unit + np.log(size)


def grows(rule: UpdateRule, a: np.ndarray, blocks: int = 80) -> np.ndarray:
    """Whether the energy late in the path exceeds that in its middle, in two windows that taper at their ends."""
    logs = np.array([np.log(np.sum(x**2, axis=0)) + 2 * unit for x, unit in paths(rule, a, blocks)])
    width = 2 * blocks // 5
    taper = np.log(np.sin(np.pi * (np.arange(width) + 0.5) / width) ** 2)[:, None]
    middle, late = logs[-2 * width : -width], logs[-width:]
    return np.logaddexp.reduce(late + taper, axis=0) > np.logaddexp.reduce(middle + taper, axis=0)


def changes_sign(rule: UpdateRule, a: np.ndarray, blocks: int = 80) -> np.ndarray:
    """Whether x changes sign in the last four fifths of the path."""
    changed, before = np.zeros(a.shape, bool), None
    for block, (x, _) in enumerate(paths(rule, a, blocks)):
        if block >= blocks // 5:
            signs = np.sign(x if before is None else np.concatenate([before, x]))
            changed |= np.any(signs[1:] != signs[:-1], axis=0)
        before = x[-1:]
    return changed


def first(condition, rule: UpdateRule, low: float, high: float, tolerance: float) -> float:
    """The least a in [low, high] at which `condition` holds, by repeated division of the interval."""
    grid = np.geomspace(low, high, 128)
    while True:
        holds = condition(rule, grid)
        assert holds.any(), "nothing happens in this range"
        index = int(np.argmax(holds))
        assert index > 0, "it happens at the lowest value already"
        if grid[index] - grid[index - 1] < tolerance * grid[index]:
            return float(grid[index])
        grid = np.linspace(grid[index - 1], grid[index], 128)
