"""GRPO's gradient written out completion by completion, for every reward vector of a group: the textbook loop."""

from __future__ import annotations

import itertools

import numpy as np

from sde_grpo.groups import GroupRule

RULES = [
    GroupRule(scale=scale, baseline=baseline, silent=silent)
    for scale in ("population", "sample", "none")
    for baseline in ("group_mean", "leave_one_out")
    for silent in ("keep", "drop")
]
NAMES = ["-".join((rule.scale, rule.baseline, rule.silent)) for rule in RULES]


def all_rewards(group_size: int) -> np.ndarray:
    """The 2^G reward vectors, one a row."""
    return np.array(list(itertools.product((0.0, 1.0), repeat=group_size)))


def gradients(rewards: np.ndarray, p: float, rule: GroupRule) -> np.ndarray:
    """(1/G) sum_i A_i d log pi(a_i)/d theta of each row, with d log pi/d theta = r_i - p."""
    result = []
    for group in rewards:
        ddof = 1 if rule.scale == "sample" else 0
        scale = 1.0 if rule.scale == "none" else group.std(ddof=ddof)
        total = 0.0
        for i, reward in enumerate(group):
            others = np.delete(group, i)
            baseline = group.mean() if rule.baseline == "group_mean" else others.mean()
            advantage = 0.0 if np.all(group == group[0]) else (reward - baseline) / scale
            total += advantage * (reward - p)
        result.append(total / len(group))
    return np.array(result)


def enumerated_moments(p: float, group_size: int, rule: GroupRule) -> tuple[float, float]:
    """Mean and variance of the gradient over all reward vectors, or over those that are not silent."""
    rewards = all_rewards(group_size)
    weights = np.prod(np.where(rewards == 1, p, 1 - p), axis=1)
    if rule.silent == "drop":
        weights = np.where(rewards.min(axis=1) == rewards.max(axis=1), 0.0, weights)
        weights = weights / weights.sum()
    values = gradients(rewards, p, rule)
    mean = float(weights @ values)
    return mean, float(weights @ (values - mean) ** 2)
