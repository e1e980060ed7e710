"""How much of the reward's variance the trajectory explains, and how much any trajectory could."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sde_grpo.fit import Fit


def step_noise_variance(reward: NDArray[np.float64], times: NDArray[np.float64]) -> float:
    """(2/3) mean of (y_k - (y_{k-1} + y_{k+1})/2)^2, weights of uneven gaps allowed for.

    The variance of the step noise with no model of the trajectory, whose curvature over three steps it neglects:
    Gasser, Sroka and Jennen-Steinmetz (1986), doi:10.1093/biomet/73.3.625.
    """
    left = (times[2:] - times[1:-1]) / (times[2:] - times[:-2])
    pseudo = left * reward[:-2] + (1 - left) * reward[2:] - reward[1:-1]
    return float(np.mean(pseudo**2 / (1 + left**2 + (1 - left) ** 2)))


def explained(fit: Fit) -> dict[str, float]:
    """`r2` of the posterior mean trajectory, and `r2_ceiling` = 1 - noise variance / total variance.

    The ceiling is the R^2 the true mean would reach given the noise from step to step; a low R^2 just below it is a
    noisy log, not a misfit.
    """
    reward = fit.run.reward
    trajectory = fit.predictive["mean"].to_numpy().mean((0, 1))
    total = float(np.mean((reward - reward.mean()) ** 2))
    return {
        "r2": 1.0 - float(np.mean((reward - trajectory) ** 2)) / total,
        "r2_ceiling": max(0.0, 1.0 - step_noise_variance(reward, fit.run.times) / total),
    }
