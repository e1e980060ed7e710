"""A fit made by hand: a run with its settings, and a posterior of the time scale that is known."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xarray as xr

from sde_grpo.fit import Fit
from sde_grpo.fit.record import run_to_dict
from sde_grpo.oscillator import curvature_from_relaxation_time
from sde_grpo.runs import Configuration, run_from_arrays
from sde_grpo.stability import rule_of_fit

SETTINGS: dict[str, Any] = {
    "learning_rate": 0.01,
    "momentum": 0.9,
    "momentum_kind": "ema",
    "refresh_interval": 4,
    "lag_schedule": "periodic",
}


def fit_with(relaxation_time: np.ndarray, *, converged: bool = True, **settings: Any) -> Fit:
    """A fit whose draws of tau, in optimizer steps, are `relaxation_time`; of a run with these settings."""
    steps = np.arange(1, 41)
    reward = 0.2 + 0.5 * (1 - np.exp(-steps / 10)) + 0.01 * np.random.default_rng(0).standard_normal(40)
    run = run_from_arrays(steps, reward, configuration=Configuration(**settings))
    posterior = {"relaxation_time": (("chain", "draw"), relaxation_time.reshape(2, -1))}
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset(posterior)})
    record = {
        "run": run_to_dict(run),
        "model": {"link": "logit", "dynamics": "free"},
        "sampler": {"converged": converged},
    }
    tree.attrs["sde_grpo"] = json.dumps(record)
    fit = Fit(run, tree)
    if fit.design.rule is not None:
        kappa = np.asarray(curvature_from_relaxation_time(rule_of_fit(fit), relaxation_time)).reshape(2, -1)
        posterior["curvature"] = (("chain", "draw"), kappa)
        tree["posterior"] = xr.DataTree(xr.Dataset(posterior))
    return fit
