"""Invariant, changed or undecided: one rule, with the errors that it controls."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from sde_grpo.errors import require

Verdict = Literal["invariant", "changed", "undecided"]

FALSE_ALARM = 0.05  # of all questions asked together, where nothing changes
INSIDE = 0.95  # posterior mass in the region that makes a quantity invariant


class Region(NamedTuple):
    """Region of practical equivalence: `centre` - `half_width` to `centre` + `half_width`."""

    centre: float
    half_width: float

    @property
    def low(self) -> float:
        """Lower end."""
        return self.centre - self.half_width

    @property
    def high(self) -> float:
        """Upper end."""
        return self.centre + self.half_width


def certainty_to_change(questions: int) -> float:
    """1 - alpha/(2 m): posterior probability beyond one end of the region that makes a quantity changed.

    With m questions, each two-sided, the chance of any false "changed" is at most alpha = `FALSE_ALARM` (Bonferroni).
    """
    require(questions >= 1, f"questions is {questions}; at least one must be asked.")
    return 1 - FALSE_ALARM / (2 * questions)


def rope_mass(draws: Float[np.ndarray, "..."], region: Region) -> float:
    """Share of the draws inside the region."""
    return float(np.mean((draws >= region.low) & (draws <= region.high)))


def decide(draws: Float[np.ndarray, "..."], region: Region, questions: int = 1) -> Verdict:
    """Three-way verdict on a quantity whose null is the centre of the region.

    - changed: P(b > high) or P(b < low) is at least 1 - alpha/(2 m). On *one* side: for a wide posterior the mass
      outside on both sides together is near 1 whatever the truth, and would cry wolf.
    - invariant: P(low <= b <= high) >= `INSIDE`.
    - undecided: neither.

    What is controlled, for a posterior whose intervals cover as they say: with b at the null the chance of "changed"
    is at most alpha/m (two tails of alpha/(2 m), less what the region leaves between); with b at an end of the region
    it is at most alpha/(2 m), plus next to nothing. The chance of "invariant" is at most 1 - `INSIDE` for a b outside
    it. A prior that is centred on the null makes "changed" rarer still.

    **Arguments**

    - `draws`: of b, any shape.
    - `region`: practical equivalence.
    - `questions`: m >= 1, how many such quantities are judged together.
    """
    certainty = certainty_to_change(questions)
    if max(np.mean(draws > region.high), np.mean(draws < region.low)) >= certainty:
        return "changed"
    return "invariant" if rope_mass(draws, region) >= INSIDE else "undecided"
