"""How far from the fixed point the exponential holds: the anchored mean law against its linearisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from scipy.optimize import root_scalar

from sde_grpo.errors import require
from sde_grpo.fixed_points.laws import anchored
from sde_grpo.fixed_points.points import DEFAULT_RULE, FixedPoint, plateau
from sde_grpo.fixed_points.ratio import signal_ratio_derivatives
from sde_grpo.groups import GroupRule
from sde_grpo.precision import require_float64

_TIMES = np.concatenate([np.linspace(0, 3, 61), np.linspace(3.2, 12, 45)])  # in relaxation times; the peak is near 1
_LEAST_P = 1e-4  # no start below this, or as close to 1, is tried


class ExponentialRange(NamedTuple):
    """Distances in p, below and above p*, within which the exponential is good to the tolerance.

    - `below`, `above`: from the integrated law; at most the distance to p = 1e-4 and to 1 - 1e-4.
    - `leading_order`: 4 kappa tolerance/|b|, the same on both sides.
    """

    below: float
    above: float
    leading_order: float


def linearised(t: ArrayLike, p_start: ArrayLike, learning_rate: ArrayLike, point: FixedPoint) -> Float[Array, "..."]:
    """p(t) = p* + (p_start - p*) exp(-eta kappa t): the saturation law, to first order in the distance.

    `t` in steps; all broadcast. Source: theory note section 4, consequence 1.
    """
    decay = jnp.exp(-jnp.asarray(learning_rate) * point.curvature * jnp.asarray(t))
    return point.p + (jnp.asarray(p_start) - point.p) * decay


def second_order(point: FixedPoint, group_size: int | None = None, rule: GroupRule = DEFAULT_RULE) -> float:
    """b in dx/dt = eta (-kappa x + b x^2 + ...), x = p - p*:  b = [3 (2p* - 1) kappa/w* + R''(theta*)]/2.

    To that order x(t) is off the exponential by (b x0^2/kappa)(e^-u - e^-2u), u = eta kappa t: at most |b| x0/(4 kappa)
    of the distance x0, at u = ln 2. `group_size` and `rule` must be those of `point`. Derived here.
    """
    bend = float(signal_ratio_derivatives(point.theta, group_size, rule).bend)
    return (3 * (2 * point.p - 1) * point.curvature / (point.p * (1 - point.p)) + bend) / 2


def exponential_range(
    tolerance: float,
    p_ref: float,
    kl_weight: float,
    group_size: int | None = None,
    rule: GroupRule = DEFAULT_RULE,
) -> ExponentialRange:
    """The largest |p_start - p*| with max_t |p(t) - exponential(t)| <= tolerance |p_start - p*|, below and above p*.

    The exponential is `linearised`, the rate kappa and not a fitted one; the learning rate drops out.

    - `tolerance`: in (0, 1), e.g. 0.05.
    - other arguments as for `plateau`.

    Raises `InputError` for a tolerance out of range and as `plateau`. Derived here.
    """
    require_float64()
    require(0 < tolerance < 1, f"tolerance is {tolerance}; it must lie strictly between 0 and 1.")
    point = plateau(p_ref, kl_weight, group_size, rule)
    times = jnp.asarray(_TIMES / point.curvature)

    def excess(start: float) -> float:
        law = anchored(times, start, 1.0, p_ref, kl_weight, group_size, rule)
        error = jnp.abs(law - linearised(times, start, 1.0, point)).max()
        return float(error) / abs(start - point.p) - tolerance

    leading = 4 * point.curvature * tolerance / abs(second_order(point, group_size, rule))
    return ExponentialRange(_reach(excess, point.p, _LEAST_P), _reach(excess, point.p, 1 - _LEAST_P), leading)


def _reach(excess: Callable[[float], float], p: float, limit: float) -> float:
    """Distance from p towards `limit` at which `excess` turns positive, or all of it."""
    edges = p + (limit - p) * np.linspace(0.02, 1, 50)
    last = p + (limit - p) * 1e-3
    for edge in edges:
        if excess(float(edge)) > 0:
            return abs(root_scalar(excess, bracket=(last, float(edge)), xtol=1e-7).root - p)
        last = float(edge)
    return abs(limit - p)
