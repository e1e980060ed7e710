"""Sampled GRPO on the two-armed softmax bandit: real groups, stale batches, heavy ball (theory note, 2 and 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from scipy.special import expit, logit

from sde_grpo.errors import require
from sde_grpo.ranges import (
    require_count,
    require_group_size,
    require_momentum,
    require_not_negative,
    require_positive,
    require_probability,
)

Surrogate = Literal["importance_ratio", "old_policy"]


@dataclass(frozen=True, kw_only=True)
class BanditSettings:
    """One run of GRPO on the bandit.

    **Arguments**

    - `p_ref`: success probability of the reference policy, in (0, 1).
    - `kl_weight`: beta >= 0.
    - `p_start`: success probability of the policy before the first step, in (0, 1).
    - `group_size`: G >= 2, completions per prompt.
    - `prompts_per_step`: P >= 1, prompts (groups) per sampled batch; all prompts are alike.
    - `learning_rate`: eta > 0.
    - `momentum`: mu in [0, 1), heavy ball.
    - `refresh_interval`: K_ref >= 1, optimizer steps per sampled batch.
    - `steps`: number of optimizer steps, at least 1.

    Raises `InputError` where a value lies outside its range.
    """

    p_ref: float
    kl_weight: float
    p_start: float
    group_size: int
    prompts_per_step: int
    learning_rate: float
    momentum: float = 0.0
    refresh_interval: int = 1
    steps: int = 300

    def __post_init__(self) -> None:
        require_probability("p_ref", self.p_ref)
        require_not_negative("kl_weight", self.kl_weight)
        require_probability("p_start", self.p_start)
        require_group_size(self.group_size)
        require_count("prompts_per_step", self.prompts_per_step, 1)
        require_positive("learning_rate", self.learning_rate)
        require_momentum(self.momentum)
        require_count("refresh_interval", self.refresh_interval, 1)
        require_count("steps", self.steps, 1)


@dataclass(frozen=True)
class Simulation:
    """Replicates of one run; a batch is one row of the log.

    - `steps`: the optimizer step (from 1) at which each batch was sampled: 1, 1 + K_ref, 1 + 2 K_ref, ...
    - `reward`: mean reward of each batch, drawn from the policy `theta[:, step - 1]`.
    - `theta`: the logit, column n after n optimizer steps; column 0 is the start.
    """

    steps: Int[np.ndarray, "row"]
    reward: Float[np.ndarray, "replicate row"]
    theta: Float[np.ndarray, "replicate steps_plus_1"]


def simulate(
    settings: BanditSettings,
    *,
    replicates: int = 1,
    seed: int | Sequence[int] | np.random.Generator = 0,
    surrogate: Surrogate = "importance_ratio",
) -> Simulation:
    """theta_{k+1} = theta_k + eta g_k + mu (theta_k - theta_{k-1}), g_k from batches of P groups of G completions.

    Every K_ref steps each prompt draws k ~ Binomial(G, p_old) successes, and the batch serves the whole block.
    Advantages use the group's own mean and population standard deviation; a silent group (k = 0 or G) gives zero.

    - ``surrogate="importance_ratio"``: g = mean_prompts (1/G) sum_i ratio_i A_i dlog pi(a_i)/dtheta
      - beta w (theta - theta_ref). For two arms the sum is s(k) w(theta)/w(theta_old), hence the curvature splits
      into kappa_now = beta w* and kappa_old, the rest.
    - ``surrogate="old_policy"``: all of g, the KL term too, is evaluated at theta_old: stale fraction phi = 1.

    With K_ref = 1 the two agree.

    **Arguments**

    - `settings`: the run.
    - `replicates`: number of independent copies, at least 1.
    - `seed`: whatever `numpy.random.default_rng` takes.

    Raises `InputError` for an unknown surrogate or a number of replicates below one.
    """
    require_count("replicates", replicates, 1)
    require(
        surrogate in ("importance_ratio", "old_policy"),
        f"surrogate is {surrogate!r}; allowed are 'importance_ratio' and 'old_policy'.",
    )
    rng = np.random.default_rng(seed)
    group_size, theta_ref = settings.group_size, logit(settings.p_ref)
    batch_steps = np.arange(1, settings.steps + 1, settings.refresh_interval)
    reward = np.empty((replicates, len(batch_steps)))
    theta = np.full((replicates, settings.steps + 1), logit(settings.p_start))
    old, velocity = theta[:, 0], np.zeros(replicates)
    signal = np.zeros(replicates)
    for step in range(settings.steps):
        now = theta[:, step]
        block, age = divmod(step, settings.refresh_interval)
        if age == 0:
            old = now
            shape = (replicates, settings.prompts_per_step)
            successes = rng.binomial(group_size, expit(old)[:, None], size=shape)
            reward[:, block] = successes.mean(axis=1) / group_size
            signal = np.sqrt(successes * (group_size - successes)).mean(axis=1) / group_size
        at = now if surrogate == "importance_ratio" else old
        pull = settings.kl_weight * np.exp(_log_w(at)) * (at - theta_ref)
        velocity = settings.momentum * velocity + settings.learning_rate * (signal * _w_ratio(at, old) - pull)
        theta[:, step + 1] = now + velocity
    return Simulation(batch_steps, reward, theta)


def _w_ratio(theta: Float[np.ndarray, "..."], theta_old: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """w(theta) / w(theta_old) through logarithms: a saturated policy must not turn it into 0/0."""
    return np.exp(_log_w(theta) - _log_w(theta_old))


def _log_w(theta: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """log p(1-p) for p = sigmoid(theta)."""
    return -np.logaddexp(0.0, theta) - np.logaddexp(0.0, -theta)
