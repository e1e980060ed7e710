"""Runs that differ in a setting, as one hierarchical model: what does the setting change?"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sde_grpo.hierarchy.sweep import Sweep, build_sweep

if TYPE_CHECKING:
    from sde_grpo.hierarchy.fit import SweepFit, fit_sweep

__all__ = ["Sweep", "SweepFit", "build_sweep", "fit_sweep"]


def __getattr__(name: str) -> Any:
    if name in ("SweepFit", "fit_sweep"):  # late, for they import NumPyro
        return getattr(importlib.import_module("sde_grpo.hierarchy.fit"), name)
    raise AttributeError(f"module 'sde_grpo.hierarchy' has no attribute {name!r}")
