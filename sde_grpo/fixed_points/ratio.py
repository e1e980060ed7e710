"""The signal ratio R(theta) = E s / w of a group and its first two derivatives, in plain NumPy.

Root finding asks for them at thousands of logits and a new group size each time, where compiling costs far more than
computing; elsewhere use `sde_grpo.groups.signal_ratio`, the same R in JAX.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

from sde_grpo.groups import GroupRule, signal_values


class Ratio(NamedTuple):
    """R, dR/dtheta and d^2R/dtheta^2, each of the shape of theta."""

    value: Float[np.ndarray, "..."]
    slope: Float[np.ndarray, "..."]
    bend: Float[np.ndarray, "..."]


def signal_ratio_derivatives(theta: Float[np.ndarray, "..."] | float, group_size: int | None, rule: GroupRule) -> Ratio:
    """R = E s / w with its derivatives, from d log P(k)/d theta = k - E k.

    Silent groups kept, with j ~ Binomial(G - 2, p) and t(j) = s(j+1) G (G-1)/((j+1)(G-1-j)):

        R = E t,   R' = E[t d],   R'' = E[t (d^2 - E d^2)],   d = j - E j.

    Dropped: the same moments of s over 0 < k < G, times 1/w = 2 + 2 cosh theta. Many completions: R = 2 cosh(theta/2)
    where a standard deviation divides, else 1.

    - `theta`: logit, any shape; `group_size`: G >= 2, or `None` for many; `rule`: how rewards become advantages.
    """
    theta = np.asarray(theta, dtype=np.float64)
    value, slope, bend = _derivatives(theta, group_size, rule)
    return Ratio(np.asarray(value), np.asarray(slope), np.asarray(bend))  # NumPy makes scalars of 0-d arrays


def _derivatives(theta: np.ndarray, group_size: int | None, rule: GroupRule) -> tuple[Any, Any, Any]:
    if group_size is None:
        if rule.scale == "none":
            return np.ones_like(theta), np.zeros_like(theta), np.zeros_like(theta)
        return 2 * np.cosh(theta / 2), np.sinh(theta / 2), np.cosh(theta / 2) / 2
    k = np.arange(1, group_size)
    values = signal_values(group_size, rule)[1:-1]
    if rule.silent == "keep":
        return _moments(theta, group_size - 2, k - 1, values * (group_size * (group_size - 1) / (k * (group_size - k))))
    value, slope, bend = _moments(theta, group_size, k, values)
    inverse, odd = 2 + 2 * np.cosh(theta), 2 * np.sinh(theta)  # 1/w and its derivative
    return (
        value * inverse,
        slope * inverse + value * odd,
        bend * inverse + 2 * slope * odd + value * (inverse - 2),
    )


def _moments(theta: np.ndarray, trials: int, k: np.ndarray, values: np.ndarray) -> tuple[Any, Any, Any]:
    """E[values] over Binomial(trials, p) restricted to `k`, and its derivatives in theta."""
    log_choose = gammaln(trials + 1) - gammaln(k + 1) - gammaln(trials - k + 1)
    # k log p + (trials - k) log(1 - p) = k theta + const: the constant goes in the normalisation.
    logs = log_choose + k * theta[..., None]
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    offset = k - (weights @ k)[..., None]
    square = offset**2
    spread = square - np.sum(weights * square, axis=-1)[..., None]
    return weights @ values, (weights * offset) @ values, (weights * spread) @ values
