"""The exact update as an oscillator: the motion whose values at every refresh are those of the discrete map.

With x_old the value at the last refresh, and the whole stiffness felt through it (phi = 1, as in the paper), one
refresh cycle of

    v_{k+1} = mu v_k - a x_old,    x_{k+1} = x_k + v_{k+1},    a = eta kappa,

is a 2x2 matrix on (x, v). Its trace t and determinant D give the two roots, and with them, over K_ref steps,

    b = -log D / (2 K_ref),    cosh(d K_ref) = t / (2 sqrt D),    k = b^2 - d^2

of x'' + 2 b x' + k x = 0 (d imaginary where the map rings). The initial velocity is the one that reaches the map's
value after the first cycle. The truncation M, C, K of the theory note is the limit a -> 0 of this.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from sde_grpo.oscillator import response

# A root of the map that is zero (no momentum) becomes the decay e^-13.8 per cycle: it is over within one.
_LEAST_DETERMINANT = 1e-12
# Half-turns per cycle: a map that changes sign at every refresh has no smooth motion behind it.
_MOST_RINGING = -0.9
# An unstable map grows; its oscillator does so by at most this rate per unit of time, so that nothing overflows.
_FASTEST_GROWTH = 0.01


class Settings(NamedTuple):
    """What the update needs of each run, all of one shape.

    - `rate`: eta, or eta (1 - mu) for an EMA; `momentum`: mu.
    - `refresh_interval`: K_ref, optimizer steps between refreshes; `time_unit`: optimizer steps per unit of time.
    """

    rate: Float[Array, "..."]
    momentum: Float[Array, "..."]
    refresh_interval: Float[Array, "..."]
    time_unit: Float[Array, "..."]


class Motion(NamedTuple):
    """x'' + 2 b x' + k x = 0 with x'(0) = velocity x(0); rates per unit of time."""

    b: Float[Array, "..."]
    k: Float[Array, "..."]
    velocity: Float[Array, "..."]

    @property
    def relaxation_time(self) -> Float[Array, "..."]:
        """tau = 2 b / k: C/K of the theory note, the sum of the two modes' times."""
        return 2 * self.b / self.k


def _cycle(settings: Settings, curvature: ArrayLike, longest: int):
    """(x, v) after one cycle from (1, 0), then from (0, 1)."""
    a = settings.rate * jnp.asarray(curvature)
    mu = settings.momentum
    one, zero = jnp.ones_like(a * mu), jnp.zeros_like(a * mu)

    def step(index, state):
        runs = index < settings.refresh_interval

        def moved(x, v, old):
            after = mu * v - a * old
            return jnp.where(runs, x + after, x), jnp.where(runs, after, v)

        x, v, y, w = state
        return (*moved(x, v, 1.0), *moved(y, w, 0.0))

    state = (one, zero, zero, one)
    for index in range(longest):
        state = step(index, state)
    return state


def motion(settings: Settings, curvature: ArrayLike, *, longest: int) -> Motion:
    """The oscillator that meets the map at every refresh, from rest.

    `curvature` (kappa > 0) broadcasts against the settings; `longest` is the greatest K_ref
    among them, for the program is unrolled to it. Where the map changes its sign from one refresh to
    the next (beyond the reach of any smooth motion) the nearest ringing motion is returned, and where it is unstable
    one that grows by 1 % per unit of time.
    Source: theory note, section 4, "Stability"; the matching is derived here.
    """
    x, v, y, w = _cycle(settings, curvature, longest)
    determinant = jnp.maximum(x * w - y * v, _LEAST_DETERMINANT)
    span = settings.refresh_interval / settings.time_unit
    root = jnp.sqrt(determinant)
    c = jnp.maximum((x + w) / (2 * root), _MOST_RINGING)
    b = jnp.maximum(-jnp.log(determinant) / (2 * span), -_FASTEST_GROWTH)
    d2 = _squared_angle(c) / span**2
    k = b * b - d2
    at, slope = response(b, k, span)
    reached = jnp.maximum(x, _MOST_RINGING * root)
    return Motion(b, k, (reached - at) / slope - b)


def _squared_angle(c: Float[Array, "..."]) -> Float[Array, "..."]:
    """u^2 with cosh u = c: arccosh(c)^2 above 1, -arccos(c)^2 below, a series through 1."""
    e = c - 1
    near = jnp.abs(e) < 1e-3
    series = 2 * e * (1 - e / 6 * (1 - 4 * e / 15 * (1 - 9 * e / 28)))
    above = jnp.arccosh(jnp.where(near | (e < 0), 2.0, c)) ** 2
    below = jnp.arccos(jnp.where(near | (e > 0), 0.0, c)) ** 2
    return jnp.where(near, series, jnp.where(e > 0, above, -below))
