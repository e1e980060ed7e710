"""The motion of x'' + 2 b x' + k x = noise: closed-form response and exact discretisation.

Here b = C/(2M) and k = K/M. Both functions below are smooth through critical damping (b^2 = k) and do not
overflow at strong overdamping.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

# |(b^2 - k) t^2| below which the series is used: its first dropped term is then below 1e-16.
_SERIES = 0.05

# b dt and sqrt(k) dt below which the variance of x gained in a step is integrated: there the closed form cancels.
# Five Gauss-Legendre nodes on (0, 1) are then exact to 1e-14.
_SHORT = 0.1
_NODES, _WEIGHTS = ((np.polynomial.legendre.leggauss(5)[0] + 1) / 2, np.polynomial.legendre.leggauss(5)[1] / 2)


class Transition(NamedTuple):
    """x(t + dt) = F x(t) + noise of covariance Q, for the state (x, x'), entry by entry so that lanes broadcast."""

    f_xx: Float[Array, "..."]
    f_xv: Float[Array, "..."]
    f_vx: Float[Array, "..."]
    f_vv: Float[Array, "..."]
    q_xx: Float[Array, "..."]
    q_xv: Float[Array, "..."]
    q_vv: Float[Array, "..."]


def response(b: ArrayLike, k: ArrayLike, t: ArrayLike) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """c(t) = exp(-b t) cosh(d t),  s(t) = exp(-b t) sinh(d t)/d,  d^2 = b^2 - k (cos and sin where negative).

    Then x(t) = x0 c(t) + (v0 + b x0) s(t). `b` (1/step), `k` (1/step^2) and `t` >= 0 (steps) broadcast.
    Source: theory note section 3.
    """
    b, k, t = jnp.asarray(b), jnp.asarray(k), jnp.asarray(t)
    d2 = b * b - k
    u = d2 * t * t
    real, imaginary = u >= _SERIES, u <= -_SERIES
    decay = jnp.exp(-b * jnp.where(real, 0.0, t))
    series_c = 1 + u / 2 * (1 + u / 12 * (1 + u / 30 * (1 + u / 56 * (1 + u / 90))))
    series_s = t * (1 + u / 6 * (1 + u / 20 * (1 + u / 42 * (1 + u / 72 * (1 + u / 110)))))
    d = jnp.sqrt(jnp.where(real, d2, 1.0))
    # The slow rate b - d is computed as k/(b + d) where that does not cancel.
    slow_rate = jnp.where(b > 0, k / jnp.where(b > 0, b + d, 1.0), b - d)
    slow = jnp.exp(-jnp.where(real, slow_rate * t, 0.0))
    fast = jnp.exp(-jnp.where(real, (b + d) * t, 0.0))
    omega = jnp.sqrt(jnp.where(imaginary, -d2, 1.0))
    c = jnp.where(real, (slow + fast) / 2, decay * jnp.where(imaginary, jnp.cos(omega * t), series_c))
    s = jnp.where(real, (slow - fast) / (2 * d), decay * jnp.where(imaginary, jnp.sin(omega * t) / omega, series_s))
    return c, s


def displacement(b: ArrayLike, k: ArrayLike, x0: ArrayLike, v0: ArrayLike, t: ArrayLike) -> Float[Array, "..."]:
    """x(t) = x0 c(t) + (v0 + b x0) s(t): the mean trajectory about the fixed point."""
    c, s = response(b, k, t)
    return jnp.asarray(x0) * c + (jnp.asarray(v0) + jnp.asarray(b) * jnp.asarray(x0)) * s


def transition(b: ArrayLike, k: ArrayLike, stationary_sd: ArrayLike, dt: ArrayLike) -> Transition:
    """F = [[c + b s, s], [-k s, c - b s]],  Q = P - F P F',  P = stationary_sd^2 diag(1, k).

    Exact for any step `dt` >= 0 of the stable oscillator (b, k > 0). Q is written without the cancellation
    of P - F P F', with the identity c^2 - (b^2 - k) s^2 = exp(-2 b dt); over a short step, where Q_xx is of
    third order in dt and its closed form still cancels, Q_xx = 4 b k stationary_sd^2 int_0^dt s(u)^2 du.
    Source: theory note section 7.
    """
    b, k, dt = jnp.asarray(b), jnp.asarray(k), jnp.asarray(dt)
    c, s = response(b, k, dt)
    lost = -jnp.expm1(-2 * b * dt)
    variance = jnp.asarray(stationary_sd) ** 2
    short = (b * dt < _SHORT) & (k * dt * dt < _SHORT**2)
    span = jnp.where(short, dt, 0.0)
    within = response(b[..., None], k[..., None], span[..., None] * _NODES)[1]
    integrated = 4 * b * k * span * (within**2 @ _WEIGHTS)
    closed = lost - 2 * b * s * (c + b * s)
    return Transition(
        c + b * s,
        s,
        -k * s,
        c - b * s,
        variance * jnp.where(short, integrated, jnp.maximum(closed, 0.0)),
        variance * 2 * b * k * s * s,
        variance * k * (lost + 2 * b * s * (c - b * s)),
    )
