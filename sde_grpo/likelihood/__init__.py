"""The likelihood: a Kalman filter of the oscillator, and the NumPyro distribution of a trace built on it.

Names are loaded when first used: the links need no NumPyro, and neither does a fit whose programs were kept.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sde_grpo.likelihood.curve import Curve, Grid, OscillatorCurve, flip_variance
    from sde_grpo.likelihood.kalman import (
        Filtered,
        Observations,
        State,
        kalman_filter,
        log_likelihood,
        simulate,
        smooth,
    )
    from sde_grpo.likelihood.links import Link
    from sde_grpo.likelihood.trace import OscillatorTrace

_HOME = {
    "curve": ("Curve", "Grid", "OscillatorCurve", "flip_variance"),
    "kalman": ("Filtered", "Observations", "State", "kalman_filter", "log_likelihood", "simulate", "smooth"),
    "links": ("Link",),
    "trace": ("OscillatorTrace",),
}

__all__ = [
    "Curve",
    "Filtered",
    "Grid",
    "Link",
    "Observations",
    "OscillatorCurve",
    "OscillatorTrace",
    "State",
    "flip_variance",
    "kalman_filter",
    "log_likelihood",
    "simulate",
    "smooth",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(importlib.import_module(f"sde_grpo.likelihood.{module}"), name)
    raise AttributeError(f"module 'sde_grpo.likelihood' has no attribute {name!r}")
