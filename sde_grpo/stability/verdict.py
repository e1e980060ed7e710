"""What a stability report means, in two or three sentences, and what to change."""

from __future__ import annotations

import math

import numpy as np

from sde_grpo.intervals import interval
from sde_grpo.stability.critical import REFRESH_LIMIT
from sde_grpo.stability.report import StabilityReport

_RISK = 0.05  # probability of instability that is worth a warning


def verdict(report: StabilityReport) -> list[str]:
    """Safe, rings or unstable; by which factor; what to change. Of draws, factors are medians with 90 % intervals."""
    lines = [_headline(report)]
    if report.regime != "unstable" and report.curvature.ndim and report.probability_unstable >= _RISK:
        lines.append(
            "The curvature is not known well enough to rule instability out: probability "
            f"{report.probability_unstable:.0%}. Below learning rate {_number(_least(report.critical_learning_rate))} "
            "it is at most 5 %."
        )
    paper = report.critical_stiffness_paper
    if np.isfinite(paper):
        ratio = paper / report.critical_stiffness
        lines.append(
            f"The paper's limit, {_number(paper)} per step, is {_number(ratio)} times the exact "
            f"{_number(report.critical_stiffness)}."
        )
    return lines


def _headline(report: StabilityReport) -> str:
    rate, sure = float(report.rule.learning_rate), " (95 % sure)" if report.curvature.ndim else ""
    below = f"Go below {_number(_least(report.critical_learning_rate))}{sure}"
    if report.regime == "unstable":
        return (
            f"Unstable: the learning rate {_number(rate)} is {_span(1 / report.margin)} times the largest that "
            f"these settings bear. {below}{_or_refresh(report)}."
        )
    if _middle(report.margin) < 1:
        return (
            "Stable only within a window: lower learning rates are unstable, and the first limit lies at "
            f"{_span(report.margin)} times this one. {below} to be on the safe side."
        )
    room = f"could rise {_span(report.margin)} times before the run is unstable{_interval_room(report)}."
    if report.regime == "oscillatory":
        return (
            f"Stable, but rings: the reward overshoots its plateau by about {_overshoot(report)} of the rise and "
            f"swings with period {_span(report.period)} steps. The learning rate {room} "
            f"Below {_number(_least(rate * report.ringing_margin))}{sure} it would not ring."
        )
    rings = np.isfinite(report.ringing_stiffness)
    ringing = f"begins to ring at {_span(report.ringing_margin)} times" if rings else "does not ring before that"
    return f"Safe: stable and without overshoot. The learning rate {room} It {ringing}."


def _or_refresh(report: StabilityReport) -> str:
    """The refresh interval that would do instead, where there is one."""
    if report.critical_refresh_interval is None:
        return ""
    longest = _least(report.critical_refresh_interval)
    if longest < 1 or longest >= report.rule.refresh_interval:
        return ""
    what = "updates per rollout" if report.rule.lag_schedule == "periodic" else "steps of lag"
    return f", or allow at most {math.floor(longest)} {what}"


def _interval_room(report: StabilityReport) -> str:
    if report.critical_refresh_interval is None:
        return ""
    longest = _least(report.critical_refresh_interval)
    if longest <= report.rule.refresh_interval:
        return ""
    what = "updates per rollout" if report.rule.lag_schedule == "periodic" else "steps of lag"
    return f", or go to {f'{math.floor(longest)}' if longest <= REFRESH_LIMIT else f'over {REFRESH_LIMIT}'} {what}"


def _overshoot(report: StabilityReport) -> str:
    """The swing left after half a period: exact for the oscillator from rest."""
    share = 100 * np.sqrt(report.decay_per_cycle)
    return f"{_span(share)} %" if _middle(share[np.isfinite(share)]) >= 0.1 else "less than 0.1 %"


def _least(values: np.ndarray) -> float:
    """The value itself, or the 5 % quantile of draws; infinite stands as 1e300, which interpolates."""
    finite = np.minimum(values, 1e300)
    return float(finite) if finite.ndim == 0 else float(interval(finite)[0])


def _middle(values: np.ndarray) -> float:
    return float(np.median(values))


def _span(values: np.ndarray) -> str:
    """The value, or median [5 %, 95 %] of the draws that have one."""
    if values.ndim == 0:
        return _number(float(values))
    known = values[np.isfinite(values)]
    low, high = interval(known)
    return f"{_number(_middle(known))} [{_number(low)}, {_number(high)}]"


def _number(x: float) -> str:
    return f"{x:.3g}"
