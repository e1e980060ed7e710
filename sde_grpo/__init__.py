"""sde_grpo: Bayesian modelling of the training dynamics of GRPO. Names are loaded when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sde_grpo.checks import check_fit
    from sde_grpo.errors import InputError, NothingToFitError
    from sde_grpo.fit import Fit, fit_run
    from sde_grpo.likelihood import OscillatorTrace
    from sde_grpo.model import build_design, trace_model
    from sde_grpo.oscillator import Oscillator, UpdateRule, reduce_update
    from sde_grpo.plots import plot_bands, plot_checks, plot_stability
    from sde_grpo.runs import Configuration, Run, read_run, read_runs, run_from_arrays
    from sde_grpo.stability import StabilityReport, assess_stability

_HOME = {
    "Configuration": "runs",
    "Fit": "fit",
    "InputError": "errors",
    "NothingToFitError": "errors",
    "Oscillator": "oscillator",
    "OscillatorTrace": "likelihood",
    "Run": "runs",
    "StabilityReport": "stability",
    "UpdateRule": "oscillator",
    "assess_stability": "stability",
    "build_design": "model",
    "check_fit": "checks",
    "fit_run": "fit",
    "plot_bands": "plots",
    "plot_checks": "plots",
    "plot_stability": "plots",
    "read_run": "runs",
    "read_runs": "runs",
    "reduce_update": "oscillator",
    "run_from_arrays": "runs",
    "trace_model": "model",
}

__all__ = [
    "Configuration",
    "Fit",
    "InputError",
    "NothingToFitError",
    "Oscillator",
    "OscillatorTrace",
    "Run",
    "StabilityReport",
    "UpdateRule",
    "assess_stability",
    "build_design",
    "check_fit",
    "fit_run",
    "plot_bands",
    "plot_checks",
    "plot_stability",
    "read_run",
    "read_runs",
    "reduce_update",
    "run_from_arrays",
    "trace_model",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'sde_grpo' has no attribute {name!r}; public names: {', '.join(__all__)}")
    return getattr(importlib.import_module(f"sde_grpo.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
