"""An integrator for one autonomous equation y' = f(y), made for relaxations: no step limit, small to compile."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_STEPS = 400
_TAYLOR_TERMS = 14


def integrate(
    drift: Callable[[Float[Array, ""]], Float[Array, ""]], start: Float[Array, ""], times: Float[Array, "row"]
) -> Float[Array, "row"]:
    """y at `times` >= 0, in any order, from y(0) = `start`.

    Exponential Rosenbrock steps of order 4 (Hochbruck and Ostermann, doi:10.1017/S0962492910000048, "exprb43"): exact
    where f is linear, so they follow a relaxation over any number of relaxation times. The 400 steps lengthen in
    proportion to sqrt(t), and cubic Hermite pieces join them. Differentiable in both modes, and under vmap.
    """
    last = jnp.max(times)
    last = jnp.where(last > 0, last, 1.0)
    nodes = last * (jnp.arange(_STEPS + 1) / _STEPS) ** 2

    def step(y: Array, h: Array) -> tuple[Array, tuple[Array, Array]]:
        f, slope = jax.jvp(drift, (y,), (jnp.ones_like(y),))
        half, full = _phi(h * slope / 2)[0], _phi(h * slope)

        def remainder(at: Array) -> Array:  # f less its linear part at y
            return drift(at) - f - slope * (at - y)

        middle = remainder(y + h / 2 * half * f)
        end = remainder(y + h * full[0] * (f + middle))
        third, fourth = full[2], full[3]
        change = full[0] * f + (16 * third - 48 * fourth) * middle + (12 * fourth - 2 * third) * end
        return y + h * change, (y, f)

    final, (values, slopes) = jax.lax.scan(step, start, jnp.diff(nodes))
    values, slopes = jnp.append(values, final), jnp.append(slopes, drift(final))
    fraction = jax.lax.stop_gradient(times / last)
    cell = jnp.minimum((_STEPS * jnp.sqrt(fraction)).astype(int), _STEPS - 1)
    h = nodes[cell + 1] - nodes[cell]
    u = (times - nodes[cell]) / h
    low, high = values[cell], values[cell + 1]
    bulge = (1 - u) * h * slopes[cell] - u * h * slopes[cell + 1] - (1 - 2 * u) * (high - low)
    return low + u * (high - low) + u * (1 - u) * bulge


def _phi(x: Float[Array, ""]) -> list[Float[Array, ""]]:
    """phi_1 ... phi_4, with phi_0 = exp, phi_k = (phi_{k-1} - 1/(k-1)!)/x; where that cancels, down from a series."""
    near = jnp.abs(x) < 1
    small, large = jnp.where(near, x, 0.0), jnp.where(near, 1.0, x)
    series = jnp.zeros_like(x)
    for j in reversed(range(_TAYLOR_TERMS)):
        series = series * small + 1 / math.factorial(j + 4)
    down = [series]
    for k in (3, 2, 1):
        down.append(1 / math.factorial(k) + small * down[-1])
    up = [jnp.expm1(large) / large]
    for k in (1, 2, 3):
        up.append((up[-1] - 1 / math.factorial(k)) / large)
    return [jnp.where(near, below, above) for below, above in zip(reversed(down), up, strict=True)]
