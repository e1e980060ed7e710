"""The groups of a fit as one xarray `DataTree` with named dimensions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sde_grpo.fit.evaluation import Evaluated
from sde_grpo.inference import Draws
from sde_grpo.runs import Run

CHAIN_DRAW = ("chain", "draw")


def build_tree(run: Run, draws: Draws, sites: Mapping[str, NDArray], found: Evaluated) -> xr.DataTree:
    """The groups that `Fit` lists: the sampler's `draws`, its `sites` (chain, draw), what was evaluated of them."""
    chains, paths = draws.diverging.shape[0], found.trajectories

    def stepwise(values: Mapping[str, NDArray]) -> xr.Dataset:
        fields = {n: ((*CHAIN_DRAW, "step"), v.reshape(chains, -1, v.shape[-1])) for n, v in values.items()}
        return xr.Dataset(fields, coords={"step": run.times})

    predictive = {n: v for n, v in paths._asdict().items() if n not in ("replicate", "log_likelihood")}
    return xr.DataTree.from_dict(
        {
            "posterior": _dataset(found.posterior),
            "prior": _dataset(found.prior),
            "sites": _dataset(sites),
            "posterior_predictive": stepwise({"reward": np.asarray(paths.replicate), **predictive}),
            "log_likelihood": stepwise({"reward": np.asarray(paths.log_likelihood)}),
            "sample_stats": xr.Dataset(
                {
                    "diverging": (CHAIN_DRAW, draws.diverging),
                    "n_steps": (CHAIN_DRAW, draws.tree_steps),
                    "lp": (CHAIN_DRAW, draws.log_density),
                }
            ),
            "observed_data": xr.Dataset({"reward": ("step", run.reward)}, coords={"step": run.times}),
        }
    )


def _dataset(values: Mapping[str, NDArray]) -> xr.Dataset:
    return xr.Dataset({n: (CHAIN_DRAW, np.asarray(v, dtype=float)) for n, v in values.items()})
