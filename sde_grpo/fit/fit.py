"""`fit_run`: from a `Run` to a `Fit`, the posterior with everything needed to question and reproduce it."""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sde_grpo.errors import require
from sde_grpo.fit.evaluation import evaluate, keys, predict
from sde_grpo.fit.parameters import SITES
from sde_grpo.fit.record import run_from_dict, run_to_dict
from sde_grpo.fit.storage import load_tree, save_tree
from sde_grpo.fit.trajectories import extended
from sde_grpo.inference import Draws, EngineName, convergence, sample
from sde_grpo.model import PRIORS, Design, Dynamics, Link, build_design, padded, trace_model
from sde_grpo.precision import require_float64
from sde_grpo.runs import Run

if TYPE_CHECKING:
    import xarray as xr

    from sde_grpo.checks import CheckReport

PACKAGES = ("sde-grpo", "jax", "numpyro", "diffrax", "arviz", "numpy", "scipy", "xarray")


@dataclass(frozen=True)
class Fit:
    """The posterior of one run.

    `tree` has the groups ``posterior`` (chain, draw), ``prior``, ``posterior_predictive`` (chain, draw thinned,
    step), ``log_likelihood`` (one step ahead, pointwise), ``sample_stats``, ``observed_data``, ``constant_data``;
    its attribute ``sde_grpo`` holds run, model, priors, versions and seed as JSON. All rewards are in the run's units.
    """

    run: Run
    tree: xr.DataTree

    @cached_property
    def record(self) -> dict[str, Any]:
        """Run, model, priors, versions, seed and sampler account, as plain data."""
        return json.loads(self.tree.attrs["sde_grpo"])

    @cached_property
    def design(self) -> Design:
        """The inputs of the model, rebuilt from the run."""
        model = self.record["model"]
        return build_design(self.run, model["link"], model["dynamics"])

    @property
    def posterior(self) -> xr.Dataset:
        """Parameters, (chain, draw)."""
        return self.tree["posterior"].to_dataset()

    @property
    def predictive(self) -> xr.Dataset:
        """Trajectories and replicated traces, (chain, draw, step)."""
        return self.tree["posterior_predictive"].to_dataset()

    def draws(self, name: str) -> np.ndarray:
        """All draws of a parameter, flat."""
        return self.posterior[name].to_numpy().ravel()

    def forecast(self, steps: ArrayLike, seed: int = 0) -> xr.Dataset:
        """Trajectory, expected reward and reward (one logged batch) at future `steps`, given the data: (draw, step).

        Raises `InputError` unless the steps increase and lie after the last logged one.
        """
        import xarray as xr

        future = np.atleast_1d(np.asarray(steps, dtype=float))
        last = float(self.run.times[-1])
        require(
            bool(future.size and np.all(np.diff(future, prepend=last) > 0)),
            f"Forecast steps must increase and lie after the last logged step, {last:g}; given {future[:3]} ...",
        )
        longer = extended(self.design, future - float(self.run.times[0]))
        sites = {str(n): v.to_numpy() for n, v in self.tree["sites"].to_dataset().data_vars.items()}
        paths = predict(seed, padded(longer), sites)
        new = slice(len(self.run.times), len(longer.time))
        mean, expected, noise = (np.asarray(v)[:, new] for v in (paths.mean, paths.expected_reward, paths.noise_sd))
        rewards = expected + noise * np.random.default_rng(seed).standard_normal(noise.shape)
        fields = {"mean": mean, "expected_reward": expected, "reward": rewards}
        return xr.Dataset({n: (("draw", "step"), v) for n, v in fields.items()}, coords={"step": future})

    @cached_property
    def checks(self) -> CheckReport:
        """Posterior predictive checks (`check_fit`)."""
        from sde_grpo.checks import check_fit

        return check_fit(self)

    def summary(self) -> dict[str, Any]:
        """The content of ``summary.json``: run, model, parameters, forecast, fit, sampler, checks, warnings."""
        from sde_grpo.answers import summarise

        return summarise(self)

    def save(self, path: str | Path) -> None:
        """Write one netCDF file, atomically."""
        save_tree(self.tree, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Fit:
        """Read a file that `save` wrote."""
        tree = load_tree(Path(path))
        return cls(run_from_dict(json.loads(tree.attrs["sde_grpo"])["run"]), tree)


def fit_run(
    run: Run,
    *,
    link: Link | None = None,
    dynamics: Dynamics | None = None,
    engine: EngineName = "auto",
    seed: int = 0,
    progress: bool = False,
) -> Fit:
    """Sample the posterior of `trace_model` for `run`.

    `link` and `dynamics` default as in `build_design`; the same `seed` gives the same fit on the same versions.
    `engine` is ``"smc"``, ``"nuts"``, or ``"auto"``: smc, and nuts where smc has not converged.
    Raises `InputError` in single precision, for an unknown engine, and where the design cannot be built.
    """
    require_float64()
    started = time.perf_counter()
    design = padded(build_design(run, link, dynamics))
    key_sample, key_prior, key_paths = keys(seed)
    draws = sample(engine, key_sample, trace_model, (design, design.reward), progress=progress)
    sites = {n: draws.sites[n] for n in SITES if n in draws.sites}
    found = evaluate(key_prior, key_paths, design, sites, len(run.times))
    from sde_grpo.fit.tree import build_tree

    tree = build_tree(run, draws, sites, found)
    tree.attrs["sde_grpo"] = json.dumps(
        {
            "run": run_to_dict(run),
            "model": {
                "link": design.link,
                "dynamics": design.dynamics,
                "noise": design.noise,
                "priors": {n: p.prior for n, p in PRIORS.items()},
            },
            "seed": seed,
            "versions": {name: version(name) for name in PACKAGES} | {"python": sys.version.split()[0]},
            "sampler": _account(draws, found.posterior, time.perf_counter() - started),
        }
    )
    return Fit(run, tree)


def _account(draws: Draws, posterior: dict[str, np.ndarray], seconds: float) -> dict[str, Any]:
    reached = convergence(posterior)
    kilobyte = 1024.0 if sys.platform != "darwin" else 1.0
    return {
        "engine": draws.engine,
        "chains": draws.diverging.shape[0],
        "draws": draws.diverging.shape[1],
        "divergences": int(draws.diverging.sum()),
        "rhat_max": reached.rhat_max,
        "ess_bulk_min": reached.ess_bulk_min,
        "ess_tail_min": reached.ess_tail_min,
        "worst": reached.worst,
        "converged": reached.reached and draws.tail_will_do,
        "tail": draws.tail,
        "log_evidence": draws.log_evidence,
        "seconds": seconds,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kilobyte / 1e6,
    }
