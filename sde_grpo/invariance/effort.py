"""How much more data would decide what is undecided."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from sde_grpo.invariance.verdict import INSIDE, Region, certainty_to_change

ASSURANCE = 0.8  # chance of a decision that counts as enough data
SILENT = 0.9  # posterior sd over prior sd from which on the data are said to say nothing
FACTORS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # times the data at hand; beyond, no promise is made


class Effort(NamedTuple):
    """What it would take to decide.

    - `factor`: how many times the present data (runs of the same kind) give a decision with chance `ASSURANCE`; None
      where even the last of `FACTORS` does not, or where the data say nothing.
    - `chance`: the chance of a decision with `factor` times the data, or with the most of `FACTORS`.
    - `says_nothing`: whether the posterior is its prior (standard deviations within 10 %).
    """

    factor: int | None
    chance: float
    says_nothing: bool


def effort(mean: float, sd: float, prior_sd: float, region: Region, questions: int = 1) -> Effort:
    """Smallest f among `FACTORS` for which f times the data decide with chance `ASSURANCE`.

    The posterior is taken as normal, 1/s^2 = 1/s_0^2 + I, with the information I of the data proportional to their
    amount, so

        1/s_f^2 = 1/s_0^2 + f I,    and its mean, as predicted today, is Normal(m, s^2 - s_f^2):

    the truth is as uncertain as the posterior says, and is not taken to sit at today's estimate. The chance of a
    decision is the probability that this mean lands where `decide` says changed or invariant.

    **Arguments**

    - `mean`, `sd`: m and s of the posterior of b.
    - `prior_sd`: s_0.
    - `region`, `questions`: as for `decide`.

    Assumes that the scatter between runs, the noise and the design stay as they are.
    """
    if sd >= SILENT * prior_sd:
        return Effort(None, 0.0, True)
    information = 1 / sd**2 - 1 / prior_sd**2
    chance = 0.0
    for factor in FACTORS:
        later = (1 / prior_sd**2 + factor * information) ** -0.5
        chance = _chance(mean, np.sqrt(sd**2 - later**2), later, region, questions)
        if chance >= ASSURANCE:
            return Effort(factor, chance, False)
    return Effort(None, chance, False)


def _chance(mean: float, spread: float, later: float, region: Region, questions: int) -> float:
    """Probability that a later mean, Normal(mean, spread), lies where a posterior of sd `later` is decisive."""
    beyond = later * norm.ppf(certainty_to_change(questions))
    changed = norm.sf(region.high + beyond, mean, spread) + norm.cdf(region.low - beyond, mean, spread)
    reach = _reach(later, region.half_width)
    invariant = 0.0
    if reach is not None:
        low, high = region.centre - reach, region.centre + reach
        invariant = norm.cdf(high, mean, spread) - norm.cdf(low, mean, spread)
    return float(changed + invariant)


def _reach(sd: float, half_width: float) -> float | None:
    """How far from the centre the mean may lie for `INSIDE` of the mass to be in the region; None where it cannot."""
    offsets = np.linspace(0, half_width, 401)
    inside = norm.cdf((half_width - offsets) / sd) - norm.cdf((-half_width - offsets) / sd)
    fits = offsets[inside >= INSIDE]
    return float(fits[-1]) if fits.size else None
