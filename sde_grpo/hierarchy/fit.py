"""`fit_sweep`: from a `Sweep` to a `SweepFit`, the posterior with everything needed to question and reproduce it."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from sde_grpo.fit.fit import PACKAGES
from sde_grpo.fit.record import run_from_dict, run_to_dict
from sde_grpo.fit.storage import load_tree, save_tree
from sde_grpo.groups import GroupRule
from sde_grpo.hierarchy.correction import finite_group_offsets
from sde_grpo.hierarchy.design import build_design, corrected, guided
from sde_grpo.hierarchy.evaluation import Evaluated, evaluate
from sde_grpo.hierarchy.sampler import sample_sweep, scalars
from sde_grpo.hierarchy.sweep import Sweep
from sde_grpo.inference import Draws, convergence
from sde_grpo.precision import require_float64

if TYPE_CHECKING:
    import xarray as xr

_FIELDS = ("names", "groups", "orders", "warnings", "paired", "link")


@dataclass(frozen=True, eq=False)
class SweepFit:
    """The posterior of a sweep.

    `tree` has the groups ``posterior`` (chain, draw, run or covariate), ``posterior_predictive`` (mean trajectories of
    thinned draws, NaN where a run has no such step), ``sample_stats`` and ``observed_data``; its attribute ``sde_grpo``
    holds sweep, correction, sampler account, seed and versions as JSON.
    """

    sweep: Sweep
    tree: xr.DataTree

    @cached_property
    def record(self) -> dict[str, Any]:
        """Sweep, correction, sampler account, seed and versions, as plain data."""
        return json.loads(self.tree.attrs["sde_grpo"])

    @property
    def posterior(self) -> xr.Dataset:
        """Parameters, (chain, draw) and run or covariate."""
        return self.tree["posterior"].to_dataset()

    def save(self, path: str | Path) -> None:
        """Write one netCDF file, atomically."""
        save_tree(self.tree, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> SweepFit:
        """Read a file that `save` wrote."""
        tree = load_tree(Path(path))
        kept = json.loads(tree.attrs["sde_grpo"])["sweep"]
        fields: dict[str, Any] = {name: tuple(v) if isinstance(v := kept[name], list) else v for name in _FIELDS}
        size = kept["group_size"]
        sweep = Sweep(
            runs=tuple(run_from_dict(run) for run in kept["runs"]),
            group_size=None if size is None else np.asarray(size, dtype=float),
            covariates={name: np.asarray(v, dtype=float) for name, v in kept["covariates"].items()},
            **fields,
        )
        return cls(sweep, tree)


def fit_sweep(sweep: Sweep, *, correction: bool | GroupRule = False, seed: int = 0, progress: bool = False) -> SweepFit:
    """Sample the posterior of `sweep_model` for `sweep`.

    `correction` takes what the group size alone should change (`finite_group_offsets`) out of the regression: True for
    the rule of torch trainers (sample standard deviation), or the trainer's `GroupRule`. Both fits use one compiled
    program. Raises `InputError` in single precision, and where a correction is not defined.
    """
    require_float64()
    started = time.perf_counter()
    design = build_design(sweep)
    offsets = (np.zeros(len(sweep.runs)), np.zeros(len(sweep.runs)))
    if correction:
        rule = GroupRule(scale="sample") if correction is True else correction
        offsets = finite_group_offsets(sweep, rule)
        design = corrected(design, *offsets)
    design = guided(design)
    draws = sample_sweep(jax.random.key(seed), design, progress=progress)
    found = evaluate(sweep, design, draws.sites)
    tree = _tree(sweep, draws, found)
    sweep_record = {name: getattr(sweep, name) for name in _FIELDS} | {
        "runs": [run_to_dict(run) for run in sweep.runs],
        "group_size": None if sweep.group_size is None else sweep.group_size.tolist(),
        "covariates": {name: values.tolist() for name, values in sweep.covariates.items()},
    }
    tree.attrs["sde_grpo"] = json.dumps(
        {
            "sweep": sweep_record,
            "correction": {"log_curvature": offsets[0].tolist(), "level": offsets[1].tolist()} if correction else None,
            "model": {"link": design.link, "noise": design.noise, "paired": design.paired},
            "seed": seed,
            "versions": {name: version(name) for name in PACKAGES} | {"python": sys.version.split()[0]},
            "sampler": _account(draws, found, time.perf_counter() - started),
        }
    )
    return SweepFit(sweep, tree)


def _account(draws: Draws, found: Evaluated, seconds: float) -> dict[str, Any]:
    reached = convergence(scalars(found.posterior))
    divergences = int(draws.diverging.sum())
    return {
        "engine": draws.engine,
        "chains": draws.diverging.shape[0],
        "draws": draws.diverging.shape[1],
        "divergences": divergences,
        "rhat_max": reached.rhat_max,
        "ess_bulk_min": reached.ess_bulk_min,
        "ess_tail_min": reached.ess_tail_min,
        "worst": reached.worst,
        "converged": reached.reached and divergences == 0,
        "seconds": seconds,
    }


def _tree(sweep: Sweep, draws: Draws, found: Evaluated) -> xr.DataTree:
    import xarray as xr

    names, covariates = list(sweep.names), list(sweep.covariates)
    trailing = {"slope": ("covariate",)}
    dims = lambda name, v: () if v.ndim == 2 else trailing.get(name.partition("_")[0], ("run",))  # noqa: E731
    posterior = {n: (("chain", "draw", *dims(n, v)), v) for n, v in found.posterior.items()}
    steps = np.unique(np.concatenate([np.round(run.times, 6) for run in sweep.runs]))
    place = [np.searchsorted(steps, np.round(run.times, 6)) for run in sweep.runs]
    observed = np.full((len(names), len(steps)), np.nan)
    mean = np.full((*found.mean.shape[:2], len(names), len(steps)), np.nan)
    for r, (run, where) in enumerate(zip(sweep.runs, place, strict=True)):
        observed[r, where] = run.reward
        mean[:, :, r, where] = found.mean[:, :, r][:, :, found.places[r]]
    runs_steps = {"run": names, "step": steps}
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(posterior, coords={"run": names, "covariate": covariates}),
            "posterior_predictive": xr.Dataset({"mean": (("chain", "draw", "run", "step"), mean)}, coords=runs_steps),
            "sample_stats": xr.Dataset(
                {
                    "diverging": (("chain", "draw"), draws.diverging),
                    "n_steps": (("chain", "draw"), draws.tree_steps),
                    "lp": (("chain", "draw"), draws.log_density),
                }
            ),
            "observed_data": xr.Dataset({"reward": (("run", "step"), observed)}, coords=runs_steps),
        }
    )
