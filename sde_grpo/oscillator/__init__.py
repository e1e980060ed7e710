"""The oscillator: hyperparameters to mass, damping and stiffness, and the motion that follows from them."""

from sde_grpo.oscillator.motion import Transition, displacement, response, transition
from sde_grpo.oscillator.reduction import (
    LagSchedule,
    MomentumKind,
    Oscillator,
    Regime,
    UpdateRule,
    curvature_from_relaxation_time,
    reduce_update,
    regime,
    temperature,
)

__all__ = [
    "LagSchedule",
    "MomentumKind",
    "Oscillator",
    "Regime",
    "Transition",
    "UpdateRule",
    "curvature_from_relaxation_time",
    "displacement",
    "reduce_update",
    "regime",
    "response",
    "temperature",
    "transition",
]
