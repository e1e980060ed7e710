"""Silent groups dropped from a batch and not replaced: the number of groups that remain is random."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax.nn import logsumexp
from jax.typing import ArrayLike

from sde_grpo.errors import require
from sde_grpo.groups.binomial import log_binomial, log_probabilities
from sde_grpo.groups.rule import GroupRule
from sde_grpo.groups.signal import GroupSignal, group_signal
from sde_grpo.ranges import require_count, require_group_size

_DROP = GroupRule(silent="drop")


def unreplaced_signal(theta: ArrayLike, group_size: int, prompts_per_step: int, rule: GroupRule = _DROP) -> GroupSignal:
    """Mean and variance of the average over the N ~ Binomial(P, 1-S) live groups of a batch; N = 0 makes no step:

        mean = m (1 - S^P),   variance = v E[1/N; N > 0] + m^2 S^P (1 - S^P),

    m and v the moments of one live group (`group_signal` with ``silent="drop"``). Exact. It is the *batch* variance,
    not the one per group: a refilled batch has v/P, and (m, v/P) is the limit S^P -> 0 and N -> P of both lines.
    For P = 1 dropping changes nothing, for P -> infinity it costs only noise, v/(P (1-S)).

    **Arguments**

    - `theta`: logit of the success probability, finite, any shape; all prompts are alike.
    - `group_size`: G >= 2, completions per prompt.
    - `prompts_per_step`: P >= 1, groups per batch before any is dropped.
    - `rule`: how rewards become advantages, with ``silent="drop"``.

    Raises `InputError` outside these ranges, where theta is known.
    """
    require_group_size(group_size)
    require_count("prompts_per_step", prompts_per_step, 1)
    require(
        rule.silent == "drop",
        f"rule.silent is {rule.silent!r}; a batch loses groups only with 'drop'. Where silent groups are kept, divide "
        "the variance of group_signal by prompts_per_step.",
    )
    one = group_signal(theta, group_size, rule)
    log_p, log_q = log_probabilities(theta)
    log_silent = jnp.logaddexp(group_size * log_p, group_size * log_q)
    log_live = logsumexp(log_binomial(group_size, log_p, log_q)[..., 1:-1], axis=-1)
    remaining = jnp.exp(log_binomial(prompts_per_step, log_live, log_silent))  # probabilities of N = 0 ... P
    some, none = jnp.sum(remaining[..., 1:], axis=-1), remaining[..., 0]
    inverse_count = remaining[..., 1:] @ (1 / np.arange(1, prompts_per_step + 1))
    return GroupSignal(one.mean * some, one.variance * inverse_count + one.mean**2 * none * some)
