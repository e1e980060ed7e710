"""GRPO on a softmax bandit written out completion by completion: the slow reference of the testbed's tests."""

from __future__ import annotations

from itertools import product

import numpy as np

from sde_grpo.bandit.testbed import Adam, Bandit, Training


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))


def log_policy(bandit: Bandit, x: np.ndarray) -> np.ndarray:
    return log_softmax(np.asarray(bandit.reference_logits) + np.asarray(bandit.features) @ x)


def advantages(rewards: np.ndarray, training: Training) -> np.ndarray:
    """A_i of every completion of one group."""
    rule, size = training.group_rule, len(rewards)
    if np.all(rewards == rewards[0]):
        return np.zeros(size)
    out = []
    for i, reward in enumerate(rewards):
        baseline = np.mean(np.delete(rewards, i)) if rule.baseline == "leave_one_out" else np.mean(rewards)
        scale = {"population": np.std(rewards), "sample": np.std(rewards, ddof=1), "none": 1.0}[rule.scale]
        out.append((reward - baseline) / scale)
    return np.array(out)


def group_gradient(bandit, training, prompt: int, arms: tuple[int, ...], x: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Gradient of (1/G) sum_i min(r_i A_i, clip(r_i) A_i) - beta KL for one group; a clipped term has none."""
    now, before = log_policy(bandit, x)[prompt], log_policy(bandit, old)[prompt]
    policy, slope = np.exp(now), np.zeros(len(now))
    for arm, advantage in zip(arms, advantages(np.asarray(bandit.rewards)[prompt, list(arms)], training), strict=True):
        ratio = np.exp(now[arm] - before[arm])
        clipped = np.clip(ratio, 1 - training.clip_low, 1 + training.clip_high)
        if ratio * advantage <= clipped * advantage:
            slope += ratio * advantage * ((np.arange(len(now)) == arm) - policy) / training.group_size
    excess = now - log_softmax(np.asarray(bandit.reference_logits))[prompt]
    slope -= training.kl_weight * policy * (excess - policy @ excess)
    return np.asarray(bandit.features)[prompt].T @ slope


def outcomes(bandit: Bandit, training: Training, old: np.ndarray) -> list[tuple[float, int, tuple[int, ...]]]:
    """Probability, prompt and arms of every possible group of the sampling policy: N K^G of them."""
    prompts, arms = bandit.rewards.shape
    policy, listed = np.exp(log_policy(bandit, old)), []
    for prompt, group in product(range(prompts), product(range(arms), repeat=training.group_size)):
        rewards = np.asarray(bandit.rewards)[prompt, list(group)]
        if training.group_rule.silent == "keep" or not np.all(rewards == rewards[0]):
            listed.append((float(np.prod(policy[prompt, list(group)])) / prompts, prompt, group))
    total = sum(p for p, _, _ in listed)
    return [(p / total, prompt, group) for p, prompt, group in listed]


def train_exactly(bandit: Bandit, training: Training, start: np.ndarray) -> np.ndarray:
    """Parameters before each step, with the expected gradient over every outcome."""
    optimizer, path = training.optimizer, [np.array(start, dtype=float)]
    first, second, old = np.zeros_like(path[0]), np.zeros_like(path[0]), path[0]
    for step in range(training.steps):
        if training.lag_schedule == "constant":
            old = path[max(step - training.refresh_interval, 0)]
        elif step % training.refresh_interval == 0:
            old = path[-1]
        at = old if training.surrogate == "old_policy" else path[-1]
        cases = outcomes(bandit, training, old)
        g = sum(p * group_gradient(bandit, training, prompt, arms, at, old) for p, prompt, arms in cases)
        if isinstance(optimizer, Adam):
            first = optimizer.beta1 * first + (1 - optimizer.beta1) * g
            second = optimizer.beta2 * second + (1 - optimizer.beta2) * g * g
            mean, square = first / (1 - optimizer.beta1 ** (step + 1)), second / (1 - optimizer.beta2 ** (step + 1))
            change = optimizer.learning_rate * mean / (np.sqrt(square) + optimizer.epsilon)
        else:
            first = optimizer.momentum * first + (1 - optimizer.momentum if optimizer.kind == "ema" else 1) * g
            change = optimizer.learning_rate * first
        path.append(path[-1] + change)
    return np.array(path[:-1])
