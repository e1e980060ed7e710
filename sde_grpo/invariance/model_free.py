"""Does the mean trajectory depend on the covariate at all? A simultaneous band that asks no dynamics.

Let y_r(k) be the reward of run r in cell k of the steps common to all runs, and x_r the covariate (log2 group size).
Within blocks of runs that share their prompts (all runs, where none do) the cell means are projected on

- x~, the covariate less its block means: e_0(k) = sum_r x~_r y_r(k) / |x~| has mean |x~| delta(k), with delta the slope
  of the mean reward per unit of x, and in it what a block's runs have in common cancels;
- every direction orthogonal to blocks and levels of x: e_j(k) has mean zero, whatever the trajectories, and shows the
  noise at all frequencies. Without replicates the directions orthogonal to blocks and x serve instead.

delta is constant on a few bins. The noise of each direction is white plus an exponentially correlated part of unknown
share f and memory t, on a grid of which the marginal likelihood (flat delta, Jeffreys scale) is summed. The band holds
delta in all bins at once with 90 % posterior probability (sup-t over draws).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, null_space

from sde_grpo.errors import require
from sde_grpo.intervals import PROBABILITY
from sde_grpo.runs import Run

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

MOST_CELLS = 240
REGION = 0.02  # half-width of practical equivalence, of the reward range per unit of the covariate
CELLS_PER_BIN, MOST_BINS = 8, 8
FEWEST_CELLS = 8
DRAWS = 4000
SHARES = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.75, 0.9])  # of the correlated part in the variance
MEMORIES = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.8])  # of the correlated part, in lengths of the run
WHITE = 0.5  # prior probability of no correlated part: public traces show none
WHITE_ALONE = 0.02  # the same without replicates, when a slow fluctuation cannot be told from an effect


@dataclass(frozen=True)
class ModelFree:
    """The slope of the mean reward per unit of the covariate, bin by bin, with its simultaneous band.

    - `steps`: (bin,) middle of each bin; `edges`: (bin + 1,).
    - `slope`, `low`, `high`: (bin,) in units of the reward per unit of the covariate.
    - `rope`: half-width of the region of practical equivalence, in the same unit.
    - `correlated`: posterior probability that the noise has a correlated part.
    - `replicates`: number of noise directions; 0 where only the series itself tells its noise.
    """

    covariate: str
    steps: Vector
    edges: Vector
    slope: Vector
    low: Vector
    high: Vector
    rope: float
    correlated: float
    replicates: int
    paired: bool

    @property
    def excludes_zero(self) -> bool:
        """Whether the band leaves zero out somewhere: an effect of any size."""
        return bool(np.any((self.low > 0) | (self.high < 0)))

    @property
    def verdict(self) -> str:
        """``changed`` where some bin's band lies beyond the region, ``invariant`` where all bands lie inside it."""
        if np.any((self.low > self.rope) | (self.high < -self.rope)):
            return "changed"
        return "invariant" if np.all((self.low > -self.rope) & (self.high < self.rope)) else "undecided"

    @property
    def record(self) -> dict[str, Any]:
        """Plain data for ``summary.json``."""
        return {
            "covariate": self.covariate,
            "steps": self.steps.tolist(),
            "slope": self.slope.tolist(),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "rope": self.rope,
            "excludes_zero": self.excludes_zero,
            "correlated_noise": self.correlated,
            "noise_directions": self.replicates,
            "paired": self.paired,
            "verdict": self.verdict,
        }

    @property
    def sentence(self) -> str:
        """The finding in words."""
        worst = int(np.argmax(np.abs(self.slope)))
        found = (
            f"{self.slope[worst]:+.3f} [{self.low[worst]:+.3f}, {self.high[worst]:+.3f}] near step "
            f"{self.steps[worst]:.0f}"
        )
        what = {
            "changed": "the mean trajectory changes",
            "invariant": "the mean trajectory is the same within the region of equivalence",
            "undecided": "undecided",
        }[self.verdict]
        zero = "excludes" if self.excludes_zero else "includes"
        return (
            f"Without a model: {what} with {self.covariate} (largest slope {found}; the simultaneous "
            f"{100 * PROBABILITY:.0f} % band {zero} 0{' somewhere' if self.excludes_zero else ''})."
        )


def compare_without_model(
    runs: Sequence[Run],
    x: Sequence[float] | Vector,
    *,
    blocks: Sequence[object] | None = None,
    covariate: str = "log2 group size",
    rope: float | None = None,
    seed: int = 0,
) -> ModelFree:
    """The slope of the mean trajectory in x with a simultaneous band.

    **Arguments**

    - `runs`: at least two, overlapping in their steps.
    - `x`: the covariate of each run.
    - `blocks`: a label for each run; runs of one label saw the same prompts at the same steps. None: no run did.
    - `rope`: by default 0.02 of the reward range (of the pooled spread of the rewards where none is known).

    Raises `InputError` for a constant covariate (within every block), or too few steps in common.
    """
    times, rewards = common_cells(runs)
    if rope is None:
        known = [run.configuration.reward_range for run in runs]
        declared = [high - low for low, high in filter(None, known)]
        spread = float(np.std(np.concatenate([run.reward for run in runs])))
        rope = REGION * (declared[0] if len(declared) == len(runs) else spread)
    found = slope_band(times, rewards, np.asarray(x, dtype=float), blocks, seed=seed)
    return ModelFree(covariate, *found[:5], rope, *found[5:], paired=blocks is not None)


def common_cells(runs: Sequence[Run]) -> tuple[Vector, Matrix]:
    """Middles (cell,) and mean rewards (run, cell) of cells of equal width in which every run has a value.

    The cells span the steps that all runs cover and are as narrow as the widest gap between logged values allows,
    but not more than `MOST_CELLS`. Raises `InputError` where fewer than `FEWEST_CELLS` are left.
    """
    first, last = max(run.times[0] for run in runs), min(run.times[-1] for run in runs)
    gap = max([float(np.median(np.diff(run.times))) for run in runs])
    span = last - first + gap
    count = int(np.clip(round(span / gap), 0, MOST_CELLS)) if span > 0 else 0
    edges, means, full = np.zeros(1), np.zeros((len(runs), 0)), np.zeros(0, bool)
    if count >= FEWEST_CELLS:
        edges = first - gap / 2 + span * np.arange(count + 1) / count
        rows = []
        for run in runs:
            cell = np.searchsorted(edges, run.times, side="right") - 1
            inside = (cell >= 0) & (cell < count)
            number = np.bincount(cell[inside], minlength=count)
            total = np.bincount(cell[inside], run.reward[inside], minlength=count)
            rows.append(np.divide(total, number, out=np.full(count, np.nan), where=number > 0))
        means = np.array(rows)
        full = np.isfinite(means).all(axis=0)
        count = int(full.sum())
    require(
        count >= FEWEST_CELLS,
        f"The runs have {count} logged steps in common (steps {first:g} to {last:g}); a comparison of mean "
        f"trajectories needs at least {FEWEST_CELLS}. Compare runs that were logged over the same steps.",
    )
    return ((edges[1:] + edges[:-1]) / 2)[full], means[:, full]


def directions(x: Vector, blocks: Sequence[object] | NDArray[Any] | None) -> tuple[Vector, Matrix]:
    """x~ (run,), the covariate less its block means, and an orthonormal basis (run, direction) of pure noise."""
    labels = np.zeros(len(x), int) if blocks is None else np.unique([str(b) for b in blocks], return_inverse=True)[1]
    block = (labels[:, None] == np.arange(labels.max() + 1)).astype(float)
    within = x - block @ (block.T @ x / block.sum(axis=0))
    require(
        bool(np.linalg.norm(within) > 1e-9 * max(1.0, float(np.abs(x).max()))),
        f"The covariate does not vary {'' if blocks is None else 'within any set of paired runs '}"
        f"(values {sorted(set(np.round(x, 6).tolist()))[:5]}): there is nothing to compare. "
        + ("Add runs with another value." if blocks is None else "Compare them unpaired (--paired off)."),
    )
    level = (x[:, None] == np.unique(x)).astype(float)
    pure = null_space(np.concatenate([block, level], axis=1).T)
    return within, pure if pure.shape[1] else null_space(np.column_stack([block, x]).T)


def slope_band(
    times: Vector, rewards: Matrix, x: Vector, blocks: Sequence[object] | NDArray[Any] | None, *, seed: int = 0
) -> tuple[Vector, Vector, Vector, Vector, Vector, float, int]:
    """Bin middles, edges, slope, low, high, probability of correlated noise, noise directions: see the module."""
    within, noise = directions(x, blocks)
    length = float(np.linalg.norm(within))
    series = np.column_stack([within / length, noise]).T @ rewards
    cells = len(times)
    bins = int(np.clip(cells // CELLS_PER_BIN, 2, MOST_BINS))
    member = np.minimum(np.arange(cells) * bins // cells, bins - 1)
    basis = (member[:, None] == np.arange(bins)).astype(float)
    steps = basis.T @ times / basis.sum(axis=0)
    edges = np.concatenate([[times[0]], [times[member == b][0] for b in range(1, bins)], [times[-1]]])
    # Each series in units of its own fast noise, and that in units of its course along the run.
    fast = np.sqrt(np.mean(np.diff(series, axis=1) ** 2, axis=1) / 2)
    require(bool(np.all(fast > 0)), "Some runs have the same rewards throughout; a comparison needs noise to judge by.")
    course = _course(series / fast[:, None], basis)
    scaled = series / fast[:, None] / course
    lags = np.abs(times[:, None] - times) / (times[-1] - times[0])
    white = WHITE if noise.shape[1] else WHITE_ALONE
    rng = np.random.default_rng(seed)
    weights, solutions = [], []
    for share in SHARES:
        for memory in MEMORIES[: 1 if share == 0 else None]:
            prior = white if share == 0 else (1 - white) / ((len(SHARES) - 1) * len(MEMORIES))
            covariance = (1 - share) * np.eye(cells) + share * np.exp(-lags / memory)
            log_evidence, *solution = _generalised(covariance, scaled, basis / course[:, None])
            weights.append(np.log(prior) + log_evidence)
            solutions.append((*solution, share > 0))
    probability = np.exp(np.array(weights) - np.max(weights))
    probability /= probability.sum()
    draws = []
    for count, (mean, root, scale, freedom, _) in zip(rng.multinomial(DRAWS, probability), solutions, strict=True):
        spread = np.sqrt(scale / rng.chisquare(freedom, count))
        draws.append(mean + spread[:, None] * (rng.standard_normal((count, bins)) @ root.T))
    delta = np.concatenate(draws) * fast[0] / length
    centre, sd = delta.mean(axis=0), delta.std(axis=0)
    reach = np.quantile(np.max(np.abs(delta - centre) / sd, axis=1), PROBABILITY)
    correlated = float(sum(p for p, s in zip(probability, solutions, strict=True) if s[-1]))
    return steps, edges, centre, centre - reach * sd, centre + reach * sd, correlated, noise.shape[1]


def _course(scaled: Matrix, basis: Matrix) -> Vector:
    """How the fast noise grows or falls along the run: its sd per bin over all series, mean square one."""
    change = np.mean(np.diff(scaled, axis=1) ** 2, axis=0) / 2
    weight = (basis[1:] + basis[:-1]) / 2
    per_bin = weight.T @ change / weight.sum(axis=0)
    smooth = np.convolve(np.pad(per_bin, 1, mode="edge"), [0.25, 0.5, 0.25], mode="valid")
    course = np.sqrt(basis @ np.maximum(smooth, 0.05 * smooth.mean()))
    return course / np.sqrt(np.mean(course**2))


def _generalised(covariance: Matrix, series: Matrix, basis: Matrix) -> tuple[float, Vector, Matrix, float, int]:
    """log evidence; of delta given the scale, mean and root of covariance; RSS and degrees of freedom of the scale."""
    factor = cho_factor(covariance, lower=True)
    solved = cho_solve(factor, basis)
    information = basis.T @ solved
    mean = np.linalg.solve(information, solved.T @ series[0])
    residual = series.copy()
    residual[0] -= basis @ mean
    rss = float(np.sum(residual * cho_solve(factor, residual.T).T))
    freedom = series.size - basis.shape[1]
    log_determinant = 2 * float(np.sum(np.log(np.diag(factor[0]))))
    log_evidence = -0.5 * (len(series) * log_determinant + np.linalg.slogdet(information)[1] + freedom * np.log(rss))
    root = np.linalg.cholesky(np.linalg.inv(information))
    return log_evidence, mean, root, rss, freedom
