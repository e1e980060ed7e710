"""The one tolerance helper of the tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def assert_close(actual: ArrayLike, desired: ArrayLike, relative: float = 1e-9, scale: float | None = None) -> None:
    """Assert max |actual - desired| <= relative * scale, with scale = max |desired| unless given.

    Shapes must agree and nothing may be NaN. Quantities of different size are compared in separate calls.
    """
    actual, desired = np.asarray(actual, dtype=float), np.asarray(desired, dtype=float)
    assert actual.shape == desired.shape, f"shape {actual.shape}, expected {desired.shape}"
    assert np.all(np.isfinite(actual)), f"not finite: {actual}"
    if desired.size == 0:
        return
    size = float(np.max(np.abs(desired))) if scale is None else scale
    worst = float(np.max(np.abs(actual - desired)))
    assert worst <= relative * size, (
        f"largest difference {worst:.3g}, allowed {relative:.3g} x {size:.3g}\nactual:  {actual}\ndesired: {desired}"
    )
