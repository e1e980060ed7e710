"""The content of ``summary.json``, and what a fit warns of."""

from __future__ import annotations

from typing import Any

import numpy as np

from sde_grpo.answers.explained import explained
from sde_grpo.answers.trajectory import (
    STILL_TO_COME,
    mean_now,
    rise_is_visible,
    share_done,
    steps_to_share,
    still_to_come,
)
from sde_grpo.checks import rows_as_records
from sde_grpo.fit import Fit
from sde_grpo.inference.engine import ESS_LIMIT, RHAT_LIMIT, TAIL_LIMIT
from sde_grpo.intervals import describe


def forecast(fit: Fit) -> dict[str, Any]:
    """Plateau, chance of more to come, step at 95 % of the rise (None where no rise is seen), share done."""
    remaining = still_to_come(fit)
    visible = rise_is_visible(fit)
    threshold = STILL_TO_COME * float(fit.design.scale.width)
    return {
        "plateau": describe(fit.draws("fixed_point")),
        "now": describe(mean_now(fit)),
        "p_still_rising": float(np.mean(remaining > threshold)),
        "p_still_falling": float(np.mean(remaining < -threshold)),
        "steps_to_95": describe(steps_to_share(fit)) if visible else None,
        "share_done": describe(np.nan_to_num(share_done(fit))) if visible else None,
        "rise_visible": visible,
    }


def _tail(sampler: dict[str, Any]) -> str:
    if sampler["tail"] is None or sampler["tail"] <= TAIL_LIMIT:
        return ""
    return f"; tail of the importance weights {sampler['tail']:.2f}, limit {TAIL_LIMIT}"


def warnings(fit: Fit, predicted: dict[str, Any]) -> list[str]:
    """What a reader must know before trusting the numbers: of the log, of the sampler, of the horizon."""
    sampler = fit.record["sampler"]
    found = list(fit.run.warnings)
    if not sampler["converged"]:
        found.append(
            f"The sampler has not converged (worst R-hat {sampler['rhat_max']:.3f}, limit {RHAT_LIMIT}; fewest "
            f"effective draws {min(sampler['ess_bulk_min'], sampler['ess_tail_min']):.0f}, limit {ESS_LIMIT:.0f}; "
            f"worst: {sampler['worst']}{_tail(sampler)}). Do not use these intervals; "
            "try --engine auto, another --seed or a longer log."
        )
    if sampler["divergences"]:
        found.append(
            f"{sampler['divergences']} diverging transitions: intervals may miss a narrow part of the posterior."
        )
    if not predicted["rise_visible"]:
        found.append(
            "No rise or fall can be told from the noise, so the time scale is its prior's and none is reported."
        )
    elif predicted["steps_to_95"]["q95"] > 3 * fit.run.times[-1]:
        found.append(
            "The plateau lies well beyond the data: its interval rests on the model's shape. Fit again with more steps."
        )
    return found


def summarise(fit: Fit) -> dict[str, Any]:
    """Plain data with the keys run, model, parameters, forecast, fit, sampler, checks, verdict, warnings."""
    run, record = fit.run, fit.record
    predicted = forecast(fit)
    report = fit.checks
    return {
        "run": {
            "source": run.source,
            "points": len(run.reward),
            "first_step": float(run.steps[0]),
            "last_step": float(run.steps[-1]),
            "reward_column": run.reward_column,
            "config": run.configuration.as_dict(),
            "provenance": dict(run.provenance),
        },
        "model": record["model"] | {"seed": record["seed"], "versions": record["versions"]},
        "parameters": {str(n): describe(fit.draws(str(n))) for n in fit.posterior.data_vars},
        "forecast": predicted,
        "fit": explained(fit),
        "sampler": record["sampler"],
        "checks": rows_as_records(report),
        "verdict": list(report.messages),
        "warnings": warnings(fit, predicted),
    }
