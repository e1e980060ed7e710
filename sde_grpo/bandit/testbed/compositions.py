"""All ways in which G completions fall on K arms, what each is worth, and their draws.

A group is known by its counts n_a of completions per arm, so its law is a finite table. A batch of P groups is a
weight on every cell (prompt, counts) of that table: its share in the batch, or, for the exact expected gradient, its
probability. Everything the gradient needs is linear in these weights.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from sde_grpo.bandit.testbed.bandit import Bandit
from sde_grpo.errors import require
from sde_grpo.groups import GroupRule

_MOST_CELLS = 100_000  # of prompts x counts: a table that is walked through for every batch of every replicate


class Compositions(NamedTuple):
    """The table; advantages and shares are those of the completions of one arm, summed and divided by G.

    - `counts`: n_a; `log_choose`: log of G! / prod n_a!, or -inf in a silent group that is to be dropped.
    - `reward`, `silent`: mean reward of the group, and whether all its rewards are equal.
    - `raising`, `lowering`: sum of the positive and of the negative advantages of each arm, / G.
    - `raised`, `lowered`: share of the completions whose advantage is positive and negative, by arm.
    """

    counts: Float[Array, "cell arm"]
    log_choose: Float[Array, "prompt cell"]
    reward: Float[Array, "prompt cell"]
    silent: Float[Array, "prompt cell"]
    raising: Float[Array, "prompt cell arm"]
    lowering: Float[Array, "prompt cell arm"]
    raised: Float[Array, "prompt cell arm"]
    lowered: Float[Array, "prompt cell arm"]


class Batch(NamedTuple):
    """Averages of the table over the groups of a batch; `prompt` is the share of each prompt in it."""

    prompt: Float[Array, "... prompt"]
    reward: Float[Array, "..."]
    silent_share: Float[Array, "..."]
    raising: Float[Array, "... prompt arm"]
    lowering: Float[Array, "... prompt arm"]
    raised: Float[Array, "... prompt arm"]
    lowered: Float[Array, "... prompt arm"]


def compositions(bandit: Bandit, group_size: int, rule: GroupRule) -> Compositions:
    """The table of all counts. Raises `InputError` where it is too long, or where ``silent="drop"`` leaves nothing."""
    prompts, arms = bandit.rewards.shape
    cells = prompts * math.comb(group_size + arms - 1, arms - 1)
    require(
        cells <= _MOST_CELLS,
        f"{prompts} prompts with groups of {group_size} on {arms} arms make {cells} cases; at most {_MOST_CELLS} "
        "are allowed. Take fewer arms, prompts or completions.",
    )
    counts = _counts(group_size, arms)
    rewards = np.asarray(bandit.rewards)
    advantage, mean, silent = _advantages(counts, rewards, group_size, rule)
    require(
        rule.silent == "keep" or not bool(silent.all()),
        "All arms of every prompt pay the same, so every group is silent and silent='drop' would leave none. "
        "Use silent='keep' or give the arms different rewards.",
    )
    log_factorial = np.array([math.lgamma(n + 1) for n in range(group_size + 1)])
    log_choose = log_factorial[-1] - log_factorial[counts].sum(axis=-1)
    share = counts / group_size
    table = (
        counts.astype(np.float64),
        np.where(silent & (rule.silent == "drop"), -np.inf, log_choose),
        mean,
        silent.astype(np.float64),
        share * np.maximum(advantage, 0),
        share * np.minimum(advantage, 0),
        share * (advantage > 0),
        share * (advantage < 0),
    )
    return Compositions(*(jnp.asarray(column) for column in table))


def probabilities(table: Compositions, log_policy: Float[Array, "*r prompt arm"]) -> Float[Array, "*r prompt cell"]:
    """G!/prod n_a! prod pi_a^n_a / N, every prompt equally likely, normalised over the cells that are not dropped."""
    logs = table.log_choose + log_policy @ table.counts.T
    return jax.nn.softmax(logs, axis=(-2, -1))


def draw(key: PRNGKeyArray, probability: Float[Array, "r prompt cell"], groups: int) -> Float[Array, "r prompt cell"]:
    """Share of each cell among P groups drawn independently, by inversion: the same key couples nearby policies."""
    edges = jnp.cumsum(probability.reshape(len(probability), 1, -1), axis=-1)[..., :-1]
    uniform = jax.random.uniform(key, (len(probability), groups, 1))
    below = jnp.sum(uniform < edges, axis=1)
    counts = jnp.diff(below, prepend=0, append=groups)
    return (counts / groups).reshape(probability.shape)


def average(table: Compositions, weights: Float[Array, "*r prompt cell"]) -> Batch:
    """The batch in which each cell has the given weight."""

    def by_arm(column: Float[Array, "prompt cell arm"]) -> Float[Array, "*r prompt arm"]:
        return jnp.einsum("...nc,nca->...na", weights, column)

    def total(column: Float[Array, "prompt cell"]) -> Float[Array, "*r"]:
        return jnp.sum(weights * column, axis=(-2, -1))

    by_arms = (by_arm(c) for c in (table.raising, table.lowering, table.raised, table.lowered))
    return Batch(weights.sum(axis=-1), total(table.reward), total(table.silent), *by_arms)


def _counts(group_size: int, arms: int) -> Int[np.ndarray, "cell arm"]:
    """All counts that sum to G, by the places of K - 1 bars among G stars; for two arms in order of successes."""
    bars = np.array(list(combinations(range(group_size + arms - 1), arms - 1)))[::-1]
    return np.diff(bars, axis=-1, prepend=-1, append=group_size + arms - 1) - 1


def _advantages(
    counts: Int[np.ndarray, "cell arm"], rewards: Float[np.ndarray, "prompt arm"], group_size: int, rule: GroupRule
) -> tuple[Float[np.ndarray, "prompt cell arm"], Float[np.ndarray, "prompt cell"], np.ndarray]:
    """Advantage of a completion by its arm, mean reward, and whether the group is silent."""
    mean = rewards @ counts.T / group_size
    deviation = rewards[:, None, :] - mean[..., None]
    held = np.where(counts > 0, rewards[:, None, :], np.nan)  # silence by equality: rounding leaves no true zero
    silent = np.nanmax(held, axis=-1) == np.nanmin(held, axis=-1)
    if rule.scale == "none":
        scale = np.ones_like(mean)
    else:
        ddof = 1 if rule.scale == "sample" else 0
        scale = np.sqrt(np.sum(counts * deviation**2, axis=-1) / (group_size - ddof))
    advantage = deviation / np.where(silent, np.inf, scale)[..., None]
    own = group_size / (group_size - 1) if rule.baseline == "leave_one_out" else 1.0
    return own * advantage, mean, silent
