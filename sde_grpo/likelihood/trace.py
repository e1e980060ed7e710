"""The likelihood of a reward trace as a NumPyro distribution (theory note, section 7)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float
from numpyro import distributions as dist
from numpyro.distributions import constraints

from sde_grpo.likelihood.kalman import Filtered, Observations, State, kalman_filter, log_likelihood, simulate, smooth
from sde_grpo.oscillator.motion import Transition


class OscillatorTrace(dist.Distribution):
    """y_k = m_k + h_k x_k + e_k, x the fluctuation of the oscillator, e_k ~ N(0, R_k) independent.

    **Arguments**, all broadcastable to ``(..., step)``:

    - `loc`: m_k, the deterministic trajectory, in units of the reward.
    - `gain`: h_k, reward per unit of the oscillator's coordinate (1, or m(1 - m) under the logit link).
    - `noise_variance`: R_k > 0, the sampling noise.
    - `steps`: the `Transition` into each step from the one before (the first: from the start).
    - `observed`: which steps were logged; the others are integrated over.
    - `start`: the `State` before the first step; by default at rest, for the policy a run starts from is fixed.

    ``log_prob`` is the exact marginal likelihood, O(steps), lanes vectorised. Values at unobserved steps are ignored.
    """

    arg_constraints = {  # noqa: RUF012 (NumPyro's own protocol)
        "loc": constraints.real_vector,
        "gain": constraints.real_vector,
        "noise_variance": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
    pytree_data_fields = ("loc", "gain", "noise_variance", "steps", "observed", "start")

    def __init__(
        self,
        loc: Float[Array, "... step"],
        gain: Float[Array, "... step"],
        noise_variance: Float[Array, "... step"],
        steps: Transition,
        observed: Bool[Array, "... step"] | None = None,
        start: State | None = None,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.gain, self.noise_variance, _ = jnp.broadcast_arrays(loc, gain, noise_variance, steps.f_xx)
        shape = self.loc.shape
        self.steps = Transition(*(jnp.broadcast_to(entry, shape) for entry in steps))
        self.observed = jnp.broadcast_to(True if observed is None else observed, shape)
        self.start = State.at_rest(self.loc[..., 0]) if start is None else start
        super().__init__(batch_shape=shape[:-1], event_shape=shape[-1:], validate_args=validate_args)

    def _lead(self, array: Array) -> Array:
        return jnp.moveaxis(array, -1, 0)

    def _steps(self) -> Transition:
        return Transition(*(self._lead(entry) for entry in self.steps))

    def _seen(self, value: Float[Array, "... step"]) -> Observations:
        shape = jnp.broadcast_shapes(jnp.shape(value), self.loc.shape)
        fields = (value, self.loc, self.gain, self.noise_variance, self.observed)
        return Observations(*(self._lead(jnp.broadcast_to(f, shape)) for f in fields))

    def log_prob(
        self, value: Float[ArrayLike, "... step"], intermediates: list[Any] | None = None
    ) -> Float[Array, "..."]:
        """Log marginal density of the trace; `intermediates` is NumPyro's, and unused."""
        value = jnp.asarray(value)
        return log_likelihood(self._start_like(value), self._steps_like(value), self._seen(value))

    def filtered(self, value: Float[Array, "... step"]) -> Filtered:
        """One-step-ahead predictions of every step, steps leading (see `kalman_filter`)."""
        return kalman_filter(self._start_like(value), self._steps_like(value), self._seen(value))

    def _start_like(self, value: Array) -> State:
        shape = jnp.broadcast_shapes(jnp.shape(value)[:-1], self.batch_shape)
        return State(*(jnp.broadcast_to(entry, shape) for entry in self.start))

    def _steps_like(self, value: Array) -> Transition:
        shape = jnp.broadcast_shapes(jnp.shape(value), self.loc.shape)
        return Transition(*(self._lead(jnp.broadcast_to(entry, shape)) for entry in self.steps))

    def sample(self, key: Array | None, sample_shape: tuple[int, ...] = ()) -> Float[Array, "... step"]:
        """Replicated traces: the fluctuation from its law, then the sampling noise."""
        assert key is not None
        return self.sample_with_path(key, sample_shape)[0]

    def sample_with_path(
        self, key: Array, sample_shape: tuple[int, ...] = ()
    ) -> tuple[Float[Array, "... step"], Float[Array, "... step"]]:
        """Replicated traces and the fluctuations x they came from."""
        key_path, key_noise = jax.random.split(key)
        shape = (*sample_shape, *self.loc.shape)
        steps = Transition(*(self._lead(jnp.broadcast_to(entry, shape)) for entry in self.steps))
        start = State(*(jnp.broadcast_to(entry, shape[:-1]) for entry in self.start))
        path = jnp.moveaxis(simulate(key_path, start, steps)[0], 0, -1)
        noise = jnp.sqrt(self.noise_variance) * jax.random.normal(key_noise, shape, self.loc.dtype)
        return self.loc + self.gain * path + noise, path

    def conditional_path(self, key: Array, value: Float[Array, "... step"]) -> Float[Array, "... step"]:
        """One draw of the fluctuation x given the trace, at every step (also unobserved and future ones).

        x* + E[x | y - y*], with (x*, y*) drawn from the law itself: Durbin and Koopman (2002),
        doi:10.1093/biomet/89.3.603.
        """
        replicate, path = self.sample_with_path(key)
        centred = OscillatorTrace(
            jnp.zeros_like(self.loc), self.gain, self.noise_variance, self.steps, self.observed, self.start
        )
        filtered = centred.filtered(value - replicate)
        correction, _ = smooth(self._steps(), filtered)
        return path + jnp.moveaxis(correction, 0, -1)
