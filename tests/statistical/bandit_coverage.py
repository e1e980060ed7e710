"""Do the 90 % intervals cover the truth? Fits to sampled GRPO on the softmax bandit, whose truth is exact.

    uv run python -m tests.statistical.bandit_coverage [--replicates 40] [--out FILE.json]

*Near* runs start close enough to the fixed point for the linearisation to hold: fixed point and curvature must be
covered at a rate inside the binomial bounds. *Far* runs start where the bandit is nonlinear: the bias of the
curvature under each link is measured, and how often the checks notice.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from scipy.stats import binom

from sde_grpo.bandit import BanditSettings, curvature, fixed_point, simulate
from sde_grpo.intervals import LOWER, PROBABILITY, UPPER, interval

if TYPE_CHECKING:
    from sde_grpo.model import Link

NEAR = {"kl_weight": 2.5, "p_ref": 0.5, "group_size": 8, "prompts_per_step": 64, "steps": 300, "momentum": 0.0}
START_NEAR, START_FAR = 0.04, 0.1


def settings(start: float, learning_rate: float) -> BanditSettings:
    """The bandit of both sets: they differ in where they start."""
    return BanditSettings(p_start=start, learning_rate=learning_rate, refresh_interval=1, **NEAR)


def fit_one(reward: np.ndarray, setting: BanditSettings, link: Link, seed: int):
    """A mechanistic fit of one replicate."""
    from sde_grpo import Configuration, fit_run, run_from_arrays

    known = Configuration(
        group_size=setting.group_size,
        prompts_per_step=setting.prompts_per_step,
        learning_rate=setting.learning_rate,
        momentum=setting.momentum,
        momentum_kind="heavy_ball",
        refresh_interval=1,
        reward_range=(0.0, 1.0),
    )
    run = run_from_arrays(np.arange(1, len(reward) + 1), reward, configuration=known)
    return fit_run(run, link=link, seed=seed)


def study(replicates: int, start: float, link: Link, seed: int) -> dict[str, Any]:
    """Coverage and bias of fixed point and curvature over `replicates` runs, and how often the checks flag."""
    from sde_grpo import check_fit

    truth = {
        "fixed_point": fixed_point(0.5, 2.5, NEAR["group_size"]),
        "curvature": curvature(0.5, 2.5, NEAR["group_size"]),
    }
    learning_rate = 1.0 / (40 * truth["curvature"])
    setting = settings(start, learning_rate)
    rewards = simulate(setting, replicates=replicates, seed=seed).reward
    covered = {name: 0 for name in truth}
    errors: dict[str, list[float]] = {name: [] for name in truth}
    flagged: dict[str, int] = {}
    converged = divergences = 0
    for i, reward in enumerate(rewards):
        fit = fit_one(np.asarray(reward), setting, link, seed=i)
        converged += fit.record["sampler"]["converged"]
        divergences += fit.record["sampler"]["divergences"]
        for row in check_fit(fit).rows:
            flagged[row.statistic] = flagged.get(row.statistic, 0) + row.flagged
        for name, value in truth.items():
            low, high = interval(fit.draws(name))
            covered[name] += bool(low <= value <= high)
            errors[name].append(float(np.median(fit.draws(name)) / value - 1))
        print(f"{link} start {start:.3f} {i + 1}/{replicates}: covered {covered}", flush=True)
    low, high = binom.ppf([LOWER / 5, 1 - (1 - UPPER) / 5], replicates, PROBABILITY)
    return {
        "link": link,
        "start": start,
        "replicates": replicates,
        "truth": truth,
        "covered": covered,
        "binomial_bounds_98": [int(low), int(high)],
        "relative_error_of_median": {n: [float(np.mean(e)), float(np.std(e))] for n, e in errors.items()},
        "runs_flagged_by_check": flagged,
        "converged": converged,
        "divergences": divergences,
    }


def main() -> None:
    """Run all sets and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    plateau = fixed_point(0.5, 2.5, NEAR["group_size"])
    few = max(arguments.replicates // 5, 2)
    sets: list[tuple[int, float, Link, int]] = [
        (arguments.replicates, plateau - START_NEAR, "logit", 1),
        (few, START_FAR, "logit", 2),
        (few, START_FAR, "identity", 2),
    ]
    results: list[dict[str, Any]] = []
    for replicates, start, link, seed in sets:
        results.append(study(replicates, start, link, seed))
        arguments.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
