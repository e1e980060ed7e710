"""The law of all traces of a sweep. Runs that saw the same prompts share a per-step effect u_k:

    e_rk = sqrt(v_rk) [ sqrt(c) u_k + sqrt(1 - c) eps_rk ],   u_k, eps_rk ~ N(0, 1) independent,

v_rk the sampling noise of run r at step k. Given u the runs are independent oscillators, so u could be sampled; but
the data tell it well, and a chain would have to move all of u with every parameter. Without fluctuation u_k given the
data is normal with precision 1 + n_k c/(1 - c) and a mean in closed form. So what is sampled is zeta,

    u_k = mean_k + sd_k zeta_k,   log p(y, zeta) = log p(y | u) + sum_k [log N(u_k) + log sd_k],

which integrates to the same p(y) for any mean and sd. Without fluctuation zeta is independent of everything: u is
integrated over exactly. With some, zeta remains close to a standard normal, and the target is still exact.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int
from numpyro import distributions as dist
from numpyro.distributions import constraints

from sde_grpo.likelihood import Curve, Grid, Link, OscillatorCurve, flip_variance
from sde_grpo.likelihood.curve import curve_log_likelihood
from sde_grpo.likelihood.links import to_unit
from sde_grpo.oscillator.motion import displacement


class Shared(eqx.Module):
    """What the runs of one prompt order have in common.

    - `fraction`: c in [0, 1), share of the sampling noise.
    - `zeta`: (order, step), standard normal; `order`: the prompt order of each run.
    """

    fraction: Float[Array, ""]
    zeta: Float[Array, "order step"]
    order: Int[Array, " run"]


class SweepTraces(dist.Distribution):
    """The traces of all runs of a sweep, shape (run, step), as one event.

    **Arguments**: `curve` with entries (run,); `grid` with `gap_index`, `observed` and `time` of shape (run, step);
    `shared`, or None for runs without anything in common; the `link`. With `shared`, ``log_prob`` is
    log p(y, zeta) - log p(zeta), so that it completes the prior of zeta (see above).
    """

    support = constraints.real_matrix  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
    pytree_data_fields = ("curve", "grid", "shared")
    pytree_aux_fields = ("link",)

    def __init__(
        self, curve: Curve, grid: Grid, shared: Shared | None, link: Link, *, validate_args: bool | None = None
    ) -> None:
        self.curve, self.grid, self.shared = Curve(*jnp.broadcast_arrays(*curve)), grid, shared
        self.link: Link = link
        super().__init__(event_shape=grid.observed.shape, validate_args=validate_args)

    def log_prob(self, value: Float[ArrayLike, "run step"], intermediates: list[Any] | None = None) -> Array:
        """Log density of the traces; `intermediates` is NumPyro's, and unused."""
        value, curve = jnp.asarray(value), self.curve
        completed = jnp.zeros(())
        if self.shared is not None:
            c, zeta = self.shared.fraction, self.shared.zeta
            level, x0, v0, b, k, _, flips, floor = (entry[:, None] for entry in curve)
            unit = to_unit(self.link, level + displacement(b, k, x0, v0, self.grid.time))
            noise = jnp.sqrt(flips * flip_variance(unit) + floor)
            score = jnp.where(self.grid.observed, (value - unit) / noise, 0.0)
            summed = partial(jax.ops.segment_sum, segment_ids=self.shared.order, num_segments=len(zeta))
            precision = 1 + summed(self.grid.observed.astype(float)) * c / (1 - c)
            u = summed(score) * jnp.sqrt(c) / (1 - c) / precision + zeta / jnp.sqrt(precision)
            completed = 0.5 * jnp.sum(zeta**2 - u**2 - jnp.log(precision))
            value = value - jnp.sqrt(c) * noise * u[self.shared.order]
            curve = curve._replace(flips=(1 - c) * curve.flips, floor=(1 - c) * curve.floor)
        each = _each_lane(partial(curve_log_likelihood, link=self.link), curve, self.grid, value)
        return jnp.sum(each) + completed

    def sample(self, key: Array | None, sample_shape: tuple[int, ...] = ()) -> Float[Array, "... run step"]:
        """Replicated traces: each run's mean and fluctuation, then the noise, part of it shared (u is zeta)."""
        assert key is not None
        if sample_shape:
            draw = self.sample
            for _ in sample_shape:
                draw = jax.vmap(draw)
            return draw(jax.random.split(key, sample_shape))
        key_path, key_own = jax.random.split(key)

        def one(curve: Curve, grid: Grid, key: Array) -> tuple[Array, Array]:
            trace = OscillatorCurve(curve, grid, self.link).trace
            return trace.loc + trace.gain * trace.sample_with_path(key)[1], trace.noise_variance

        keys = jax.random.split(key_path, len(self.curve.level))
        path, variance = _each_lane(one, self.curve, self.grid, keys)
        noise = jax.random.normal(key_own, self.event_shape)
        if self.shared is not None:
            c = self.shared.fraction
            noise = jnp.sqrt(c) * self.shared.zeta[self.shared.order] + jnp.sqrt(1 - c) * noise
        return path + jnp.sqrt(variance) * noise


def _each_lane(function: Any, curve: Curve, grid: Grid, more: Array) -> Any:
    """`function(curve, grid, more)` of every run; the gaps are common to all."""
    return jax.vmap(function, in_axes=(0, Grid(0, None, 0, 0), 0))(curve, grid, more)  # pyright: ignore[reportArgumentType]
