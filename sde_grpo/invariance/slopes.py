"""What draws of a slope (or of an exponent) say: estimate, mass in the region of equivalence, Bayes factor, verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from sde_grpo.intervals import describe
from sde_grpo.invariance.bayes_factor import BayesFactor, savage_dickey
from sde_grpo.invariance.effort import Effort, effort
from sde_grpo.invariance.verdict import Region, Verdict, decide, rope_mass


@dataclass(frozen=True)
class SlopeTest:
    """A slope judged.

    - `mean`, `sd`, `q05`, `q95`: of the posterior, equal-tailed 90 %.
    - `region`: practical equivalence.
    - `rope_mass`: posterior probability of the region.
    - `bayes_factor`: in favour of the centre of the region, with its Monte-Carlo error.
    - `verdict`: see `decide`.
    - `effort`: what would decide; None unless undecided.
    """

    mean: float
    sd: float
    q05: float
    q95: float
    region: Region
    rope_mass: float
    bayes_factor: BayesFactor
    verdict: Verdict
    effort: Effort | None

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        factor, undecided = self.bayes_factor, self.effort
        return {
            "slope": {"mean": self.mean, "q05": self.q05, "q95": self.q95},
            "rope": [self.region.low, self.region.high],
            "rope_mass": self.rope_mass,
            "bayes_factor": factor.value,
            "bayes_factor_error": None if factor.bound else factor.error,
            "bayes_factor_is_bound": factor.bound,
            "verdict": self.verdict,
            "effort": None if undecided is None else undecided._asdict(),
        }


def slope_test(
    draws: Float[np.ndarray, "chain draw"],
    region: Region,
    prior_sd: float,
    *,
    prior_density: float,
    questions: int = 1,
) -> SlopeTest:
    """Judge draws of b against the region around its null.

    **Arguments**

    - `draws`: of b, (chain, draw).
    - `region`: practical equivalence, in the unit of b; its centre is the null.
    - `prior_sd`: standard deviation of the prior of b, in the same unit: what the data are compared with.
    - `prior_density`: of b at the null, per unit of b.
    - `questions`: how many such quantities are judged together.
    """
    found = describe(draws)
    verdict = decide(draws, region, questions)
    return SlopeTest(
        **{name: found[name] for name in ("mean", "sd", "q05", "q95")},
        region=region,
        rope_mass=rope_mass(draws, region),
        bayes_factor=savage_dickey(draws, region.centre, prior_density),
        verdict=verdict,
        effort=effort(found["mean"], found["sd"], prior_sd, region, questions) if verdict == "undecided" else None,
    )
