"""Probability integral transform of the one-step-ahead predictions: uniform where the model is right."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kstest, norm

Vector = NDArray[np.float64]


def pit_values(reward: Vector, ahead_mean: Vector, ahead_sd: Vector) -> Vector:
    """u_k = mean over draws of Φ((y_k - a_k) / b_k), shape (step,).

    **Arguments**: `reward`, y, (step,); `ahead_mean` and `ahead_sd`, a and b, (draw, step): the law of y_k given
    y_1 ... y_{k-1}. Dawid (1984), doi:10.2307/2981683.
    """
    return np.mean(norm.cdf((reward - ahead_mean) / ahead_sd), axis=0)


def uniformity(values: Vector) -> tuple[float, float]:
    """Kolmogorov-Smirnov distance of `values` (step,) from uniform, and its p-value.

    The p-value is exact for independent uniform values, and errs on the large side after a fit, for the draws have
    seen the rewards.
    """
    distance, p_value = kstest(values, "uniform")
    return float(distance), float(p_value)


def mean_and_spread(values: Vector) -> tuple[float, float]:
    """How far mean and mean square about 1/2 of `values` are from the uniform law's, in standard errors.

    √(12 n) (mean u - 1/2) is positive where rewards exceed their predictions; √(180 n) (mean (u - 1/2)² - 1/12)
    is positive where they scatter more than predicted.
    """
    n = len(values)
    offset = values - 0.5
    return float(np.sqrt(12 * n) * np.mean(offset)), float(np.sqrt(180 * n) * (np.mean(offset**2) - 1 / 12))
