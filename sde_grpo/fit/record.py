"""A `Run` as plain data and back, so that a fit can be reproduced from its file alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from sde_grpo.runs import Configuration, Run, Series


def run_to_dict(run: Run) -> dict[str, Any]:
    """Everything a run holds, ready for JSON."""
    return {
        "source": run.source,
        "steps": run.steps.tolist(),
        "times": run.times.tolist(),
        "reward": run.reward.tolist(),
        "reward_column": run.reward_column,
        "configuration": run.configuration.as_dict(),
        "provenance": dict(run.provenance),
        "series": {n: [s.steps.tolist(), s.values.tolist()] for n, s in run.series.items()},
        "warnings": list(run.warnings),
        "refusals": list(run.refusals),
        "format": run.format,
        "key": dict(run.key),
        "restarts": run.restarts,
    }


def run_from_dict(record: dict[str, Any]) -> Run:
    """The run that `run_to_dict` wrote down."""
    series = {n: Series(np.asarray(steps), np.asarray(values)) for n, (steps, values) in record["series"].items()}
    arrays = {n: np.asarray(record[n], dtype=float) for n in ("steps", "times", "reward")}
    return Run(
        source=record["source"],
        reward_column=record["reward_column"],
        configuration=Configuration(**record["configuration"]),
        provenance=record["provenance"],
        series=series,
        warnings=tuple(record["warnings"]),
        refusals=tuple(record.get("refusals", ())),  # fits written before these were kept lack them
        format=record.get("format", ""),
        key=record.get("key", {}),
        restarts=record.get("restarts", 0),
        **arrays,
    )
