"""Finite groups: drift and noise of a group of G completions with 0/1 rewards, as exact binomial sums."""

from sde_grpo.groups.binomial import silent_share, success_probabilities
from sde_grpo.groups.expansion import leading_order
from sde_grpo.groups.rule import GroupRule, signal_values
from sde_grpo.groups.signal import GroupSignal, group_signal, learning_rate_factor, signal_ratio
from sde_grpo.groups.unreplaced import unreplaced_signal

__all__ = [
    "GroupRule",
    "GroupSignal",
    "group_signal",
    "leading_order",
    "learning_rate_factor",
    "signal_ratio",
    "signal_values",
    "silent_share",
    "success_probabilities",
    "unreplaced_signal",
]
