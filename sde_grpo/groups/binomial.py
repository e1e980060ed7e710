"""The number of successes of a group, k ~ Binomial(G, p), in the logit theta; p = sigmoid(theta).

Probabilities are exponentials of k log p + (n-k) log(1-p) with both logarithms taken from theta, so that neither
1 - p nor a difference of large terms ever cancels, out to |theta| of about 700.
"""

from __future__ import annotations

import math
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from sde_grpo.errors import require
from sde_grpo.precision import require_float64
from sde_grpo.ranges import require_group_size


def success_probabilities(theta: ArrayLike, group_size: int) -> Float[Array, "... group_size_plus_1"]:
    """P(k) = C(G, k) p^k (1-p)^(G-k), k = 0 ... G along a new last axis.

    **Arguments**

    - `theta`: logit of the success probability, finite, any shape.
    - `group_size`: G >= 2, completions per prompt.

    Raises `InputError` outside these ranges, where theta is known, and unless JAX computes in float64.
    """
    require_group_size(group_size)
    return jnp.exp(log_binomial(group_size, *log_probabilities(theta)))


def silent_share(theta: ArrayLike, group_size: int | None) -> Float[Array, "..."]:
    """S = p^G + (1-p)^G: the probability that all rewards of a group are equal, so that it teaches nothing.

    Arguments and `InputError` as for `success_probabilities`; `None` (many completions) gives 0.
    """
    log_p, log_q = log_probabilities(theta)
    if group_size is None:
        return jnp.zeros_like(log_p)
    require_group_size(group_size)
    return jnp.exp(group_size * log_p) + jnp.exp(group_size * log_q)


def log_probabilities(theta: ArrayLike) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """log p and log(1-p), each accurate where it is near zero. Raises `InputError` as the functions above."""
    require_float64()
    if not isinstance(theta, Tracer):
        require(bool(np.all(np.isfinite(theta))), f"theta is {theta}; a logit must be finite (p strictly in (0, 1)).")
    theta = jnp.asarray(theta, dtype=jnp.float64)
    return jax.nn.log_sigmoid(theta), jax.nn.log_sigmoid(-theta)


def log_binomial(
    n: int, log_success: Float[Array, "..."], log_failure: Float[Array, "..."]
) -> Float[Array, "... n_plus_1"]:
    """log C(n, k) + k log p + (n-k) log(1-p), k = 0 ... n along a new last axis; both logarithms must be finite."""
    k = np.arange(n + 1)
    return jnp.asarray(_log_choose(n)) + k * log_success[..., None] + (n - k) * log_failure[..., None]


@lru_cache(maxsize=64)
def _log_choose(n: int) -> Float[np.ndarray, "n_plus_1"]:
    """log C(n, k), k = 0 ... n, from whole numbers: differences of log-gammas lose digits at large n."""
    coefficients = [1]
    for k in range(n):
        coefficients.append(coefficients[-1] * (n - k) // (k + 1))
    logs = np.array([math.log(c) for c in coefficients])
    logs.flags.writeable = False
    return logs
