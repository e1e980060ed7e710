"""What every engine returns, and when a posterior counts as sampled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from sde_grpo.inference.target import Model

EngineName = Literal["auto", "smc", "nuts", "laplace"]
RHAT_LIMIT = 1.01
ESS_LIMIT = 400.0
TAIL_LIMIT = 0.7  # Pareto shape above which importance weights cannot be trusted


class Draws(NamedTuple):
    """Draws of the posterior, axes (chain, draw, ...), by site name, with the sampler's own account.

    `tail` is the Pareto shape of the importance weights that gave the evidence, where the engine has such.
    """

    sites: dict[str, NDArray[np.float64]]
    diverging: NDArray[np.bool_]
    tree_steps: NDArray[np.int_]
    log_density: NDArray[np.float64]
    log_evidence: float
    engine: str
    tail: float | None

    @property
    def tail_will_do(self) -> bool:
        """Whether the importance weights, where there are such, have a tail that can be trusted."""
        return self.tail is None or self.tail <= TAIL_LIMIT


class Engine(Protocol):
    """Sample the posterior of a NumPyro model of one observed site: same key, same draws."""

    def __call__(self, key: Array, model: Model, args: tuple[Any, ...], *, progress: bool) -> Draws: ...


class Convergence(NamedTuple):
    """Worst rank-normalised split R-hat and effective sample sizes over the scalar quantities given."""

    rhat_max: float
    ess_bulk_min: float
    ess_tail_min: float
    worst: str

    @property
    def reached(self) -> bool:
        """R-hat <= 1.01 and at least 400 effective draws, bulk and tail, of everything."""
        return self.rhat_max <= RHAT_LIMIT and min(self.ess_bulk_min, self.ess_tail_min) >= ESS_LIMIT


def convergence(sites: Mapping[str, Float[Array, "chain draw"] | NDArray]) -> Convergence:
    """Diagnostics of Vehtari et al. (2021), doi:10.1214/20-BA1221, over all entries of shape (chain, draw)."""
    from arviz_stats.base.array import array_stats

    scalars = {k: np.asarray(v) for k, v in sites.items() if np.ndim(v) == 2}
    rhat, bulk, tail = {}, {}, {}
    for name, values in scalars.items():
        if np.ptp(values) == 0:
            continue
        rhat[name] = float(np.asarray(array_stats.rhat(values)))
        bulk[name] = float(np.asarray(array_stats.ess(values, method="bulk")))
        tail[name] = float(np.asarray(array_stats.ess(values, method="tail", prob=(0.05, 0.95))))
    worst = min(bulk, key=lambda name: min(bulk[name], tail[name]))
    return Convergence(max(rhat.values()), min(bulk.values()), min(tail.values()), worst)


def importance_summary(log_weight: Float[NDArray, " draw"]) -> tuple[float, float]:
    """Log of the mean weight, and the shape of the weights' upper tail (Pareto k-hat; -1 where all are equal)."""
    from arviz_stats.base.array import array_stats

    finite = log_weight[np.isfinite(log_weight)]
    evidence = np.logaddexp.reduce(finite) - np.log(log_weight.size)
    if np.ptp(finite) < 1e-6:
        return float(evidence), -1.0
    return float(evidence), float(np.asarray(array_stats.psislw(-finite)[1]))
