"""Stationary policies of GRPO with the penalty its loss really has, for any number of arms (Vojnovic and Yun).

The loss penalises rho - log rho - 1, rho = pi_ref(o)/pi(o), averaged over completions o drawn from pi_old ("k3"). Its
gradient on policy is E[(1 - rho) grad log pi] = -sum_o pi_ref(o) grad log pi(o): that of KL(pi_ref || pi), not of
KL(pi || pi_ref). With P(o) the expected advantage of completion o in a group whose others are drawn from pi,

    stationary, k3:   (1 - (P(o) - E_pi P)/beta) pi(o) = pi_ref(o)                        (rational pooling)
    stationary, kl:   pi(o) proportional to pi_ref(o) exp(P(o)/beta)                       (exponential pooling)

Quoted (arXiv 2502.18548): the k3 condition, that the penalty acts as the other KL divergence, and that pairs give
pairwise preferences. Derived here: both conditions (d/d logit(o) of the surrogate is pi(o) [c(o) - E_pi c] with
c = P - beta (1 - rho), or c = P - beta log(pi/pi_ref); where all of them vanish c is constant, and averaging over pi,
under which 1 - rho has mean zero, gives the constant), every `GroupRule`, and, for 0/1 rewards, the curvature.

- Pairs, divided by the population standard deviation: P(o) = Pr[r(o) > r(o')] - Pr[r(o) < r(o')], o' ~ pi.
- Many completions: P(o) = (r(o) - E r)/sd(r), or r(o) - E r without a scale; the kl form is then the usual
  pi_ref exp(r/beta).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import comb
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp
from scipy.optimize import root
from scipy.special import expit, gammaln, log_softmax, logit, softmax

from sde_grpo.errors import InputError, require
from sde_grpo.fixed_points.crossings import HIGHEST_LOGIT, crossings
from sde_grpo.fixed_points.points import DEFAULT_RULE, FixedPoint
from sde_grpo.fixed_points.ratio import signal_ratio_derivatives
from sde_grpo.groups import GroupRule
from sde_grpo.ranges import require_group_size, require_positive, require_probability

Penalty = Literal["k3", "kl"]
Preference = Callable[[Float[np.ndarray, "arm"]], Float[np.ndarray, "arm"]]

_MOST_GROUPS = 200_000  # compositions of a group that are enumerated
_SATURATED = 1 - 1e-9  # where a policy that runs to one arm is stopped
_RESIDUAL = 1e-9  # of the stationarity condition, in units of the advantage


def group_preference(
    policy: ArrayLike, rewards: ArrayLike, group_size: int | None = None, rule: GroupRule = DEFAULT_RULE
) -> Float[np.ndarray, "arm"]:
    """P(o) = E[A_1 | o_1 = o], the other G - 1 completions drawn from the policy: an exact multinomial sum.

    The surrogate's gradient is E[(1/G) sum_i A_i grad log pi(o_i)] = sum_o pi(o) P(o) grad log pi(o). For 0/1 rewards
    P(success) - P(failure) = R, the signal ratio of `sde_grpo.groups`.

    **Arguments**

    - `policy`: probabilities of the K arms, positive, summing to one. `rewards`: reward of each arm, not all equal.
    - `group_size`: G >= 2, or `None` for many completions. `rule`: how rewards become advantages.

    Raises `InputError` outside these ranges, or where there are more than 200,000 compositions of a group.
    """
    pi, r = _simplex("policy", policy), _rewards(rewards)
    require(pi.shape == r.shape, f"policy has {pi.size} arms and rewards {r.size}; they must have as many.")
    return _preference(r, group_size, rule)(pi)


def stationary_policy(
    rewards: ArrayLike,
    reference: ArrayLike,
    kl_weight: float,
    group_size: int | None = None,
    rule: GroupRule = DEFAULT_RULE,
    penalty: Penalty = "k3",
) -> Float[np.ndarray, "arm"]:
    """The stationary policy that natural-gradient ascent reaches from the reference.

        d logit(o)/dt = P(o) - E P - beta (1 - pi_ref(o)/pi(o))                     (k3)
        d logit(o)/dt = P(o) - E P - beta (log(pi(o)/pi_ref(o)) - KL(pi || pi_ref))     (kl)

    followed to rest and polished by Newton; plain gradient ascent has the same stationary policies.

    **Arguments**

    - `rewards`: reward of each of K arms, not all equal. `reference`: their probabilities under pi_ref.
    - `kl_weight`: beta > 0. `group_size`: G >= 2, or `None` for many completions.
    - `rule`: how rewards become advantages. `penalty`: ``"k3"``, as in the GRPO loss, or ``"kl"``, KL(pi || pi_ref).

    Raises `InputError` outside these ranges, and where the policy runs to the edge of the simplex: the kl penalty does
    not hold it when beta is small (see `points.folds`), the k3 penalty always does unless silent groups are dropped.
    """
    r, pi_ref = _rewards(rewards), _simplex("reference", reference)
    require(pi_ref.shape == r.shape, f"reference has {pi_ref.size} arms and rewards {r.size}; they must have as many.")
    require_positive("kl_weight", kl_weight)
    require(penalty in ("k3", "kl"), f"penalty is {penalty!r}; allowed are 'k3' and 'kl'.")
    preference, log_ref = _preference(r, group_size, rule), np.log(pi_ref)

    def ascent(logits: Float[np.ndarray, "arm"]) -> Float[np.ndarray, "arm"]:
        log_pi = log_softmax(logits)
        pi = np.exp(log_pi)
        if pi.max() > _SATURATED:
            return np.zeros_like(pi)
        cost = 1 - np.exp(log_ref - log_pi) if penalty == "k3" else log_pi - log_ref
        advantage = preference(pi) - kl_weight * cost
        return advantage - pi @ advantage

    path = solve_ivp(lambda _, x: ascent(x), (0, 1e3 / kl_weight), log_ref, method="LSODA", rtol=1e-7, atol=1e-9)
    # The sum of the logits is free; it is pinned so that Newton has a regular Jacobian.
    found = root(lambda x: ascent(x) + (x.sum() - path.y[:, -1].sum()), path.y[:, -1], tol=1e-14)
    pi = softmax(found.x)
    if np.abs(ascent(found.x)).max() > _RESIDUAL or pi.max() > _SATURATED:
        raise InputError(
            f"No stationary policy inside the simplex is reached at kl_weight = {kl_weight}, "
            f"group_size = {group_size}, penalty = {penalty!r}: the policy runs to the best arm. Raise kl_weight."
        )
    return pi


def k3_plateau(
    p_ref: float, kl_weight: float, group_size: int | None = None, rule: GroupRule = DEFAULT_RULE
) -> FixedPoint:
    """The plateau for 0/1 rewards under the k3 penalty: E s(p*) = beta (p* - p_ref), with its curvature.

        drift(theta; theta_old) = w R(theta_old) - beta w [ p_old (1/p - p_ref/p^2) - q_old (1/q - q_ref/q^2) ],
        kappa_now = beta [w* + 2 (2p* - 1)(p* - p_ref)],   kappa_old = -w* R' - beta (2p* - 1)(p* - p_ref),

    q = 1 - p. E s is concave in p while silent groups are kept, so there is exactly one and no fold: the penalty
    grows without bound as failures become rare. Many completions with a scale, and pairs (population):

        p* = [1 + 2 beta^2 p_ref + sqrt(1 + 4 beta^2 p_ref (1 - p_ref))]/(2 (1 + beta^2)),
        p* = [1 - beta + sqrt((1 - beta)^2 + 4 beta p_ref)]/2.

    Arguments as for `plateau`, but beta > 0. Raises `InputError` outside their ranges, and where p* > 1 - 1e-9.
    """
    require_probability("p_ref", p_ref)
    require_positive("kl_weight", kl_weight)
    if group_size is not None:
        require_group_size(group_size)

    def excess(theta: Float[np.ndarray, "point"]) -> tuple[np.ndarray, np.ndarray]:
        ratio = signal_ratio_derivatives(theta, group_size, rule)
        p, w = expit(theta), expit(theta) * expit(-theta)
        pull = (p - p_ref) / w
        return ratio.value - kl_weight * pull, ratio.slope - kl_weight * (1 + (2 * p - 1) * pull)

    found = crossings(excess, float(logit(p_ref)), HIGHEST_LOGIT)
    require(
        len(found) > 0,
        f"There is no fixed point below 1 - 1e-9 at p_ref = {p_ref}, kl_weight = {kl_weight}, "
        f"group_size = {group_size}. Raise kl_weight or lower p_ref.",
    )
    p, w = float(expit(found[0])), float(expit(found[0]) * expit(-found[0]))
    slope = float(signal_ratio_derivatives(found[0], group_size, rule).slope)
    skew = (2 * p - 1) * (p - p_ref)
    return FixedPoint(p, found[0], kl_weight * (w + 2 * skew), -w * slope - kl_weight * skew)


def _preference(r: Float[np.ndarray, "arm"], group_size: int | None, rule: GroupRule) -> Preference:
    """P as a function of the policy; what does not depend on the policy is computed once."""
    if group_size is None:

        def limit(pi: Float[np.ndarray, "arm"]) -> Float[np.ndarray, "arm"]:
            centred = r - pi @ r
            return centred if rule.scale == "none" else centred / np.sqrt(pi @ centred**2)

        return limit
    require_group_size(group_size)
    size = comb(group_size + r.size - 2, r.size - 1)
    require(
        size <= _MOST_GROUPS,
        f"group_size = {group_size} with {r.size} arms has {size} compositions; at most {_MOST_GROUPS} are enumerated. "
        "Take a smaller group, fewer arms, or group_size = None.",
    )
    others = _compositions(group_size - 1, r.size)
    log_coefficient = gammaln(group_size) - gammaln(others + 1.0).sum(axis=1)
    advantage = _advantages(others, r, group_size, rule)
    alike = r[:, None] == r[None, :]

    def exact(pi: Float[np.ndarray, "arm"]) -> Float[np.ndarray, "arm"]:
        mean = np.exp(log_coefficient + others @ np.log(pi)) @ advantage
        if rule.silent == "keep":
            return mean
        return mean / (1 - pi @ (alike @ pi) ** (group_size - 1))

    return exact


def _advantages(others: np.ndarray, r: np.ndarray, group_size: int, rule: GroupRule) -> np.ndarray:
    """The advantage of arm o beside each composition of the others, (composition, arm); 0 in a silent group."""
    mean = ((others @ r)[:, None] + r) / group_size
    variance = ((others @ r**2)[:, None] + r**2) / group_size - mean**2
    live = (others @ (r[:, None] != r[None, :])) > 0
    centred = np.where(live, r - mean, 0.0)
    if rule.baseline == "leave_one_out":
        centred *= group_size / (group_size - 1)
    if rule.scale == "none":
        return centred
    if rule.scale == "sample":
        variance = variance * (group_size / (group_size - 1))
    return centred / np.sqrt(np.where(live, variance, 1.0))


def _compositions(total: int, parts: int) -> np.ndarray:
    """Every way to write `total` as an ordered sum of `parts` counts (stars and bars)."""
    bars = np.array(list(combinations(range(total + parts - 1), parts - 1))).reshape(-1, parts - 1)
    edges = np.pad(bars, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, total + parts - 1)))
    return np.diff(edges, axis=1) - 1


def _simplex(name: str, values: ArrayLike) -> Float[np.ndarray, "arm"]:
    pi = np.asarray(values, dtype=np.float64)
    require(pi.ndim == 1 and pi.size >= 2, f"{name} has shape {pi.shape}; it must have one axis and at least two arms.")
    require(
        bool(np.all(pi > 0)) and abs(float(pi.sum()) - 1) < 1e-9,
        f"{name} is {pi}; its entries must be positive and sum to one.",
    )
    return pi


def _rewards(values: ArrayLike) -> Float[np.ndarray, "arm"]:
    r = np.asarray(values, dtype=np.float64)
    require(
        r.ndim == 1 and bool(np.all(np.isfinite(r))) and np.unique(r).size > 1,
        f"rewards is {r}; it must be one finite number per arm, not all equal.",
    )
    return r
