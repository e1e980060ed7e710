"""The trace of an oscillator about its own mean curve: one pass over the steps does everything.

Mean curve and fluctuation obey the same transition, so the filter carries the curve along instead of reading it from
memory. The result is that of `OscillatorTrace` on the same curve, to rounding; this form is several times faster, and
its memory does not grow with the number of steps.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int
from numpyro import distributions as dist
from numpyro.distributions import constraints

from sde_grpo.likelihood.kalman import State
from sde_grpo.likelihood.links import Link, gain, to_unit
from sde_grpo.likelihood.trace import OscillatorTrace
from sde_grpo.oscillator.motion import Transition, displacement, transition

_BLOCK = (
    16  # steps whose variances are multiplied before one logarithm, and between which nothing is kept for gradients
)


class Curve(NamedTuple):
    """The unknowns of one trace; all scalars, or all lanes of one shape.

    - `level`: z*, the fixed point in the coordinate of the link; `displacement`, `velocity`: x(0), x'(0) about it.
    - `b`, `k`: C/(2M) and K/M (1/step and 1/step^2); `stationary_sd`: sqrt(T/K), of either sign.
    - `flips`, `floor`: the noise variance of a reward of mean u is flips * flip_variance(u) + floor.
    """

    level: Float[Array, "..."]
    displacement: Float[Array, "..."]
    velocity: Float[Array, "..."]
    b: Float[Array, "..."]
    k: Float[Array, "..."]
    stationary_sd: Float[Array, "..."]
    flips: Float[Array, "..."]
    floor: Float[Array, "..."]


class Grid(NamedTuple):
    """The steps: `time` since the first, the distinct `gaps`, which of them leads into each step, which are seen.

    `gaps` increase from 0, the gap into the first step, and `gap_index` points into them.
    """

    time: Float[Array, " step"]
    gaps: Float[Array, " gap"]
    gap_index: Int[Array, " step"]
    observed: Bool[Array, " step"]


def flip_variance(unit: Float[Array, "..."]) -> Float[Array, "..."]:
    """u (1 - u), kept smoothly positive where an identity link leaves [0, 1]."""
    product = unit * (1 - unit)
    return 0.5 * (product + jnp.sqrt(product**2 + 4e-6))


def curve_log_likelihood(curve: Curve, grid: Grid, reward: Float[Array, " step"], link: Link) -> Float[Array, ""]:
    """log p(y_1 ... y_n) of `OscillatorTrace` for one `Curve` of scalars, O(steps); vmap it over lanes.

    The first step has no uncertainty in its state. Gradients recompute blocks of steps instead of keeping them.
    """
    uniform = grid.gaps.shape[0] == 2  # 0 and one other: the transition is the same throughout
    steps = transition(curve.b, curve.k, curve.stationary_sd, grid.gaps[1] if uniform else grid.gaps)

    def step(carry, inputs):
        mx, mv, x, v, xx, xv, vv, squares, product = carry
        y, seen, index = inputs
        t = steps if uniform else Transition(*(entry[index] for entry in steps))
        unit = to_unit(link, curve.level + mx)
        h = gain(link, unit)
        variance = h * h * xx + curve.flips * flip_variance(unit) + curve.floor
        residual = y - unit - h * x
        weight = seen / variance
        gain_x, gain_v = xx * h * weight, xv * h * weight
        x, v = x + gain_x * residual, v + gain_v * residual
        vv = vv - gain_v * h * xv
        xx, xv = xx - gain_x * h * xx, xv - gain_x * h * xv
        a, b = t.f_xx * xx + t.f_xv * xv, t.f_xx * xv + t.f_xv * vv
        c, d = t.f_vx * xx + t.f_vv * xv, t.f_vx * xv + t.f_vv * vv
        return (
            t.f_xx * mx + t.f_xv * mv,
            t.f_vx * mx + t.f_vv * mv,
            t.f_xx * x + t.f_xv * v,
            t.f_vx * x + t.f_vv * v,
            a * t.f_xx + b * t.f_xv + t.q_xx,
            a * t.f_vx + b * t.f_vv + t.q_xv,
            c * t.f_vx + d * t.f_vv + t.q_vv,
            squares + residual * residual * weight,
            product * jnp.where(seen > 0, 2 * jnp.pi * variance, 1.0),
        ), None

    @partial(jax.checkpoint, prevent_cse=False)
    def block(carry, inputs):
        state, total = carry
        zero = jnp.zeros_like(total)
        (*state, squares, product), _ = jax.lax.scan(step, (*state, zero, zero + 1), inputs)
        return (tuple(state), total - 0.5 * (squares + jnp.log(product))), None

    short = -len(reward) % _BLOCK
    seen = grid.observed.astype(reward.dtype)
    onward = jnp.append(grid.gap_index[1:], 0)  # the gap that follows each step
    rows = tuple(
        jnp.pad(a, (0, short)).reshape(-1, _BLOCK) for a in (jnp.where(grid.observed, reward, 0.0), seen, onward)
    )
    zero = jnp.zeros_like(curve.level + curve.b)
    start = (zero + curve.displacement, zero + curve.velocity, zero, zero, zero, zero, zero)
    (_, total), _ = jax.lax.scan(block, (start, zero), rows)
    return total


class OscillatorCurve(dist.Distribution):
    """y_k = u_k + h_k x_k + e_k about the curve z(t) = z* + x(t) of an oscillator, u and h through the link.

    **Arguments**: a `Curve` of scalars or lanes, the `Grid` of steps, and the `link`. It is the `OscillatorTrace` that
    `trace` returns, with a faster ``log_prob``. Values at unobserved steps are ignored.
    """

    support = constraints.real_vector  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
    pytree_data_fields = ("curve", "grid")
    pytree_aux_fields = ("link",)

    def __init__(self, curve: Curve, grid: Grid, link: Link, *, validate_args: bool | None = None) -> None:
        self.curve = Curve(*jnp.broadcast_arrays(*curve))
        self.grid = grid
        self.link: Link = link
        super().__init__(batch_shape=self.curve.level.shape, event_shape=grid.time.shape, validate_args=validate_args)

    @property
    def trace(self) -> OscillatorTrace:
        """The same law with the curve laid out step by step."""
        level, x0, v0, b, k, sd, flips, floor = (entry[..., None] for entry in self.curve)
        unit = to_unit(self.link, level + displacement(b, k, x0, v0, self.grid.time))
        steps = transition(b, k, sd, self.grid.gaps)
        between = Transition(*(jnp.broadcast_to(e, unit.shape[:-1] + self.grid.gaps.shape) for e in steps))
        return OscillatorTrace(
            unit,
            gain(self.link, unit),
            flips * flip_variance(unit) + floor,
            Transition(*(entry[..., self.grid.gap_index] for entry in between)),
            self.grid.observed,
            State.at_rest(unit[..., 0]),
        )

    def log_prob(
        self, value: Float[ArrayLike, "... step"], intermediates: list[Any] | None = None
    ) -> Float[Array, "..."]:
        """Log marginal density of the trace; `intermediates` is NumPyro's, and unused."""
        one = partial(curve_log_likelihood, grid=self.grid, link=self.link)
        value = jnp.asarray(value)
        shape = jnp.broadcast_shapes(value.shape[:-1], self.batch_shape)
        lanes = Curve(*(jnp.broadcast_to(entry, shape).reshape(-1) for entry in self.curve))
        rewards = jnp.broadcast_to(value, (*shape, *self.event_shape)).reshape(-1, *self.event_shape)
        return jax.vmap(lambda c, y: one(c, reward=y))(lanes, rewards).reshape(shape)

    def sample(self, key: Array | None, sample_shape: tuple[int, ...] = ()) -> Float[Array, "... step"]:
        """Replicated traces."""
        return self.trace.sample(key, sample_shape)
