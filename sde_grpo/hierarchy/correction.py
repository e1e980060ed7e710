"""What the size of a group alone should change, by the exact finite-G drift: offsets for the regression.

With k successes among G completions a group drives the logit by E s(k) (`sde_grpo.groups`). Relative to many
completions a run of group size G is slower by f = E s / w^h, averaged here over its own rise, and prompts that differ
(intraclass correlation rho: success probabilities from a beta law of concentration 1/rho - 1) make f smaller still.
With a KL anchor of known weight beta the plateau itself moves: the reference that explains the observed level,
theta_ref = theta* - R_G(theta*)/beta, gives the level and the curvature at any other group size.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, expit, logit
from scipy.stats import betabinom

from sde_grpo.errors import InputError, require
from sde_grpo.fixed_points import plateau, signal_ratio_derivatives
from sde_grpo.groups import GroupRule, signal_values
from sde_grpo.hierarchy.pairing import residual
from sde_grpo.hierarchy.sweep import Sweep
from sde_grpo.runs import Run

_INFLATION = 1.5  # variance of y_k - (y_{k-1} + y_{k+1})/2 over that of y
_PATH = 1 - np.exp(-np.linspace(0.0, 2.0, 21))  # of the rise, evenly spaced in time

Vector = NDArray[np.float64]


def finite_group_offsets(sweep: Sweep, rule: GroupRule) -> tuple[Vector, Vector]:
    """Of log curvature and of the level (in the coordinate of the link), per run: finite group over many completions.

    Raises `InputError` where G is not known for every run, or the rewards are not in [0, 1].
    """
    require(
        sweep.group_size is not None,
        "The finite-G correction needs the group size of every run; give it with the configuration, or leave it out.",
    )
    assert sweep.group_size is not None
    require(
        all(run.configuration.reward_range == (0.0, 1.0) for run in sweep.runs),
        "The finite-G correction is derived for 0/1 rewards; these runs have another range. Leave it out.",
    )
    sizes = [int(size) for size in sweep.group_size]
    rho = float(np.median([_correlation(run, size) for run, size in zip(sweep.runs, sizes, strict=True)]))
    found = [_offsets(run, size, rule, rho, sweep.link) for run, size in zip(sweep.runs, sizes, strict=True)]
    return np.array([f[0] for f in found]), np.array([f[1] for f in found])


def _correlation(run: Run, group_size: int) -> float:
    """rho from the noise of a run: variance over that of independent flips is 1 + (G - 1) rho."""
    prompts = run.configuration.prompts_per_step
    if prompts is None or group_size < 2:
        return 0.0
    inner = run.reward[1:-1]
    expected = np.mean(inner * (1 - inner)) / (group_size * prompts * (run.configuration.rows_averaged or 1.0))
    seen = np.mean(np.square(list(residual(run).values()))) / _INFLATION
    return float(np.clip((seen / max(expected, 1e-12) - 1) / (group_size - 1), 0.0, 0.9))


def _offsets(run: Run, group_size: int, rule: GroupRule, rho: float, link: str) -> tuple[float, float]:
    tenth = max(len(run.reward) // 10, 1)
    start, end = (float(np.clip(np.mean(part), 0.01, 0.99)) for part in (run.reward[:3], run.reward[-tenth:]))
    beta = run.configuration.kl_weight
    if beta:
        theta = float(logit(end))
        ratio = float(signal_ratio_derivatives(theta, group_size, rule).value)
        p_ref = float(expit(theta - ratio / beta))
        try:
            here, many = (plateau(p_ref, beta, size, rule) for size in (group_size, None))
        except InputError:  # nothing holds a group of many completions: the anchor is too weak to matter
            pass
        else:
            shift = theta - many.theta if link == "logit" else end - many.p
            return float(np.log(here.curvature / many.curvature)), float(shift)
    path = start + (end - start) * _PATH
    return float(np.mean([np.log(_drift_factor(p, group_size, rule, rho)) for p in path])), 0.0


def _drift_factor(p: float, group_size: int, rule: GroupRule, rho: float) -> float:
    """E s over that of many completions, the prompts' success probabilities from a beta law of mean p."""
    concentration = 1 / max(rho, 1e-4) - 1
    a, b = p * concentration, (1 - p) * concentration
    drift = betabinom.pmf(np.arange(group_size + 1), group_size, a, b) @ signal_values(group_size, rule)
    h = rule.limit_power
    return float(drift / np.exp(betaln(a + h, b + h) - betaln(a, b)))
