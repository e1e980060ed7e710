"""A stability report as plain data."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from sde_grpo.intervals import describe
from sde_grpo.stability.critical import REFRESH_LIMIT
from sde_grpo.stability.report import StabilityReport

_LIMITS = ("critical_stiffness", "critical_stiffness_paper", "critical_stiffness_average", "ringing_stiffness")
_OF_CURVATURE = (
    "curvature",
    "stiffness_per_step",
    "spectral_radius",
    "margin",
    "ringing_margin",
    "critical_learning_rate",
    "critical_refresh_interval",
    "period",
    "decay_per_cycle",
)


def as_record(report: StabilityReport) -> dict[str, Any]:
    """The fields of `report`, its regime and its settings, ready for strict JSON.

    What depends on the curvature is a number, or of draws ``mean, sd, q05, q50, q95``, with two further keys,
    ``probability_unstable`` and ``probability_ringing``. What does not exist (an infinite limit, the period of a
    setting that does not ring) is None; period and decay describe the draws that ring. Of a critical refresh interval
    only the quantiles are given, each None beyond `REFRESH_LIMIT`.
    """
    record: dict[str, Any] = {"regime": report.regime}
    record |= {name: _finite(getattr(report, name)) for name in _LIMITS}
    single = report.curvature.ndim == 0
    for name in _OF_CURVATURE:
        values = getattr(report, name)
        if values is None:
            record[name] = None
        elif name == "critical_refresh_interval":
            record[name] = _whole(float(values)) if single else _whole_quantiles(values)
        elif single:
            record[name] = _finite(float(values))
        else:
            known = values[np.isfinite(values)]
            record[name] = describe(known) if known.size > 1 else None
    if not single:
        record["probability_unstable"] = report.probability_unstable
        record["probability_ringing"] = report.probability_ringing
    record["settings"] = {
        field.name: _plain(getattr(report.rule, field.name)) for field in dataclasses.fields(report.rule)
    }
    return record


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _whole(interval: float) -> int | None:
    return math.floor(interval) if interval <= REFRESH_LIMIT else None


def _whole_quantiles(intervals: np.ndarray) -> dict[str, int | None]:
    described = describe(np.minimum(intervals, REFRESH_LIMIT + 1))
    return {name: _whole(described[name]) for name in ("q05", "q50", "q95")}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return list(value)
    return value if isinstance(value, int) else float(value)
