"""Did runs see the same prompts at the same step? Their noise then has a part in common, and shows it.

e_k = y_k - (y_{k-1} + y_{k+1})/2 removes any trend that is straight over three steps and keeps the correlation of the
noise between runs. Neighbours in it correlate by -2/3 and 1/6, so over n steps a sample correlation of independent runs
has the standard deviation sqrt(1.944/n).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from sde_grpo.runs import Run

SIZE = 0.01  # of the test for a shared effect
FEWEST = 10  # steps that two runs must have in common
_INFLATION = 1 + 2 * ((2 / 3) ** 2 + (1 / 6) ** 2)


class PairCorrelation(NamedTuple):
    """Correlation of the noise of runs `first` and `second`, and its standard score were there none."""

    first: int
    second: int
    correlation: float
    score: float


def residual(run: Run) -> dict[float, float]:
    """e_k at every inner step of a run, by step."""
    y = run.reward
    inner = y[1:-1] - (y[:-2] + y[2:]) / 2
    return dict(zip(np.round(run.times[1:-1], 6).tolist(), inner.tolist(), strict=True))


def pair_correlations(runs: Sequence[Run], orders: Sequence[str] | None = None) -> list[PairCorrelation]:
    """For every pair of runs with `FEWEST` steps in common; of one order only, where orders are known."""
    residuals = [residual(run) for run in runs]
    found = []
    for i, j in combinations(range(len(runs)), 2):
        if orders is not None and orders[i] != orders[j]:
            continue
        common = sorted(residuals[i].keys() & residuals[j].keys())
        if len(common) < FEWEST:
            continue
        a, b = (np.array([residuals[r][t] for t in common]) for r in (i, j))
        size = float(np.sqrt((a @ a) * (b @ b)))
        correlation = float(a @ b) / size if size > 0 else 0.0
        found.append(PairCorrelation(i, j, correlation, correlation * float(np.sqrt(len(common) / _INFLATION))))
    return found


def shares_prompts(pairs: Sequence[PairCorrelation]) -> bool:
    """Whether the mean correlation over pairs of known orders is above zero, one-sided test of size `SIZE`."""
    return bool(pairs) and sum(p.score for p in pairs) / np.sqrt(len(pairs)) > norm.ppf(1 - SIZE)


def orders_from_noise(runs: Sequence[Run]) -> list[str]:
    """A label per run: runs joined by pairs whose noise correlates, one-sided test of size `SIZE` over all pairs."""
    pairs = pair_correlations(runs)
    label: NDArray[np.int_] = np.arange(len(runs))
    limit = norm.ppf(1 - SIZE / max(len(pairs), 1))
    for p in pairs:
        if p.score > limit:
            label[label == label[p.second]] = label[p.first]
    return [f"order {i}" for i in label]
