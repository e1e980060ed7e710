"""From gradient noise to the stationary spread of the policy."""

from __future__ import annotations

import math

from sde_grpo.fluctuation.discrete import discrete_fluctuation
from sde_grpo.oscillator import UpdateRule
from sde_grpo.ranges import require_positive


def step_noise(rule: UpdateRule, gradient_variance: float) -> float:
    """s^2 = eta^2 Var g, the variance of the noise of one optimizer step; eta (1 - mu) for eta under an EMA momentum.

    `gradient_variance`: Var g > 0 of the gradient of one optimizer batch, in squared units of x / learning rate:
    sigma_g^2 / G, or for a bandit Var s / P with Var s of `bandit.group_signal` and P the prompts of one *optimizer
    step*, those of a mini-batch where a rollout is split. Source: theory note sections 3 and 5.
    """
    require_positive("gradient_variance", gradient_variance)
    return float(rule.effective_learning_rate) ** 2 * gradient_variance


def stationary_sd(rule: UpdateRule, curvature: float, gradient_variance: float, *, epochs: int = 1) -> float:
    """sqrt(Var x) of the exact discrete map, averaged over the phase; to leading order eta sigma_g / sqrt(2 G C K).

    At given curvature and damping it is proportional to the root of `gradient_variance`, hence to 1/sqrt(G) where that
    variance is sigma_g^2/G. A group of 0/1 rewards has Var s instead, which falls as 1/G only for large G, and its
    curvature depends on G too. It is the spread of the policy, in the unit of x (for a bandit's logit multiply by
    p (1 - p) to get that of p), not of the logged reward, which has the sampling noise of its batch on top.

    **Arguments**

    - `rule`, `curvature`, `epochs`: as for `discrete_fluctuation`.
    - `gradient_variance`: as for `step_noise`.

    Raises `InputError` as these do. Source: theory note sections 4 and 5.
    """
    noise = step_noise(rule, gradient_variance)
    return math.sqrt(discrete_fluctuation(rule, curvature, noise, epochs=epochs).variance)
