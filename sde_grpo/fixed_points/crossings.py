"""All sign changes of a smooth scalar function on an interval, close pairs included."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.special import logit

FunctionAndSlope = Callable[[Float[np.ndarray, "point"]], tuple[Float[np.ndarray, "point"], Float[np.ndarray, "point"]]]

HIGHEST_LOGIT = float(logit(1 - 1e-9))  # closer to 1 than this is no plateau: no run would tell it from success
_CELLS = 512
_ZOOMS, _ZOOM_CELLS = 11, 32  # 32^11 = 4e16: past the last bit of a double


def crossings(function: FunctionAndSlope, low: float, high: float) -> list[float]:
    """Every x in (low, high) where f changes sign, ascending; none unless low < high.

    f is put on an even grid of 512 cells, and each sign change is narrowed down on ever finer ones. Where f turns
    inside a cell whose ends have one sign, the turning point is located the same way, as a sign change of f'; if f
    has the other sign there, the cell holds two crossings, as it does just past a fold.

    - `function`: elementwise (f, f') of an array.
    """
    if not low < high:
        return []

    def zoom(start: float, end: float, which: int) -> float:
        for _ in range(_ZOOMS):
            x = np.linspace(start, end, _ZOOM_CELLS + 1)
            changes = _sign_changes(function(x)[which])
            if not len(changes):
                break
            start, end = x[changes[0] : changes[0] + 2].tolist()
        return (start + end) / 2

    x = np.linspace(low, high, _CELLS + 1)
    (f, slope), edges = function(x), x.tolist()
    found = [zoom(edges[i], edges[i + 1], 0) for i in _sign_changes(f)]
    for i in _sign_changes(slope):
        if (f[i] > 0) == (f[i + 1] > 0):
            turn = zoom(edges[i], edges[i + 1], 1)
            if (function(np.array([turn]))[0][0] > 0) != (f[i] > 0):
                found += [zoom(edges[i], turn, 0), zoom(turn, edges[i + 1], 0)]
    return sorted(found)


def _sign_changes(f: Float[np.ndarray, "point"]) -> np.ndarray:
    """The cells whose two ends differ in sign (zero counts as negative)."""
    return np.flatnonzero((f[:-1] > 0) != (f[1:] > 0))
