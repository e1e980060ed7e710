"""Kalman filter and smoother of the oscillator seen through a scalar observation.

    y_k = m_k + h_k x_k + e_k,   (x, x')_k = F_k (x, x')_{k-1} + noise(Q_k),   e_k ~ N(0, R_k).

The state has two entries, so every product is written out: the scan then carries five numbers a lane and
nothing is inverted. Steps are the leading axis; all other axes are lanes (chains, draws, runs).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from sde_grpo.oscillator.motion import Transition


class State(NamedTuple):
    """Mean (x, v) and covariance (xx, xv, vv) of displacement and velocity."""

    x: Float[Array, "..."]
    v: Float[Array, "..."]
    xx: Float[Array, "..."]
    xv: Float[Array, "..."]
    vv: Float[Array, "..."]

    @classmethod
    def at_rest(cls, like: Float[Array, "..."]) -> State:
        """No displacement, no velocity, no uncertainty: the policy at the first logged step is what it is."""
        return cls(*(jnp.zeros_like(like),) * 5)

    @classmethod
    def stationary(cls, stationary_sd: Float[Array, "..."], k: Float[Array, "..."]) -> State:
        """The stationary law: variances T/K and (T/K)(K/M) = T/M."""
        zero = jnp.zeros_like(stationary_sd * k)
        return cls(zero, zero, zero + stationary_sd**2, zero, zero + stationary_sd**2 * k)


class Observations(NamedTuple):
    """What is seen at each step: reward, mean m, gain h, noise variance R, and whether the step was logged."""

    reward: Float[Array, "step ..."]
    mean: Float[Array, "step ..."]
    gain: Float[Array, "step ..."]
    noise_variance: Float[Array, "step ..."]
    observed: Bool[Array, "step ..."]


class Filtered(NamedTuple):
    """One-step-ahead mean and variance of each reward, the state after each step, and its log density."""

    mean: Float[Array, "step ..."]
    variance: Float[Array, "step ..."]
    log_density: Float[Array, "step ..."]
    state: State


def predict(state: State, t: Transition) -> State:
    """The state one step on, before the step's reward is seen."""
    a = t.f_xx * state.xx + t.f_xv * state.xv
    b = t.f_xx * state.xv + t.f_xv * state.vv
    c = t.f_vx * state.xx + t.f_vv * state.xv
    d = t.f_vx * state.xv + t.f_vv * state.vv
    return State(
        t.f_xx * state.x + t.f_xv * state.v,
        t.f_vx * state.x + t.f_vv * state.v,
        a * t.f_xx + b * t.f_xv + t.q_xx,
        a * t.f_vx + b * t.f_vv + t.q_xv,
        c * t.f_vx + d * t.f_vv + t.q_vv,
    )


def _update(state: State, seen: Observations) -> tuple[State, tuple[Array, Array, Array]]:
    h = seen.gain
    mean = seen.mean + h * state.x
    variance = h * h * state.xx + seen.noise_variance
    residual = jnp.where(seen.observed, seen.reward - mean, 0.0)
    weight = jnp.where(seen.observed, h / variance, 0.0)
    gain_x, gain_v = state.xx * weight, state.xv * weight
    log_density = jnp.where(seen.observed, -0.5 * (residual**2 / variance + jnp.log(2 * jnp.pi * variance)), 0.0)
    new = State(
        state.x + gain_x * residual,
        state.v + gain_v * residual,
        state.xx - gain_x * h * state.xx,
        state.xv - gain_x * h * state.xv,
        state.vv - gain_v * h * state.xv,
    )
    return new, (mean, variance, log_density)


def log_likelihood(start: State, steps: Transition, seen: Observations) -> Float[Array, "..."]:
    """Log marginal density of all observed rewards, O(steps)."""

    def step(carry, inputs):
        t, obs = inputs
        state, (_, _, log_density) = _update(predict(carry[0], t), obs)
        return (state, carry[1] + log_density), None

    (_, total), _ = jax.lax.scan(step, (start, jnp.zeros_like(start.x)), (steps, seen), unroll=1)
    return total


def kalman_filter(start: State, steps: Transition, seen: Observations) -> Filtered:
    """One-step-ahead predictions and filtered states of every step."""

    def step(state, inputs):
        t, obs = inputs
        state, ahead = _update(predict(state, t), obs)
        return state, (*ahead, state)

    _, (mean, variance, log_density, states) = jax.lax.scan(step, start, (steps, seen))
    return Filtered(mean, variance, log_density, states)


def smooth(steps: Transition, filtered: Filtered) -> tuple[Float[Array, "step ..."], Float[Array, "step ..."]]:
    """Posterior mean and variance of the displacement x at every step, given all rewards (RTS)."""
    following = jax.tree.map(lambda a: a[1:], steps)
    last = jax.tree.map(lambda a: a[-1], filtered.state)
    before = jax.tree.map(lambda a: a[:-1], filtered.state)

    def step(later: State, inputs):
        state, t = inputs
        ahead = predict(state, t)
        # Gain G = P F' (F P F' + Q)^-1, the inverse of a 2x2 written out; a state without uncertainty has gain 0.
        c_xx = state.xx * t.f_xx + state.xv * t.f_xv
        c_xv = state.xx * t.f_vx + state.xv * t.f_vv
        c_vx = state.xv * t.f_xx + state.vv * t.f_xv
        c_vv = state.xv * t.f_vx + state.vv * t.f_vv
        det = ahead.xx * ahead.vv - ahead.xv**2
        inverse = jnp.where(det > 0, 1.0 / jnp.where(det > 0, det, 1.0), 0.0)
        g_xx = (c_xx * ahead.vv - c_xv * ahead.xv) * inverse
        g_xv = (c_xv * ahead.xx - c_xx * ahead.xv) * inverse
        g_vx = (c_vx * ahead.vv - c_vv * ahead.xv) * inverse
        g_vv = (c_vv * ahead.xx - c_vx * ahead.xv) * inverse
        d_x, d_v = later.x - ahead.x, later.v - ahead.v
        d_xx, d_xv, d_vv = later.xx - ahead.xx, later.xv - ahead.xv, later.vv - ahead.vv
        new = State(
            state.x + g_xx * d_x + g_xv * d_v,
            state.v + g_vx * d_x + g_vv * d_v,
            state.xx + g_xx**2 * d_xx + 2 * g_xx * g_xv * d_xv + g_xv**2 * d_vv,
            state.xv + g_xx * g_vx * d_xx + (g_xx * g_vv + g_xv * g_vx) * d_xv + g_xv * g_vv * d_vv,
            state.vv + g_vx**2 * d_xx + 2 * g_vx * g_vv * d_xv + g_vv**2 * d_vv,
        )
        return new, (new.x, new.xx)

    _, (x, xx) = jax.lax.scan(step, last, (before, following), reverse=True)
    return jnp.concatenate([x, last.x[None]]), jnp.concatenate([xx, last.xx[None]])


def simulate(key: Array, start: State, steps: Transition) -> tuple[Float[Array, "step ..."], State]:
    """One path of the displacement x drawn from its law, and the state at its end (known exactly)."""
    shape = jnp.broadcast_shapes(start.x.shape, steps.f_xx.shape[1:])
    normal = jax.random.normal(key, (steps.f_xx.shape[0] + 1, 2, *shape), dtype=steps.f_xx.dtype)

    def draw(state: State, z: Float[Array, "2 ..."]) -> State:
        sd = jnp.sqrt(jnp.maximum(state.xx, 0.0))
        slope = state.xv / jnp.where(sd > 0, sd, 1.0)
        rest = jnp.sqrt(jnp.maximum(state.vv - slope**2, 0.0))
        zero = jnp.zeros(shape, steps.f_xx.dtype)
        return State(state.x + sd * z[0], state.v + slope * z[0] + rest * z[1], zero, zero, zero)

    def step(state, inputs):
        t, z = inputs
        state = draw(predict(state, t), z)
        return state, state.x

    end, x = jax.lax.scan(step, draw(start, normal[0]), (steps, normal[1:]))
    return x, end
