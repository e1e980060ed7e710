"""What the oscillator, a truncation at second order in step and lag, says of the map's stationary variance."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from sde_grpo.fluctuation.block import steps_per_rollout
from sde_grpo.fluctuation.discrete import discrete_fluctuation
from sde_grpo.fluctuation.langevin import oscillator_fluctuation
from sde_grpo.oscillator import UpdateRule, reduce_update


def truncated_variance(
    rule: UpdateRule, curvature: ArrayLike, noise_variance: ArrayLike = 1.0, *, epochs: int = 1
) -> Float[Array, "..."]:
    """Var x = s^2/(2 C K) sum_{|m| < E} (1 - |m|/E) rho(m n),    E = epochs,  n = K_ref / E mini-batches.

    rho is the autocorrelation of the oscillator. With a fresh noise at every step (E = 1) this is T/K. A rollout passed
    over E times repeats its noises every n steps, and the sum adds up what they do together: E T/K while the block is
    short against the memory of the oscillator, less beyond.

    **Arguments**

    - `rule`, `epochs`: as for `discrete_fluctuation`.
    - `curvature`: kappa > 0, any shape. `noise_variance`: s^2 of one step, broadcast against it.

    Raises `InputError` where epochs does not divide K_ref or an oscillator has no stationary state.
    Source: theory note section 3; the sum derived here, Var x = (1/2 pi) int S_noise(w) / |K - M w^2 + i C w|^2 dw.
    """
    batches = steps_per_rollout(rule, epochs) // epochs
    fluctuation = oscillator_fluctuation(reduce_update(rule, jnp.asarray(curvature)), noise_variance)
    total = 1.0
    for m in range(1, epochs):
        total += 2 * (1 - m / epochs) * fluctuation.autocorrelation(m * batches)
    return fluctuation.variance * total


def truncation_error(rule: UpdateRule, curvature: float, *, epochs: int = 1) -> float:
    """truncated variance / exact variance - 1 = -a/(2 (1 + mu)) + O(a^2 K_ref^2/(1 - mu)^2) for epochs = 1.

    The first-order term is common to both schedules and every lag: noise that comes once per step, not continuously,
    spreads a little further. Under reuse it is smaller. Raises `InputError` as `discrete_fluctuation` and
    `truncated_variance` do.
    """
    exact = discrete_fluctuation(rule, curvature, epochs=epochs).variance
    return float(np.asarray(truncated_variance(rule, curvature, epochs=epochs))) / exact - 1
