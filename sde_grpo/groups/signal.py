"""Drift and noise of a finite group as exact binomial sums, in the logit theta; p = sigmoid(theta), w = p(1-p).

All functions are pure JAX in float64, of any shape of theta, and safe under jit, vmap and grad, out to |theta| of
about 700 (beyond, w itself is no longer a float64); `group_size` and `rule` are static.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from sde_grpo.groups.binomial import log_binomial, log_probabilities
from sde_grpo.groups.rule import DEFAULT_RULE, GroupRule, signal_values


class GroupSignal(NamedTuple):
    """Mean and variance of the gradient with respect to the logit; both of the shape of theta."""

    mean: Float[Array, "..."]
    variance: Float[Array, "..."]

    @property
    def sd(self) -> Float[Array, "..."]:
        """sqrt(variance), the noise of an SDE; its derivative is 0, not NaN, where there is no noise at all.

        That is so for many completions, and for G = 2 and 3 without silent groups, whose live groups are all alike.
        """
        noisy = self.variance > 0
        return jnp.where(noisy, jnp.sqrt(jnp.where(noisy, self.variance, 1.0)), 0.0)


def group_signal(theta: ArrayLike, group_size: int | None, rule: GroupRule = DEFAULT_RULE) -> GroupSignal:
    """E s and Var s of s(k), k ~ Binomial(G, p): drift and noise of one group; P groups divide the variance by P.

    With ``silent="drop"`` the moments are conditional on 0 < k < G,

        E[s | live] = E s/(1-S),   Var[s | live] = (Var s - S E[s | live] E s)/(1-S),   S = p^G + (1-p)^G,

    computed from the conditional distribution itself. The drift then no longer vanishes as p -> 0 or 1, but tends to
    s(1). This is exact for a batch refilled to P live groups; for one that is not, see `unreplaced_signal`.

    **Arguments**

    - `theta`: logit of the success probability, finite, any shape.
    - `group_size`: G >= 2, completions per prompt, or `None` for many: mean w^h (h = 1/2 with a standard
      deviation, 1 without), variance 0.
    - `rule`: how rewards become advantages.

    Raises `InputError` outside these ranges, where theta is known, and unless JAX computes in float64.
    Source: theory note section 5, "Finite G".
    """
    log_p, log_q = log_probabilities(theta)
    if group_size is None:
        return GroupSignal(jnp.exp(rule.limit_power * (log_p + log_q)), jnp.zeros_like(log_p))
    values = signal_values(group_size, rule)
    log_weights = log_binomial(group_size, log_p, log_q)
    if rule.silent == "drop":
        values, weights = values[1:-1], jax.nn.softmax(log_weights[..., 1:-1], axis=-1)
    else:
        weights = jnp.exp(log_weights)
    mean = weights @ values
    return GroupSignal(mean, jnp.sum(weights * (values - mean[..., None]) ** 2, axis=-1))


def signal_ratio(theta: ArrayLike, group_size: int | None, rule: GroupRule = DEFAULT_RULE) -> Float[Array, "..."]:
    """R = E s / w, so that the drift with a KL term is w [R - beta (theta - theta_ref)].

    As P(k) = w G (G-1)/(k (G-k)) P'(k-1) with P' the probabilities of j ~ Binomial(G-2, p), no w is divided by:

        R = E[ s(j+1) G (G-1) / ((j+1)(G-1-j)) ],   and with ``silent="drop"``   R = E[s | live] (2 + 2 cosh theta).

    Many completions: R = w^(h-1), that is 2 cosh(theta/2) with a standard deviation and 1 without. Kept silent groups
    bound R by its value at p -> 0 and 1, G s(1) (sqrt(G-1) for the default rule); dropped ones do not.

    Arguments and `InputError` as for `group_signal`; finite for |theta| up to 700. Source: theory note section 5.
    """
    log_p, log_q = log_probabilities(theta)
    log_w = log_p + log_q
    if group_size is None:
        return jnp.exp((rule.limit_power - 1) * log_w)
    if rule.silent == "drop":
        return group_signal(theta, group_size, rule).mean * jnp.exp(-log_w)
    k = np.arange(1, group_size)
    terms = signal_values(group_size, rule)[1:-1] * (group_size * (group_size - 1) / (k * (group_size - k)))
    return jnp.exp(log_binomial(group_size - 2, log_p, log_q)) @ terms


def learning_rate_factor(
    theta: ArrayLike, group_size: int | None, rule: GroupRule = DEFAULT_RULE
) -> Float[Array, "..."]:
    """E s / w^h: learning rate of a group of G, relative to many completions under the same rule.

    A group of G at learning rate eta drifts like many completions at eta times this factor. h = 1/2 with a standard
    deviation, where the factor is 1 - 1/(8 G w) to leading order for the default rule; h = 1 without one, where
    the factor does not depend on p while silent groups are kept: 1 - 1/G, or 1 with a leave-one-out baseline.

    Arguments and `InputError` as for `group_signal`.
    """
    log_p, log_q = log_probabilities(theta)
    return signal_ratio(theta, group_size, rule) * jnp.exp((1 - rule.limit_power) * (log_p + log_q))
