"""The sites of the sweep's model as the quantities a user asked for, in the user's units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sde_grpo.hierarchy.design import SweepDesign
from sde_grpo.hierarchy.priors import slope_unit
from sde_grpo.hierarchy.sweep import Sweep
from sde_grpo.oscillator.motion import displacement
from sde_grpo.programs import Program

PREDICTIVE_DRAWS = 100  # of each chain, evenly thinned

Sites = Mapping[str, NDArray[np.float64]]


class Evaluated(NamedTuple):
    """Parameters (chain, draw, ...), mean trajectories (chain, draw, run, step of the design), and where a run's
    values stand among these steps.
    """

    posterior: dict[str, NDArray[np.float64]]
    mean: NDArray[np.float64]
    places: list[NDArray[np.int_]]


_displacement = Program(displacement)


def evaluate(sweep: Sweep, design: SweepDesign, sites: Sites) -> Evaluated:
    """Rewards on the reward's scale, times in steps of the log, slopes per unit of the covariate.

    ``slope_fixed_point`` is in reward ranges per unit, at the sweep's mean plateau; ``slope_fixed_point_link`` in the
    coordinate of the link, where its prior is stated (`priors.SLOPE_FIXED_POINT_SD` per `slope_unit`).
    """
    low, width = (float(value) for value in design.scale)
    logistic = design.link == "logit"
    unit_of = expit if logistic else np.asarray
    gain_of = (lambda u: u * (1 - u)) if logistic else np.ones_like
    level = sites["run_level"]
    unit = unit_of(level)
    noise = sites["run_flips"] * (unit * (1 - unit) if design.bounded else 0.0) + sites["run_floor"]
    units = np.array([slope_unit(name, values) for name, values in sweep.covariates.items()])
    centre = gain_of(sites["fixed_point_unit"])[..., None]
    by_link = sites["slope_fixed_point"] / units
    posterior = {
        "relaxation_time": sites["run_relaxation_time"],
        "fixed_point": low + width * unit,
        "start": low + width * unit_of(level + sites["run_displacement"]),
        "stationary_sd": width * gain_of(unit) * np.abs(sites["run_stationary_sd"]),
        "noise_sd": width * np.sqrt(np.maximum(noise, 0.0)),
        "inertia_ratio": sites["run_inertia_ratio"],
        "fast_weight": sites["run_weight"],
        "slope_log_curvature": sites["slope_log_curvature"] / units,
        "slope_fixed_point": by_link * centre,
        "slope_fixed_point_link": by_link,
        "mean_relaxation_time": np.exp(sites["log_relaxation_time"]),
        "mean_fixed_point": low + width * sites["fixed_point_unit"],
    }
    kept = ("temperature_exponent", "shared_fraction", "prompt_correlation")
    posterior |= {name: values for name, values in sites.items() if name.startswith("scatter_") or name in kept}
    draws = level.shape[1]
    thin = np.linspace(0, draws - 1, min(PREDICTIVE_DRAWS, draws)).astype(int)
    names = ("b", "k", "displacement", "velocity", "level")
    b, k, x0, v0, end = (sites[f"run_{name}"][:, thin][..., None] for name in names)
    moved = np.asarray(_displacement(b, k, x0, v0, np.asarray(design.time)))
    places = [np.flatnonzero(seen) for seen in np.asarray(jax.device_get(design.observed))]
    return Evaluated(posterior, low + width * unit_of(end + moved), places)
