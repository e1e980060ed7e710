"""Is a learning rate safe at this many updates per rollout? Limits, margins and ringing of the exact map."""

from sde_grpo.stability.closed_form import average_stiffness, paper_stiffness
from sde_grpo.stability.critical import (
    REFRESH_LIMIT,
    critical_learning_rate,
    critical_refresh_interval,
    critical_stiffness,
    ringing_stiffness,
)
from sde_grpo.stability.posterior import curvature_of_fit, rule_of_fit
from sde_grpo.stability.record import as_record
from sde_grpo.stability.report import StabilityReport, assess_stability
from sde_grpo.stability.verdict import verdict

__all__ = [
    "REFRESH_LIMIT",
    "StabilityReport",
    "as_record",
    "assess_stability",
    "average_stiffness",
    "critical_learning_rate",
    "critical_refresh_interval",
    "critical_stiffness",
    "curvature_of_fit",
    "paper_stiffness",
    "ringing_stiffness",
    "rule_of_fit",
    "verdict",
]
