"""Paths of a linear force drawn from the exact transition over one step: no solver, no step-size error."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

from sde_grpo.errors import InputError, require
from sde_grpo.oscillator import Transition, response, transition
from sde_grpo.precision import require_float64
from sde_grpo.ranges import require_count
from sde_grpo.sde.ensemble import Paths
from sde_grpo.sde.forces import LinearForce, require_known
from sde_grpo.sde.motion import Motion

# Gauss-Legendre on (0, 1).
_NODES, _WEIGHTS = ((np.polynomial.legendre.leggauss(32)[0] + 1) / 2, np.polynomial.legendre.leggauss(32)[1] / 2)


def exact_transition(force: LinearForce, motion: Motion, dt: ArrayLike = 1.0) -> Transition:
    """F = expm(A dt),  Q = int_0^dt expm(A u) diag(0, (s/M)^2) expm(A u)' du,  A = [[0, 1], [-K/M, -C/M]].

    K = eta kappa and s = eta sigma_g / sqrt(G). For C > 0 Q comes from the stationary law without cancellation
    (`oscillator.transition`), for C <= 0 by Gauss-Legendre quadrature, exact to rounding for
    |C| dt/M < 20. Without a mass x alone moves: F = exp(-K dt/C), Q = s^2/(2 C K) (1 - F^2), and the entries of the
    velocity are zero. All values may be arrays, and traced.

    `dt` >= 0 is in optimizer steps. Raises `InputError` where it is known and is not. Source: theory note section 7.
    """
    require_known("dt", dt, lambda x: x >= 0, "finite and not negative")
    stiffness, noise = motion.learning_rate * jnp.asarray(force.curvature), _step_noise(force, motion)
    if motion.mass is None:
        rate = stiffness / motion.damping
        zero = jnp.zeros(jnp.broadcast_shapes(jnp.shape(rate), jnp.shape(noise), jnp.shape(dt)))
        q_xx = -jnp.expm1(-2 * rate * dt) * noise**2 / (2 * motion.damping * stiffness)
        return Transition(jnp.exp(-rate * dt) + zero, zero, zero, zero, q_xx + zero, zero, zero)
    b, k = jnp.asarray(motion.damping) / (2 * motion.mass), stiffness / motion.mass
    intensity = (noise / motion.mass) ** 2
    b, k, intensity, dt = jnp.broadcast_arrays(b, k, intensity, jnp.asarray(dt, dtype=float))
    stable = b > 0
    safe = jnp.where(stable, b, 1.0)
    closed = transition(safe, k, jnp.sqrt(intensity / (4 * safe * k)), dt)
    integrated = _integrated(jnp.where(stable, 0.0, b), k, intensity, dt)
    return Transition(*(jnp.where(stable, a, z) for a, z in zip(closed, integrated, strict=True)))


def sample_exact(
    force: LinearForce,
    motion: Motion,
    *,
    key: PRNGKeyArray,
    steps: int,
    chains: int = 1,
    start: ArrayLike | None = None,
    velocity: ArrayLike = 0.0,
) -> Paths:
    """`chains` independent paths of M x'' + C x' + K x = s dW/dt on the step grid, exact in law, in any regime.

    **Arguments**

    - `force`, `motion`: a linear force; with a mass C may have any sign.
    - `key`: a JAX random key.
    - `steps`, `chains`: at least 1.
    - `start`, `velocity`: x = p - p* and its rate per step at step 0, numbers or ``(chain,)``. Without a start both are
      drawn from the stationary law, Var x = T/K, Var v = T/M, T = s^2/(2 C).

    Raises `InputError` outside these ranges, where a stationary start is asked for and C <= 0, in float32, and for a
    path that overflows. Safe under jit and vmap.
    """
    require_float64()
    require_count("steps", steps, 1)
    require_count("chains", chains, 1)
    require_known("velocity", velocity, lambda x: x == x, "finite")
    if start is None:
        require_stationary(motion)
    else:
        require_known("start", start, lambda x: x == x, "finite")
    theta, rate = _sample(force, motion, key, start, velocity, steps, chains)
    if not isinstance(theta, Tracer):
        require(
            bool(jnp.all(jnp.isfinite(theta[:, -1]))),
            f"The paths overflow within {steps} steps: damping is {motion.damping}, so they grow. Take fewer steps, "
            "shorten the refresh interval or lower the learning rate.",
        )
    return Paths(theta, None if motion.mass is None else rate, force.reward(theta))


def require_stationary(motion: Motion) -> None:
    """Raise `InputError` where the damping is known and not positive: there is no stationary law then."""
    try:
        require_known("damping", motion.damping, lambda x: x > 0, "positive")
    except InputError:
        raise InputError(
            f"damping is {motion.damping}; a stationary state needs it positive. Give a start, shorten the refresh "
            "interval or lower the learning rate."
        ) from None


@partial(jax.jit, static_argnames=("steps", "chains"))
def _sample(
    force: LinearForce,
    motion: Motion,
    key: PRNGKeyArray,
    start: ArrayLike | None,
    velocity: ArrayLike,
    steps: int,
    chains: int,
) -> tuple[Float[Array, "chain step"], Float[Array, "chain step"]]:
    step = exact_transition(force, motion)
    key_start, key_steps = jax.random.split(key)
    if start is None:
        temperature = _step_noise(force, motion) ** 2 / (2 * motion.damping)
        inertia = jnp.inf if motion.mass is None else motion.mass
        spread = jnp.stack([temperature / (motion.learning_rate * force.curvature), temperature / inertia])
        x, v = jnp.sqrt(spread)[:, None] * jax.random.normal(key_start, (2, chains))
    else:
        x, v = (jnp.broadcast_to(jnp.asarray(value, dtype=float), (chains,)) for value in (start, velocity))
    # Cholesky factor of Q, entry by entry; a Q of zero has a factor of zero.
    l_xx = jnp.sqrt(step.q_xx)
    l_vx = jnp.where(l_xx > 0, step.q_xv / jnp.where(l_xx > 0, l_xx, 1.0), 0.0)
    l_vv = jnp.sqrt(jnp.maximum(step.q_vv - l_vx**2, 0.0))

    def advance(state: tuple[Array, Array], key: PRNGKeyArray) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        x, v = state
        e1, e2 = jax.random.normal(key, (2, chains))
        after = (step.f_xx * x + step.f_xv * v + l_xx * e1, step.f_vx * x + step.f_vv * v + l_vx * e1 + l_vv * e2)
        return after, after

    _, (xs, vs) = jax.lax.scan(advance, (x, v), jax.random.split(key_steps, steps))
    return jnp.vstack([x[None], xs]).T, jnp.vstack([v[None], vs]).T


def _step_noise(force: LinearForce, motion: Motion) -> Float[Array, "..."]:
    """s = eta sigma_g / sqrt(G)."""
    return (
        motion.learning_rate * jnp.asarray(force.gradient_noise) / jnp.sqrt(jnp.asarray(force.group_size, dtype=float))
    )


def _integrated(
    b: Float[Array, "..."], k: Float[Array, "..."], intensity: Float[Array, "..."], dt: Float[Array, "..."]
) -> Transition:
    """F in closed form, Q as its integral, a sum of positive terms: for growing motion, where nothing decays fast."""
    c, s = response(b, k, dt)
    within_c, within_s = response(b[..., None], k[..., None], dt[..., None] * _NODES)
    rate = within_c - b[..., None] * within_s
    q_xx, q_vv = (intensity * dt * (column**2 @ _WEIGHTS) for column in (within_s, rate))
    return Transition(c + b * s, s, -k * s, c - b * s, q_xx, intensity * s * s / 2, q_vv)
