"""The settings of one GRPO run on a bandit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from sde_grpo.bandit.simulate import Surrogate
from sde_grpo.bandit.testbed.optimizers import Adam, Momentum, Optimizer
from sde_grpo.errors import require
from sde_grpo.groups import GroupRule
from sde_grpo.oscillator import LagSchedule
from sde_grpo.ranges import require_count, require_group_size, require_not_negative

Gradient = Literal["sampled", "exact"]

_DEFAULT_RULE = GroupRule()


@dataclass(frozen=True, kw_only=True)
class Training:
    """How the policy is trained.

    **Arguments**

    - `optimizer`: `Momentum` or `Adam`, which hold the learning rate.
    - `group_size`: G >= 2, completions per prompt.
    - `prompts_per_step`: P >= 1, groups per batch, each of a prompt drawn at random.
    - `steps`: optimizer steps, at least 1.
    - `kl_weight`: beta >= 0, the weight of KL(pi || pi_ref), averaged over the prompts of the batch.
    - `refresh_interval`: optimizer steps per batch, K_ref >= 1; under the constant schedule the lag L >= 0.
    - `lag_schedule`: ``"periodic"``, a batch serves K_ref steps and comes from the policy at their start, or
      ``"constant"``, every step has a new batch from the policy of L steps ago (of the start, before that).
    - `surrogate`: ``"importance_ratio"``, ratios correct for the lag, or ``"old_policy"``, the whole gradient, the KL
      term too, is evaluated at the policy that was sampled: stale fraction 1.
    - `clip_low`, `clip_high`: PPO clipping of the ratio to [1 - clip_low, 1 + clip_high], both > 0; infinite for none.
    - `group_rule`: how rewards become advantages.
    - `gradient`: ``"sampled"`` groups, or ``"exact"``: its expectation under the sampling policy, without noise.

    Raises `InputError` outside these ranges.
    """

    optimizer: Optimizer
    group_size: int
    prompts_per_step: int
    steps: int
    kl_weight: float = 0.0
    refresh_interval: int = 1
    lag_schedule: LagSchedule = "periodic"
    surrogate: Surrogate = "importance_ratio"
    clip_low: float = math.inf
    clip_high: float = math.inf
    group_rule: GroupRule = _DEFAULT_RULE
    gradient: Gradient = "sampled"

    def __post_init__(self) -> None:
        require(
            isinstance(self.optimizer, Momentum | Adam),
            f"optimizer is {self.optimizer!r}; it must be a Momentum or an Adam, such as Momentum(learning_rate=0.02).",
        )
        require_group_size(self.group_size)
        require_count("prompts_per_step", self.prompts_per_step, 1)
        require_count("steps", self.steps, 1)
        require_not_negative("kl_weight", self.kl_weight)
        choices = (("lag_schedule", LagSchedule), ("surrogate", Surrogate), ("gradient", Gradient))
        for name, allowed in choices:
            value = getattr(self, name)
            require(
                value in get_args(allowed),
                f"{name} is {value!r}; allowed are {' and '.join(map(repr, get_args(allowed)))}.",
            )
        require_count("refresh_interval", self.refresh_interval, 1 if self.lag_schedule == "periodic" else 0)
        for name in ("clip_low", "clip_high"):
            value = getattr(self, name)
            require(value > 0, f"{name} is {value}; it must be positive, and is infinite for no clipping.")
