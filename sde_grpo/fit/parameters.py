"""The sites of the model as the parameters a user asked for, of the posterior and of the prior."""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
from jaxtyping import Array, Float

from sde_grpo.likelihood.links import gain
from sde_grpo.model import Design, trace_model
from sde_grpo.oscillator import curvature_from_relaxation_time

PRIOR_DRAWS = 1000
SITES = (
    "relaxation_time",
    "inertia_ratio",
    "fast_weight",
    "start_unit",
    "fixed_point_unit",
    "stationary_sd",
    "folded_sd",
    "prompt_correlation",
    "normal_correlation",
    "noise_scale",
)
PARAMETERS = (
    "start",
    "fixed_point",
    "relaxation_time",
    "inertia_ratio",
    "stationary_sd",
    "fast_weight",
    "curvature",
    "prompt_correlation",
    "noise_sd",
    "dispersion",
)


def parameters(design: Design, sites: Mapping[str, Float[Array, "..."]]) -> dict[str, Float[Array, "..."]]:
    """Sites of the model in the user's units: rewards on the reward's scale, times in steps of the log."""
    low, width = design.scale
    plateau = sites["fixed_point_unit"]
    values = {
        "start": low + width * sites["start_unit"],
        "fixed_point": low + width * plateau,
        "relaxation_time": sites["relaxation_time"],
        "inertia_ratio": sites["inertia_ratio"],
        "stationary_sd": width * gain(design.link, plateau) * sites["stationary_sd"],
    }
    if "fast_weight" in sites:
        values["fast_weight"] = sites["fast_weight"]
    if design.rule is not None:
        tau = sites["relaxation_time"] * design.time_unit
        values["curvature"] = curvature_from_relaxation_time(design.rule, tau)
    if "prompt_correlation" in sites:
        values["prompt_correlation"] = sites["prompt_correlation"]
    if design.noise == "constant":
        values["noise_sd"] = width * sites["noise_scale"]
    if design.noise == "dispersion":
        values["dispersion"] = sites["noise_scale"] ** 2
    return {name: jnp.asarray(value) for name, value in values.items()}


def prior_parameters(key: Array, design: Design) -> dict[str, Float[Array, "1 draw"]]:
    """`PRIOR_DRAWS` draws of the prior, as one chain."""
    from numpyro.infer import Predictive

    sites = Predictive(trace_model, num_samples=PRIOR_DRAWS, return_sites=list(SITES))(key, design)
    return parameters(design, {name: sites[name][None] for name in SITES if name in sites})
