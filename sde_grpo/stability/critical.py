"""Where the exact discrete map loses stability and where it begins to ring (theory note, section 4)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike

from sde_grpo.discrete_map import phase_per_step, spectral_radius, stiffness_per_step
from sde_grpo.errors import require
from sde_grpo.oscillator import UpdateRule

REFRESH_LIMIT = 128  # refresh intervals searched for the critical one
_REAL = 1e-7  # imaginary part below which a root counts as real
_PER_OCTAVE = 12  # stiffnesses tried between a and 2a, before any that the inner oscillation needs
_DIGITS = 1e-13  # relative width to which a limit is enclosed
_HIGHEST = 1e6  # stiffness per step at which the search for a limit ends


def critical_stiffness(rule: UpdateRule) -> float:
    """a_c: the stiffness per step at which the discrete map first loses stability as a grows from 0.

    Constant or mixed lag: with W(z) = sum_l w_l z^-l, a root sits on the unit circle at z = exp(i omega) where

        a = (1 - 1/z) (mu - z) / (1 - phi + phi W(z))

    is real and positive. Its imaginary part vanishes at omega = pi and at the roots c = cos omega of

        (1 + mu) phi (1 - c) sum_l w_l U_{l-1}(c) - (1 - mu) [1 - phi + phi sum_l w_l T_l(c)],

    T and U the Chebyshev polynomials: all crossings are found at once, and the least is a_c. Periodic refresh: the
    spectral radius of the cycle matrix is followed upwards until it first reaches 1, which need not be the last time.

    `rule`: its learning rate plays no part. Returns a_c per step, infinite where none is found.
    Source: theory note section 4; the crossing polynomial follows from the characteristic equation given there.
    """
    if rule.lag_schedule == "constant":
        return _least_crossing(rule)
    unit = _per_stiffness(rule)
    return _first_true(rule, lambda a: spectral_radius(unit, a) >= 1, _HIGHEST)


def ringing_stiffness(rule: UpdateRule) -> float:
    """The least a below a_c at which the slowest mode overshoots the fixed point: `phase_per_step` is positive.

    Constant lag: the dominant root becomes complex or negative. Periodic refresh: so does the root of the cycle, or its
    mode crosses zero within the cycle. Per step, infinite where the map does not ring before it is unstable.
    Source: theory note section 4.
    """
    unit = _per_stiffness(rule)
    return _first_true(rule, lambda a: phase_per_step(unit, a) > 0, critical_stiffness(rule))


def critical_learning_rate(rule: UpdateRule, curvature: ArrayLike) -> Float[np.ndarray, "..."]:
    """eta_c = a_c / kappa (heavy ball) or a_c / ((1 - mu) kappa) (EMA): the first unstable learning rate.

    `curvature`: kappa > 0, any shape. Raises `InputError` where it is not positive.
    """
    return float(rule.learning_rate) * critical_stiffness(rule) / stiffness_per_step(rule, curvature)


def critical_refresh_interval(rule: UpdateRule, curvature: ArrayLike) -> Float[np.ndarray, "..."]:
    """The largest K_ref (lag L under the constant schedule) that is stable together with every shorter one.

    All else is as in `rule`, and stable means a spectral radius below 1 at this learning rate; under the constant
    schedule, a < a_c. Infinite where no interval up to `REFRESH_LIMIT` is unstable; where even the shortest (1, or lag
    0) is, the result is one less than it.

    `curvature`: kappa > 0, any shape. Raises `InputError` where it is not positive, and for a mixed lag, which has no
    single interval to stretch.
    """
    require(
        rule.lag_weights is None,
        f"lag_weights is {rule.lag_weights}; a critical refresh interval needs a single lag. Leave lag_weights out.",
    )
    a = stiffness_per_step(rule, curvature)
    periodic = rule.lag_schedule == "periodic"
    largest = np.full(a.shape, np.inf)
    for interval in range(1 if periodic else 0, REFRESH_LIMIT + 1):
        other = dataclasses.replace(_per_stiffness(rule), refresh_interval=interval)
        still = np.isinf(largest)
        lost = spectral_radius(other, a[still]) >= 1 if periodic else a[still] >= critical_stiffness(other)
        largest[still] = np.where(lost, interval - 1.0, np.inf)
        if np.isfinite(largest).all():
            break
    return largest


def _least_crossing(rule: UpdateRule) -> float:
    """The least positive a with a root on the unit circle, under constant or mixed lag."""
    mu, phi = float(rule.momentum), float(rule.stale_fraction)
    weights = np.asarray(rule.lag_weights or (*[0.0] * rule.refresh_interval, 1.0))
    lags = np.arange(len(weights))
    felt = chebyshev.chebadd([1 - phi], phi * weights)  # real part of 1 - phi + phi W, in T_l(c)
    delayed = chebyshev.chebder(weights / np.maximum(lags, 1))  # sum_l w_l U_{l-1}, for U_{l-1} = T_l' / l
    crossing = (1 + mu) * phi * chebyshev.chebmul([1, -1], delayed)
    roots = chebyshev.chebroots(chebyshev.chebtrim(chebyshev.chebsub(crossing, (1 - mu) * felt)))
    cosines = roots.real[(abs(roots.imag) < _REAL) & (abs(roots.real) <= 1)]
    omega = np.append(np.arccos(cosines), np.pi)
    pushed = (1 + mu) * (1 - np.cos(omega)) - 1j * (1 - mu) * np.sin(omega)
    pulled = (1 - phi) + phi * np.exp(-1j * np.outer(omega, lags)) @ weights
    size = np.abs(pulled) ** 2
    a = np.real(pushed * np.conj(pulled)) / np.where(size > 0, size, np.inf)
    return float(np.min(a[a > 0], initial=np.inf))


def _first_true(
    rule: UpdateRule, condition: Callable[[Float[np.ndarray, " a"]], Bool[np.ndarray, " a"]], stop: float
) -> float:
    """The least stiffness below `stop` at which `condition` holds, to 13 digits, or infinity: a scan in octaves.

    Within a block of K_ref steps the fresh part b = a (1 - phi) of the stiffness oscillates; the scan resolves that.
    """
    mu, phi, interval = float(rule.momentum), float(rule.stale_fraction), rule.refresh_interval
    low = (1 - mu) ** 2 / (100 * (1 + abs(phi)) * (1 + interval))
    while low < stop:
        high = min(2 * low, stop)
        fresh = high * abs(1 - phi) if rule.lag_schedule == "periodic" else 0.0
        extra = 4 * interval * (math.sqrt(fresh) if fresh < 1 else interval)
        cell = np.linspace(low, high, _PER_OCTAVE + math.ceil(extra))
        while (found := np.flatnonzero(condition(cell))).size:
            first = cell[found[0]]
            before = cell[max(found[0] - 1, 0)]
            if first - before <= _DIGITS * first:
                return float(first)
            cell = np.linspace(before, first, 9)
        low = high
    return math.inf


def _per_stiffness(rule: UpdateRule) -> UpdateRule:
    """The rule whose stiffness per step is the curvature itself."""
    return dataclasses.replace(rule, learning_rate=1.0, momentum_kind="heavy_ball")
