"""The stability limits of the truncated theory, in closed form (theory note, sections 3 and 4)."""

from __future__ import annotations

import math

from sde_grpo.oscillator import UpdateRule


def paper_stiffness(rule: UpdateRule) -> float:
    """a = (1 - mu) / (phi K_ref): the paper's limit, phi a K_ref < 1 - mu; per step, infinite where phi K_ref <= 0.

    Under the constant schedule K_ref is the lag L, and of a mixed lag the mean. Source: paper Proposition 9.
    """
    mean_lag, _ = rule.lag_moments
    return _limit(rule, mean_lag if rule.lag_schedule == "constant" else rule.refresh_interval)


def average_stiffness(rule: UpdateRule) -> float:
    """a = (1 - mu) / (phi m1): where the damping C = (1 - mu) - phi a m1 vanishes, with the mean lag m1.

    Periodic refresh has m1 = (K_ref - 1)/2, so this is 2 K_ref/(K_ref - 1) times the paper's limit; under constant lag
    the two agree. Per step, infinite where phi m1 <= 0. Source: theory note section 3.
    """
    mean_lag, _ = rule.lag_moments
    return _limit(rule, mean_lag)


def _limit(rule: UpdateRule, lag: float) -> float:
    pull = float(rule.stale_fraction) * lag
    return (1 - float(rule.momentum)) / pull if pull > 0 else math.inf
