"""Does the fitted model reproduce the reward curve? Posterior predictive checks and what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kstwo, norm

from sde_grpo.checks.messages import Side, verdict_messages
from sde_grpo.checks.pit import mean_and_spread, pit_values, uniformity
from sde_grpo.checks.statistics import STATISTICS, autocorrelation
from sde_grpo.errors import require
from sde_grpo.intervals import LOWER, UPPER, interval

if TYPE_CHECKING:
    from sde_grpo.fit import Fit

Vector = NDArray[np.float64]

FLAG_BELOW = 0.01
WHITE = 0.2  # residuals of public logs are white to within +-0.11 (theory note, section 6); twice that matters


@dataclass(frozen=True)
class CheckRow:
    """One check: the observed value (mean over draws), the 90 % interval of the replicated ones, the p-value."""

    statistic: str
    observed: float
    q05: float
    q95: float
    p_value: float
    flagged: bool


@dataclass(frozen=True, eq=False)
class CheckReport:
    """All checks of one fit: `rows`, the PIT values (step,) with their p-value, and the verdict in `messages`."""

    rows: tuple[CheckRow, ...]
    pit: Vector
    pit_p_value: float
    messages: tuple[str, ...]


def two_sided(observed: Vector, replicated: Vector) -> tuple[float, Side]:
    """min(1, 2 min(P(T_rep >= T_obs), P(T_rep <= T_obs))) over draws (draw,), and the side T_obs lies on."""
    upper, lower = float(np.mean(replicated >= observed)), float(np.mean(replicated <= observed))
    return min(1.0, 2 * min(upper, lower)), "above" if upper < lower else "below"


def _wander(reward: Vector, mean: Vector, sd: Vector) -> CheckRow:
    """Lag-1 autocorrelation about the trajectory against that of white noise, N(0, 1/steps), one-sided."""
    observed, width = float(np.mean(autocorrelation(reward, mean, sd))), 1 / np.sqrt(len(reward))
    p_value = float(norm.sf(observed / width))
    flagged = p_value < FLAG_BELOW and observed > WHITE
    low, high = (float(norm.ppf(q) * width) for q in (LOWER, UPPER))
    return CheckRow("wander", observed, low, high, p_value, flagged)


def _require_usable(reward: Vector, arrays: dict[str, Vector]) -> None:
    steps = reward.shape[-1] if reward.ndim == 1 else 0
    require(steps >= 3, f"Checks need a reward of shape (step,) with at least 3 steps; given shape {reward.shape}.")
    shape = arrays["mean"].shape
    require(bool(np.isfinite(reward).all()), "The reward holds values that are not finite; leave those steps out.")
    for name, array in arrays.items():
        require(
            array.shape == shape and array.shape[1:] == (steps,) and shape[0] > 0,
            f"{name} has shape {array.shape}; allowed is (draw, {steps}), with the same draws as mean ({shape}).",
        )
        require(bool(np.isfinite(array).all()), f"{name} holds values that are not finite; the fit has failed.")
        require(
            not name.endswith("sd") or bool((array > 0).all()),
            f"{name} must be positive; its smallest value is {array.min():g}.",
        )


def check_arrays(
    reward: Vector, replicated: Vector, mean: Vector, sd: Vector, ahead_mean: Vector, ahead_sd: Vector
) -> CheckReport:
    """p = min(1, 2 min(P(T(y_rep, θ) >= T(y, θ)), P(T(y_rep, θ) <= T(y, θ)))) for each statistic T, and the PIT.

    **Arguments**, in units of the reward: `reward`, y, (step,); all others (draw, step): `replicated` traces y_rep,
    the deterministic trajectory `mean`, the marginal `sd` of a reward about it, and the law of each reward given
    those before it, `ahead_mean` and `ahead_sd`.

    A statistic is flagged when p < 0.01. Nine checks test the model, so a run that it describes perfectly raises a
    flag with probability at most 9 x 0.01 = 9 %: at worst one run in eleven, and 6 to 7 %, one in fifteen, in
    simulations with known parameters, for the checks overlap. A limit of 0.05 would allow up to 45 %. After a fit
    flags are rarer still, for the parameters were chosen to match the same data (Meng 1994,
    doi:10.1214/aos/1176325622); for the same reason a run without flags does not prove the model. D draws tell no p
    below 2/D from 0, so the level holds for 200 independent draws or more.

    The row ``wander`` asks whether the trajectory alone, with white noise about it, would do: the model's own
    fluctuation can absorb a trajectory of the wrong shape, and then nothing else notices. It is flagged when the
    lag-1 autocorrelation of the residuals exceeds 0.2 and white noise with p < 0.01.

    The row ``pit`` holds the Kolmogorov-Smirnov distance of the PIT values from uniform, its interval under
    uniformity, and its p-value. Raises `InputError` on shapes that disagree, values not finite, sd not positive.
    """
    given = {"mean": mean, "replicated": replicated, "sd": sd, "ahead_mean": ahead_mean, "ahead_sd": ahead_sd}
    reward, arrays = np.asarray(reward, dtype=float), {n: np.asarray(v, dtype=float) for n, v in given.items()}
    _require_usable(reward, arrays)
    rows: list[CheckRow] = []
    flags: dict[str, Side] = {}
    for statistic in STATISTICS:
        observed = statistic.function(reward, arrays["mean"], arrays["sd"])
        replicate = statistic.function(arrays["replicated"], arrays["mean"], arrays["sd"])
        p_value, side = two_sided(observed, replicate)
        q05, q95 = interval(replicate)
        flagged = p_value < FLAG_BELOW
        rows.append(CheckRow(statistic.name, float(np.mean(observed)), float(q05), float(q95), p_value, flagged))
        if flagged:
            flags[statistic.name] = side
    pit = pit_values(reward, arrays["ahead_mean"], arrays["ahead_sd"])
    distance, p_value = uniformity(pit)
    q05, q95 = kstwo.ppf([LOWER, UPPER], len(pit))
    rows.append(CheckRow("pit", distance, float(q05), float(q95), p_value, p_value < FLAG_BELOW))
    if p_value < FLAG_BELOW:
        flags["pit"] = "above"
    rows.append(_wander(reward, arrays["mean"], arrays["sd"]))
    if rows[-1].flagged and "autocorrelation" not in flags:
        flags["wander"] = "above"
    return CheckReport(tuple(rows), pit, p_value, verdict_messages(flags, mean_and_spread(pit)))


def check_fit(fit: Fit) -> CheckReport:
    """`check_arrays` on the posterior predictive draws of `fit`, chains pooled."""
    names = ("reward", "mean", "marginal_sd", "ahead_mean", "ahead_sd")
    drawn = (fit.predictive[name].transpose("chain", "draw", "step").to_numpy() for name in names)
    return check_arrays(fit.run.reward, *(v.reshape(-1, v.shape[-1]) for v in drawn))


def rows_as_records(report: CheckReport) -> list[dict[str, Any]]:
    """The rows as plain data, for ``summary.json``."""
    return [
        {
            "statistic": row.statistic,
            "observed": row.observed,
            "p_value": row.p_value,
            "q05": row.q05,
            "q95": row.q95,
            "flagged": row.flagged,
        }
        for row in report.rows
    ]
