"""Drift and noise of a group as power series in 1/G: the 1/G law, its finite-G correction, and where they fail.

With x = k/G, s = (1 - 1/G)^c f(x), f = [x(1-x)]^h and the central moments of x (w/G, w(1-2p)/G^2, 3w^2/G^2 + ...):

    h = 1/2:  E f = sqrt(w) [1 - 1/(8 G w) - (7 - 16w)/(128 G^2 w^2)] + O(1/G^3)
              Var f = (1-2p)^2/(4G) + (3 - 8w)/(32 G^2 w) + O(1/G^3)
    h = 1:    E f = w [1 - 1/G]  (exact),   Var f = w [(1-2p)^2/G - 2 (1 - 5w)/G^2] + O(1/G^3)
    (1 - 1/G)^c = 1 - c/G + c (c-1)/(2 G^2) + O(1/G^3)

S = p^G + (1-p)^G is smaller than every power of 1/G, so dropping silent groups changes no term.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax.typing import ArrayLike

from sde_grpo.errors import require
from sde_grpo.groups.binomial import log_probabilities
from sde_grpo.groups.rule import DEFAULT_RULE, GroupRule
from sde_grpo.groups.signal import GroupSignal
from sde_grpo.ranges import require_group_size


def leading_order(theta: ArrayLike, group_size: int, rule: GroupRule = DEFAULT_RULE, order: int = 1) -> GroupSignal:
    """E s and Var s through 1/G^order; for the default rule and order 1,

        E s = sqrt(w) [1 - 1/(8 G w)],   Var s = (1-2p)^2/(4G).

    ddof 1 adds -1/(2G) inside the bracket of E s and leave-one-out +1/G, so with both E s = sqrt(w) [1 -
    (1-2p)^2/(8 G w)]. The 1/G term of Var s is the same under every rule with a standard deviation; it vanishes at
    p = 1/2, where Var s = 1/(8 G^2) + O(1/G^3) and the spread falls as 1/G, not as 1/sqrt(G). Without a standard
    deviation Var s = (1-2p)^2 w/G, and at p = 1/2 again 1/(8 G^2).

    The series needs G w >> 1: silent groups, which it does not see, must be rare. It is asymptotic, so order 2 is
    worse than order 1 where both are bad, and overflows beyond |theta| of about 350. The folder's README has the
    smallest G for 10 %.

    **Arguments**

    - `theta`: logit of the success probability, finite, any shape.
    - `group_size`: G >= 2, completions per prompt.
    - `rule`: how rewards become advantages; `rule.silent` makes no difference.
    - `order`: 1 or 2, the last power of 1/G kept in the mean and in the variance.

    Raises `InputError` outside these ranges, where theta is known. Source: theory note section 5, "Finite G", for
    order 1 of the default rule; the rest is derived here.
    """
    require_group_size(group_size)
    require(order in (1, 2), f"order is {order}; the expansion is known to orders 1 and 2.")
    log_p, log_q = log_probabilities(theta)
    w = jnp.exp(log_p + log_q)
    asymmetry = jnp.tanh(jnp.asarray(theta, dtype=w.dtype) / 2) ** 2  # (1-2p)^2 = 1 - 4w, which would cancel
    if rule.limit_power == 1:
        limit, mean_1, mean_2 = w, -1.0, 0.0
        variance_1, variance_2 = asymmetry * w, -2 * (1 - 5 * w) * w
    else:
        limit, mean_1, mean_2 = jnp.sqrt(w), -1 / (8 * w), -(7 - 16 * w) / (128 * w**2)
        variance_1, variance_2 = asymmetry / 4, (3 - 8 * w) / (32 * w)
    c, g = rule.correction_power, group_size
    mean, variance = 1 + (mean_1 - c) / g, variance_1 / g
    if order == 2:
        mean = mean + (mean_2 - c * mean_1 + c * (c - 1) / 2) / g**2
        variance = variance + (variance_2 - 2 * c * variance_1) / g**2
    return GroupSignal(limit * mean, variance)
