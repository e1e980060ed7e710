"""GRPO solved to the optimum between refreshes: the recurrence of the success probability, round by round.

In round n the policy maximises E_pi[A] - beta KL(pi || pi_ref) - beta_old KL(pi || pi_{n-1}), the advantages A being
those of groups drawn from pi_{n-1}. The optimum is a tilt of the weighted geometric mean of pi_ref and pi_{n-1}, and
for 0/1 rewards, started at the reference, only the odds of success change:

    theta_n = [ beta theta_ref + beta_old theta_{n-1} + R(theta_{n-1}) ] / (beta + beta_old),   theta = logit p.

Quoted (Mroueh, arXiv 2503.06639): beta_old = 0 and many completions, R = 1/sqrt(p(1-p) + eps), whose map is
h(p) = sigmoid(logit p_ref + 1/(beta sqrt(p(1-p) + eps))); and that a mean-only, a mirror (beta = 0) and a mixed form
exist and amplify success. Derived here: the formula above for the three of them, every finite group and
`GroupRule` (R = E s / w is the difference of the mean advantages of a success and of a failure), and the multiplier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import expit, logit

from sde_grpo.errors import require
from sde_grpo.fixed_points.crossings import HIGHEST_LOGIT, crossings
from sde_grpo.fixed_points.points import DEFAULT_RULE
from sde_grpo.fixed_points.ratio import signal_ratio_derivatives
from sde_grpo.groups import GroupRule
from sde_grpo.ranges import require_count, require_group_size, require_not_negative, require_probability

_SATURATED_LOGIT = 700.0  # p = 1 to the last bit, and exp is still finite


class RoundFixedPoint(NamedTuple):
    """A fixed point of the recurrence.

    - `p`: success probability; above p_ref, so GRPO amplifies success.
    - `multiplier`: d p_n / d p_{n-1} there, (beta_old + R')/(beta + beta_old). The error shrinks by its modulus, the
      contraction factor, in every round; where it is negative the approach alternates, below -1 it settles on a
      cycle of two rounds instead.
    """

    p: float
    multiplier: float

    @property
    def stable(self) -> bool:
        """Contraction factor below one."""
        return abs(self.multiplier) < 1

    @property
    def rounds_per_e_fold(self) -> float:
        """-1/ln |multiplier|: rounds in which the error falls e-fold. Raises `InputError` where it grows."""
        require(self.stable, f"multiplier is {self.multiplier:.4g} at p = {self.p:.6g}: the error does not shrink.")
        return -1 / float(np.log(abs(self.multiplier))) if self.multiplier else 0.0


@dataclass(frozen=True, kw_only=True)
class Recurrence:
    """theta_n = [beta theta_ref + beta_old theta_{n-1} + R(theta_{n-1})]/(beta + beta_old).

    - `p_ref`: success probability of the reference policy, in (0, 1).
    - `kl_weight`: beta >= 0, weight of the KL term to the reference; 0 is the mirror form, which has no fixed point.
    - `previous_weight`: beta_old >= 0, weight of the KL term to the policy of the round before. It slows the
      approach and calms it, but moves no fixed point. beta + beta_old must be positive.
    - `group_size`: G >= 2, or `None` for many completions.
    - `rule`: how rewards become advantages; `scale="none"` is the mean-only form, R = 1 for many completions.
    - `smoothing`: eps >= 0 under the square root, for many completions with a scale only. It bounds R by
      1/sqrt(eps), so that there is always a fixed point.

    Raises `InputError` outside these ranges.
    """

    p_ref: float
    kl_weight: float
    previous_weight: float = 0.0
    group_size: int | None = None
    rule: GroupRule = DEFAULT_RULE
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        require_probability("p_ref", self.p_ref)
        require_not_negative("kl_weight", self.kl_weight)
        require_not_negative("previous_weight", self.previous_weight)
        require_not_negative("smoothing", self.smoothing)
        if self.group_size is not None:
            require_group_size(self.group_size)
        require(
            self.kl_weight + self.previous_weight > 0,
            "kl_weight and previous_weight are both 0; a round has an optimum below p = 1 only if one is positive.",
        )
        require(
            self.smoothing == 0 or (self.group_size is None and self.rule.scale != "none"),
            f"smoothing is {self.smoothing} with group_size = {self.group_size} and scale = {self.rule.scale!r}; it is "
            "defined for many completions (group_size = None) divided by a standard deviation. Set it to 0.",
        )

    def next_p(self, p: float) -> float:
        """h(p): the success probability one round after p in (0, 1)."""
        require_probability("p", p)
        return float(expit(self._next_logit(float(logit(p)))))

    def trajectory(self, p_start: float, rounds: int) -> Float[np.ndarray, "rounds_plus_1"]:
        """p_0 = p_start, p_1 = h(p_0), ... over `rounds` >= 1 rounds. A policy that saturates is held at 1."""
        require_probability("p_start", p_start)
        require_count("rounds", rounds, 1)
        theta = [float(logit(p_start))]
        for _ in range(rounds):
            theta.append(self._next_logit(theta[-1]))
        return expit(np.array(theta))

    def fixed_points(self) -> tuple[RoundFixedPoint, ...]:
        """Every p = h(p) up to 1 - 1e-9, ascending, stable or not: R(theta) = beta (theta - theta_ref)."""
        theta_ref = float(logit(self.p_ref))

        def excess(theta: Float[np.ndarray, "point"]) -> tuple[np.ndarray, np.ndarray]:
            value, slope = self._ratio(theta)
            return value - self.kl_weight * (theta - theta_ref), slope - self.kl_weight

        total = self.kl_weight + self.previous_weight
        return tuple(
            RoundFixedPoint(float(expit(x)), (self.previous_weight + float(self._ratio(np.array(x))[1])) / total)
            for x in crossings(excess, theta_ref, HIGHEST_LOGIT)
        )

    def _next_logit(self, theta: float) -> float:
        pull = self.kl_weight * float(logit(self.p_ref)) + self.previous_weight * theta
        push = float(self._ratio(np.array(theta))[0])
        return min((pull + push) / (self.kl_weight + self.previous_weight), _SATURATED_LOGIT)

    def _ratio(self, theta: Float[np.ndarray, "..."]) -> tuple[np.ndarray, np.ndarray]:
        """R and R', smoothed if asked for."""
        if not self.smoothing:
            return signal_ratio_derivatives(theta, self.group_size, self.rule)[:2]
        p, w = expit(theta), expit(theta) * expit(-theta)
        value = 1 / np.sqrt(w + self.smoothing)
        return np.asarray(value), np.asarray(w * (2 * p - 1) / 2 * value**3)
