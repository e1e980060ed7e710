"""The priors: weakly informative, each with its reason (the table of this folder's README is made from this one)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from numpyro import distributions as dist


class Prior(NamedTuple):
    """One row of the prior table: the symbol, the prior as text, and why."""

    symbol: str
    prior: str
    reason: str


# Medians and spreads. Time is measured in lengths of the run, rewards in their own unit scale.
RELAXATION_MEDIAN, RELAXATION_SPREAD = 0.25, 1.5
INERTIA_MEDIAN, INERTIA_SPREAD = 0.02, 2.0
FAST_WEIGHT_MEAN, FAST_WEIGHT_SPREAD = 0.25, 0.6
LEVEL_SPREAD = 5.0
FLUCTUATION_LOGIT, FLUCTUATION_BOUNDED, FLUCTUATION_UNBOUNDED = 0.5, 0.15, 1.0
NOISE_UNBOUNDED, NOISE_BOUNDED = 2.0, 1.0

PRIORS: dict[str, Prior] = {
    "relaxation_time": Prior(
        "tau",
        "LogNormal(log(run length / 4), 1.5)",
        "90 % between a fiftieth of the run and three runs: a slower mode cannot be told from a flat line",
    ),
    "inertia_ratio": Prior(
        "q",
        "LogNormal(log 0.02, 2) (free dynamics)",
        "from the overdamped limit (7e-4) to ringing (0.5); one draw in ten is oscillatory",
    ),
    "fast_weight": Prior(
        "w",
        "Normal(0.25, 0.6) (free dynamics)",
        "90 % in -0.74..1.24: slow start, single exponential, fast rise then slow drift, overshoot",
    ),
    "start": Prior(
        "p0", "Uniform(range), or Normal(median, 5 sd) without a range", "the first batch tells it, whatever it is"
    ),
    "fixed_point": Prior(
        "p*", "Uniform(range), or Normal(median, 5 sd) without a range", "no plateau is favoured, none beyond the range"
    ),
    "stationary_sd": Prior(
        "sqrt(T/K)",
        "HalfNormal(0.5 logit; 0.15 of the range; 1 sd without a range)",
        "no process noise is the mode: public traces show none",
    ),
    "prompt_correlation": Prior(
        "rho", "Uniform(0, 1) (range, G and P known)", "between independent completions and identical ones"
    ),
    "dispersion": Prior(
        "d", "HalfNormal(1) on sqrt(d) (range known, G or P not)", "d = 1 is one coin flip per logged value"
    ),
    "noise_sd": Prior("sigma", "HalfNormal(2 sd) (no range)", "the spread of the rewards bounds their noise"),
}


def level(bounded: bool) -> dist.Distribution:
    """Prior of a reward level on the unit scale: `start` and `fixed_point`."""
    from numpyro import distributions as dist

    return dist.Uniform(0.0, 1.0) if bounded else dist.Normal(0.0, LEVEL_SPREAD)
