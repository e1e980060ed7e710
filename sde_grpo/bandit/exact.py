"""The two-armed softmax bandit in closed form: signal, fixed point, curvature, stationary spread (theory note, 5).

One logit theta, success probability p = sigmoid(theta), w = p(1-p), 0/1 rewards. A group with k successes of G
(population standard deviation, self-inclusive mean) pushes theta by s(k) = sqrt((k/G)(1 - k/G)), so on policy

    drift(theta) = E s - beta w (theta - theta_ref) = w [ R(theta) - beta (theta - theta_ref) ],   R = E s / w.

R has no cancellation and no division by a small w: with j ~ Binomial(G - 2, p),

    R = (G - 1) E[ 1/sqrt((j + 1)(G - 1 - j)) ] <= sqrt(G - 1);     many completions: R = 1/sqrt(w) = 2 cosh(theta/2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import solve_discrete_lyapunov
from scipy.optimize import root_scalar
from scipy.special import expit, gammaln, logit, xlog1py, xlogy

from sde_grpo.errors import InputError, require
from sde_grpo.ranges import (
    require_count,
    require_group_size,
    require_momentum,
    require_not_negative,
    require_positive,
    require_probability,
)

_SATURATED = 1e-9  # a fixed point closer to 1 than this is no plateau: no run would tell it from success
_SCAN_CELLS = 500  # at finite G there may be three fixed points; the first is bracketed on this many cells


class GroupSignal(NamedTuple):
    """Mean and variance of the gradient signal s(k) of one group; both of the shape of p."""

    mean: Float[np.ndarray, "..."]
    variance: Float[np.ndarray, "..."]


class StationarySd(NamedTuple):
    """Stationary standard deviation of the logit and, to first order, of the success probability."""

    theta: float
    p: float


def group_signal(p: Float[np.ndarray, "..."] | float, group_size: int) -> GroupSignal:
    """E s and Var s of s(k) = sqrt((k/G)(1 - k/G)), k ~ Binomial(G, p), as finite sums over k.

    To leading order E s = sqrt(w) (1 - 1/(8 G w)) and Var s = (1 - 2p)^2/(4G).

    **Arguments**

    - `p`: success probability in [0, 1], any shape.
    - `group_size`: G >= 2, completions per prompt.

    Raises `InputError` outside these ranges. Source: theory note section 5, "Finite G".
    """
    p = np.asarray(p, dtype=np.float64)
    require(bool(np.all((p >= 0) & (p <= 1))), f"p is {p}; it must lie in [0, 1].")
    require_group_size(group_size)
    k = np.arange(group_size + 1)
    weights = _binomial(group_size, p[..., None])
    signal = np.sqrt(k * (group_size - k)) / group_size
    mean = weights @ signal
    return GroupSignal(mean, np.sum(weights * (signal - mean[..., None]) ** 2, axis=-1))


def fixed_point(p_ref: float, kl_weight: float, group_size: int | None = None) -> float:
    """p* with E s(p*) = beta w* (logit p* - logit p_ref): the plateau of a run that starts at or below p_ref.

    Every fixed point lies above p_ref, and the first one is stable. With many completions the equation is
    logit p* = logit p_ref + 1/(beta sqrt(w*)), and it has a solution only if
    beta (2 asinh(beta) - logit p_ref) > 2 sqrt(1 + beta^2). A finite group has one for every beta > 0, since R is
    bounded, but at small beta it is indistinguishable from 1.

    **Arguments**

    - `p_ref`: success probability of the reference policy, in (0, 1).
    - `kl_weight`: beta >= 0.
    - `group_size`: G >= 2, or `None` for the limit of many completions.

    Raises `InputError` outside these ranges, and where there is no fixed point below 1 - 1e-9.
    Source: theory note section 5; for many completions the fixed point of Mroueh's recurrence (arXiv 2503.06639).
    """
    return float(expit(_fixed_logit(p_ref, kl_weight, group_size)))


def curvature(p_ref: float, kl_weight: float, group_size: int | None = None) -> float:
    """kappa = -d drift/d theta at p*, on policy (theta = theta_old): kappa = w* (beta - R'(theta*)).

    Of this, beta w* acts through the current policy (kappa_now) and -w* R' through the sampling one (kappa_old).
    With many completions R' = sinh(theta/2), so kappa = beta w* - sqrt(w*)(2p* - 1)/2; at finite G,
    R' = (G - 1) Cov(1/sqrt((j + 1)(G - 1 - j)), j). The p coordinate has the same kappa.

    Arguments and `InputError` as for `fixed_point`; the unit is 1 / learning rate. Source: theory note section 5.
    """
    theta = _fixed_logit(p_ref, kl_weight, group_size)
    _, slope = _signal_ratio(theta, group_size)
    return _bernoulli_variance(theta) * (kl_weight - slope)


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
    theta = _fixed_logit(p_ref, kl_weight, group_size)
    stiffness = learning_rate * curvature(p_ref, kl_weight, group_size)
    require(
        0 < stiffness < 2 * (1 + momentum),
        f"learning_rate is {learning_rate}, so eta kappa is {stiffness:.4g}; a stationary state needs it between 0 and "
        f"2 (1 + momentum) = {2 * (1 + momentum):.4g}. Lower the learning rate.",
    )
    step = np.array([[1 + momentum - stiffness, -momentum], [1.0, 0.0]])
    noise = learning_rate**2 * float(group_signal(expit(theta), group_size).variance) / prompts_per_step
    covariance = solve_discrete_lyapunov(step, np.diag([noise, 0.0]))
    sd = math.sqrt(float(covariance[0, 0]))
    return StationarySd(sd, _bernoulli_variance(theta) * sd)


def _fixed_logit(p_ref: float, kl_weight: float, group_size: int | None) -> float:
    """The first theta above theta_ref with R(theta) = beta (theta - theta_ref)."""
    require_probability("p_ref", p_ref)
    require_not_negative("kl_weight", kl_weight)
    if group_size is not None:
        require_group_size(group_size)
    theta_ref = float(logit(p_ref))

    def excess(theta: float) -> float:
        return _signal_ratio(theta, group_size)[0] - kl_weight * (theta - theta_ref)

    bracket = None if kl_weight == 0 else _bracket(excess, theta_ref, kl_weight, group_size)
    if bracket is None:
        raise InputError(
            f"There is no interior fixed point at p_ref = {p_ref}, kl_weight = {kl_weight}, group_size = {group_size}: "
            "the KL term is too weak to hold the policy, which goes to p = 1. Raise kl_weight or lower p_ref."
        )
    return float(root_scalar(excess, bracket=bracket, method="brentq", xtol=1e-14).root)


def _bracket(
    excess: Callable[[float], float], theta_ref: float, kl_weight: float, group_size: int | None
) -> tuple[float, float] | None:
    """An interval whose ends enclose the first sign change of `excess` (positive at theta_ref), if there is one."""
    highest = float(logit(1 - _SATURATED))
    if group_size is None:  # 2 cosh(theta/2) minus a straight line is convex: its minimum decides
        lowest_excess = min(2 * math.asinh(kl_weight), highest)
        return (theta_ref, lowest_excess) if lowest_excess > theta_ref and excess(lowest_excess) < 0 else None
    bound = theta_ref + 1.001 * math.sqrt(group_size - 1) / kl_weight  # from R <= sqrt(G - 1), with room for rounding
    edges = np.linspace(theta_ref, max(min(bound, highest), theta_ref), _SCAN_CELLS + 1)
    for low, high in pairwise(edges):
        if high > low and excess(high) < 0:
            return float(low), float(high)
    return None


def _signal_ratio(theta: float, group_size: int | None) -> tuple[float, float]:
    """R = E s / w and its derivative in theta."""
    if group_size is None:
        return 2 * math.cosh(theta / 2), math.sinh(theta / 2)
    n, p = group_size - 2, float(expit(theta))
    j = np.arange(n + 1)
    terms = _binomial(n, p) * (group_size - 1) / np.sqrt((j + 1) * (group_size - 1 - j))
    return float(terms.sum()), float(terms @ (j - n * p))  # d log pmf / d theta = j - n p


def _binomial(n: int, p: Float[np.ndarray, "... 1"] | float) -> Float[np.ndarray, "... n_plus_1"]:
    """The probabilities of 0 ... n successes (scipy.stats has them too, at ten times the cost per call)."""
    j = np.arange(n + 1)
    log_choose = gammaln(n + 1) - gammaln(j + 1) - gammaln(n - j + 1)
    return np.exp(log_choose + xlogy(j, p) + xlog1py(n - j, -np.asarray(p)))


def _bernoulli_variance(theta: float) -> float:
    """w = p (1 - p), without the cancellation of 1 - p near p = 1."""
    return float(expit(theta) * expit(-theta))
