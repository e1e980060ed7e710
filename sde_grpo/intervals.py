"""Credible intervals: equal-tailed, 90 %, set here for the whole package."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

PROBABILITY = 0.90
LOWER, UPPER = (1.0 - PROBABILITY) / 2.0, (1.0 + PROBABILITY) / 2.0


def interval(samples: ArrayLike, axis: int | tuple[int, ...] | None = None) -> NDArray[np.float64]:
    """Equal-tailed 90 % interval, shape ``(2, ...)``: the 5 % and the 95 % quantile along ``axis``."""
    return np.quantile(np.asarray(samples, dtype=float), [LOWER, UPPER], axis=axis)


def describe(samples: ArrayLike) -> dict[str, float]:
    """``mean, sd, q05, q50, q95`` of draws of any shape, pooled."""
    flat = np.asarray(samples, dtype=float).ravel()
    q05, q50, q95 = (float(q) for q in np.quantile(flat, [LOWER, 0.5, UPPER]))
    return {"mean": float(flat.mean()), "sd": float(flat.std(ddof=1)), "q05": q05, "q50": q50, "q95": q95}
