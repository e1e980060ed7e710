"""Stationary fluctuation of the oscillator M x'' + C x' + K x = s dW/dt: closed forms, usable inside JAX models."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from sde_grpo.errors import require
from sde_grpo.oscillator import Oscillator, response, transition
from sde_grpo.precision import require_float64


class OscillatorFluctuation(NamedTuple):
    """The stationary process x(t) of a stable oscillator; make it with `oscillator_fluctuation`.

    **Fields**

    - `oscillator`: M, C, K, any shape.
    - `noise_intensity`: s^2, the variance that the noise s W gains in one step; broadcasts against them.
    """

    oscillator: Oscillator
    noise_intensity: Float[Array, "..."]

    @property
    def temperature(self) -> Float[Array, "..."]:
        """T = s^2 / (2 C). Equipartition: M Var x' = K Var x = T."""
        return self.noise_intensity / (2 * self.oscillator.damping)

    @property
    def variance(self) -> Float[Array, "..."]:
        """Var x = T / K = s^2 / (2 C K): there is no mass in it."""
        return self.temperature / self.oscillator.stiffness

    @property
    def velocity_variance(self) -> Float[Array, "..."]:
        """Var x' = T / M."""
        return self.temperature / self.oscillator.mass

    @property
    def quality(self) -> Float[Array, "..."]:
        """Quality factor sqrt(M K) / C = sqrt(q) = 1/(2 zeta): 1/2 at critical damping."""
        return jnp.sqrt(self.oscillator.inertia_ratio)

    @property
    def resonance(self) -> Float[Array, "..."]:
        """w_max = sqrt(K/M - C^2/(2 M^2)) where the spectrum peaks, in radians per step; 0 for q <= 1/2.

        An oscillator rings from q = 1/4 on, but its spectrum has a peak only from q = 1/2 on.
        """
        m, c, k = self.oscillator
        square = k / m - (c / m) ** 2 / 2
        return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)

    def autocorrelation(self, lag: ArrayLike) -> Float[Array, "..."]:
        """r(t)/r(0) = c(|t|) + b s(|t|),  b = C/(2M), with c and s of `oscillator.response`; `lag` t in steps."""
        b, k = self._rates
        c, s = response(b, k, jnp.abs(jnp.asarray(lag)))
        return c + b * s

    def autocovariance(self, lag: ArrayLike) -> Float[Array, "..."]:
        """r(t) = (T/K) [c(|t|) + b s(|t|)]."""
        return self.variance * self.autocorrelation(lag)

    def power_spectrum(self, frequency: ArrayLike) -> Float[Array, "..."]:
        """S(w) = s^2 / ((K - M w^2)^2 + C^2 w^2), so that r(t) = (1/2 pi) int S(w) e^{i w t} dw over all w.

        `frequency`: w in radians per step. It falls to half its value at 0 near w = K/C when q is small.
        """
        m, c, k = self.oscillator
        w2 = jnp.asarray(frequency) ** 2
        return self.noise_intensity / ((k - m * w2) ** 2 + c**2 * w2)

    def sampled_spectrum(self, frequency: ArrayLike) -> Float[Array, "..."]:
        """sum over n of S(w + 2 pi n) = sum over whole h of r(h) e^{-i w h}: the spectrum of x seen once per step.

        With the exact discretisation (F, Q) over one step and z = e^{i w},

            [ Q_xx |z - F_vv|^2 + 2 Q_xv F_xv Re(z - F_vv) + Q_vv F_xv^2 ] / | (z - F_xx)(z - F_vv) - F_xv F_vx |^2.
        """
        b, k = self._rates
        f_xx, f_xv, f_vx, f_vv, q_xx, q_xv, q_vv = transition(b, k, jnp.sqrt(self.variance), 1.0)
        z = jnp.exp(1j * jnp.asarray(frequency))
        noise = q_xx * jnp.abs(z - f_vv) ** 2 + 2 * q_xv * f_xv * (z.real - f_vv) + q_vv * f_xv**2
        return noise / jnp.abs((z - f_xx) * (z - f_vv) - f_xv * f_vx) ** 2

    @property
    def _rates(self) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """b = C/(2M) and k = K/M."""
        m, c, k = self.oscillator
        return c / (2 * m), k / m


def oscillator_fluctuation(oscillator: Oscillator, noise_intensity: ArrayLike) -> OscillatorFluctuation:
    """The stationary state of M x'' + C x' + K x = s dW/dt.

    **Arguments**

    - `oscillator`: M, C, K > 0, any shape, of `reduce_update` or fitted.
    - `noise_intensity`: s^2 >= 0, eta^2 sigma_g^2 / G; for an update rule `step_noise` (once for each pass over a
      rollout, see `truncated_variance`). Scalars and arrays broadcast.

    Raises `InputError` unless M, C, K > 0 and s^2 >= 0, where their values are known (not traced), and in float32.
    Source: theory note sections 3 and 4 (paper Prop. 10).
    """
    require_float64()
    for name, value in oscillator._asdict().items():
        if not isinstance(value, Tracer):
            require(
                bool(jnp.all((value > 0) & jnp.isfinite(value))),
                f"{name} is {value}; a stationary oscillator needs mass, damping and stiffness that are positive and "
                "finite. If they come from an update rule, the lag is too long for the truncation: lower the learning "
                "rate, refresh more often, or use discrete_fluctuation, which is exact and may still be stable.",
            )
    s2 = jnp.asarray(noise_intensity)
    if not isinstance(s2, Tracer):
        require(
            bool(jnp.all((s2 >= 0) & jnp.isfinite(s2))),
            f"noise_intensity is {noise_intensity}; it must be finite and not negative.",
        )
    return OscillatorFluctuation(oscillator, s2)
