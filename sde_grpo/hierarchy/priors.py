"""Priors of the sweep's model that its single runs do not have (those are in `sde_grpo.model.priors`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Normal(0, sd) slopes per unit of the covariate that `slope_unit` names: a doubling, or one standard deviation.
SLOPE_LOG_CURVATURE_SD = 0.5
SLOPE_FIXED_POINT_SD = {"logit": 0.5, "identity": 0.12, "unbounded": 1.0}  # in the coordinate of the link
GAMMA_MEAN, GAMMA_SD = 1.0, 0.5  # temperature exponent

# Half-normal scatters of the runs about the regression, and about what they have in common.
SCATTER_LOG_CURVATURE = 0.3
SCATTER_FIXED_POINT = {"logit": 0.3, "identity": 0.07, "unbounded": 0.5}
SCATTER_START = {"logit": 0.5, "identity": 0.1, "unbounded": 1.0}
SCATTER_LOG_INERTIA = 0.5
SCATTER_FAST_WEIGHT = 0.2
SCATTER_LOG_NOISE = 0.3  # of the log noise variance
NOISE_MEDIAN, NOISE_SPREAD = {"dispersion": 0.2, "constant": 0.5}, 1.0  # log-normal sd, where there is no design effect


def slope_unit(name: str, values: NDArray[np.float64]) -> float:
    """The change of a covariate for which the slope priors are stated: a doubling, else one standard deviation."""
    if name.startswith("log2_"):
        return 1.0
    return float(np.log(2.0)) if name.startswith("log_") else float(np.std(values))


def scatters(kind: str) -> dict[str, float]:
    """Widths of the half-normal scatters, in the order of the runs' parameters."""
    return {
        "fixed_point": SCATTER_FIXED_POINT[kind],
        "log_curvature": SCATTER_LOG_CURVATURE,
        "start": SCATTER_START[kind],
        "log_inertia_ratio": SCATTER_LOG_INERTIA,
        "fast_weight": SCATTER_FAST_WEIGHT,
    }
