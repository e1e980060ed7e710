"""How a group's rewards become advantages, and the signal s(k) that a group with k successes contributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from sde_grpo.errors import require
from sde_grpo.ranges import require_group_size

Scale = Literal["population", "sample", "none"]
Baseline = Literal["group_mean", "leave_one_out"]
Silent = Literal["keep", "drop"]

_ALLOWED = {
    "scale": ("population", "sample", "none"),
    "baseline": ("group_mean", "leave_one_out"),
    "silent": ("keep", "drop"),
}


@dataclass(frozen=True, kw_only=True)
class GroupRule:
    """A_i = (r_i - baseline_i) / scale: the advantage of completion i in a group of G. Hashable, so it may be static.

    **Arguments**

    - `scale`: standard deviation of the whole group with ddof 0 (``"population"``) or ddof 1 (``"sample"``, the
      default of torch and so of TRL and verl), or 1 (``"none"``, Dr. GRPO).
    - `baseline`: ``"group_mean"``, which includes the completion's own reward, or ``"leave_one_out"``, the mean of
      the G - 1 others (RLOO when `scale` is ``"none"``).
    - `silent`: what becomes of a group whose rewards are all equal, whose advantages are all zero. ``"keep"``: it
      counts in the average over groups. ``"drop"``: it is left out and another is drawn in its place (dynamic
      sampling), so the average is over groups with 0 < k < G.

    All twelve combinations are meaningful. Since r_i - (k - r_i)/(G - 1) = (G/(G - 1)) (r_i - k/G), leaving the own
    reward out of the baseline only multiplies every advantage by G/(G - 1); with a scale, that scale is still the
    standard deviation of the whole group. One that leaves the own reward out is not offered: it is zero for the odd
    one out of every group with k = 1 or k = G - 1, so its advantages are undefined.

    Raises `InputError` for any other value. Source: theory note section 5, "Variants".
    """

    scale: Scale = "population"
    baseline: Baseline = "group_mean"
    silent: Silent = "keep"

    def __post_init__(self) -> None:
        for name, allowed in _ALLOWED.items():
            value = getattr(self, name)
            require(value in allowed, f"{name} is {value!r}; allowed are {', '.join(map(repr, allowed))}.")

    @property
    def limit_power(self) -> float:
        """h in E s -> w^h for many completions, w = p(1-p): 1/2 where a standard deviation divides, else 1."""
        return 1.0 if self.scale == "none" else 0.5

    @property
    def correction_power(self) -> float:
        """c in s(k) = (1 - 1/G)^c [(k/G)(1 - k/G)]^h: what ddof 1 (+1/2) and leave-one-out (-1) change."""
        return (0.5 if self.scale == "sample" else 0.0) - (1.0 if self.baseline == "leave_one_out" else 0.0)


DEFAULT_RULE = GroupRule()


def signal_values(group_size: int, rule: GroupRule = DEFAULT_RULE) -> Float[np.ndarray, "group_size_plus_1"]:
    """s(k) = (1/G) sum_i A_i d log pi(a_i)/d theta = (1 - 1/G)^c [(k/G)(1 - k/G)]^h, k = 0 ... G.

    The score of a success is 1 - p and of a failure -p, that is r_i - p; the advantages sum to zero, so p drops
    out. h and c are `rule.limit_power` and `rule.correction_power`; s(0) = s(G) = 0 under every rule.

    **Arguments**

    - `group_size`: G >= 2, completions per prompt.
    - `rule`: how rewards become advantages; `rule.silent` changes which groups count, not s(k).

    Returns gradients with respect to the logit, dimensionless. Raises `InputError` for G outside its range.
    """
    require_group_size(group_size)
    k = np.arange(group_size + 1)
    spread = k * (group_size - k) / group_size**2
    return (1 - 1 / group_size) ** rule.correction_power * spread**rule.limit_power
