"""The two-armed softmax bandit in closed form: signal of a group and stationary spread (theory note, 5).

Fixed point and curvature are those of `sde_grpo.fixed_points` at the default rule (population standard deviation,
self-inclusive mean, silent groups kept), the one that `simulate` samples.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import solve_discrete_lyapunov
from scipy.special import logit

from sde_grpo.errors import require
from sde_grpo.fixed_points import curvature, fixed_point, plateau, signal_ratio_derivatives
from sde_grpo.groups import GroupRule
from sde_grpo.ranges import require_count, require_group_size, require_momentum, require_positive

__all__ = ["GroupSignal", "StationarySd", "curvature", "fixed_point", "group_signal", "stationary_sd"]


class GroupSignal(NamedTuple):
    """Mean and variance of the gradient signal s(k) of one group; both of the shape of p."""

    mean: Float[np.ndarray, "..."]
    variance: Float[np.ndarray, "..."]


class StationarySd(NamedTuple):
    """Stationary standard deviation of the logit and, to first order, of the success probability."""

    theta: float
    p: float


def group_signal(p: Float[np.ndarray, "..."] | float, group_size: int) -> GroupSignal:
    """E s and Var s of s(k) = sqrt((k/G)(1 - k/G)), k ~ Binomial(G, p): `sde_grpo.groups.group_signal` in p and NumPy.

    E s = w R with the signal ratio R, and Var s = w (1 - 1/G) - (E s)^2, since E s^2 = E[(k/G)(1 - k/G)].

    **Arguments**

    - `p`: success probability in [0, 1], any shape.
    - `group_size`: G >= 2, completions per prompt.

    Raises `InputError` outside these ranges. Source: theory note section 5, "Finite G".
    """
    p = np.asarray(p, dtype=np.float64)
    require(bool(np.all((p >= 0) & (p <= 1))), f"p is {p}; it must lie in [0, 1].")
    require_group_size(group_size)
    w = p * (1 - p)
    inside = np.where(w > 0, p, 0.5)
    mean = w * signal_ratio_derivatives(logit(inside), group_size, GroupRule()).value
    return GroupSignal(mean, w * (1 - 1 / group_size) - mean**2)


def stationary_sd(
    p_ref: float,
    kl_weight: float,
    group_size: int,
    *,
    prompts_per_step: int,
    learning_rate: float,
    momentum: float = 0.0,
) -> StationarySd:
    """Standard deviation of theta, and sd(p) = w* sd(theta), under the linearised heavy-ball map with K_ref = 1.

    x_{k+1} = x_k - eta kappa x_k + mu (x_k - x_{k-1}) + eta e_k,   Var e = Var s / P,

    from the discrete Lyapunov equation S = A S A' + Q on the state (x_k, x_{k-1}). It is the spread of the policy,
    not of the logged reward, which has the sampling noise of its batch on top (theory note, section 6).

    **Arguments**

    - `p_ref`, `kl_weight`, `group_size`: as for `fixed_point`, but `group_size` must be finite.
    - `prompts_per_step`: P >= 1, prompts (groups) per sampled batch.
    - `learning_rate`: eta > 0.
    - `momentum`: mu in [0, 1), heavy ball.

    Raises `InputError` outside these ranges, and where the map is unstable, eta kappa >= 2 (1 + mu).
    """
    require_group_size(group_size)
    require_count("prompts_per_step", prompts_per_step, 1)
    require_positive("learning_rate", learning_rate)
    require_momentum(momentum)
    point = plateau(p_ref, kl_weight, group_size)
    stiffness = learning_rate * point.curvature
    require(
        0 < stiffness < 2 * (1 + momentum),
        f"learning_rate is {learning_rate}, so eta kappa is {stiffness:.4g}; a stationary state needs it between 0 and "
        f"2 (1 + momentum) = {2 * (1 + momentum):.4g}. Lower the learning rate.",
    )
    step = np.array([[1 + momentum - stiffness, -momentum], [1.0, 0.0]])
    noise = learning_rate**2 * float(group_signal(point.p, group_size).variance) / prompts_per_step
    covariance = solve_discrete_lyapunov(step, np.diag([noise, 0.0]))
    sd = math.sqrt(float(covariance[0, 0]))
    return StationarySd(sd, point.p * (1 - point.p) * sd)
