"""`transfer_runs`: one curvature across settings, each left out in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from sde_grpo.inference import convergence
from sde_grpo.intervals import describe
from sde_grpo.invariance.bayes_factor import BayesFactor, savage_dickey
from sde_grpo.likelihood.links import Link
from sde_grpo.precision import require_float64
from sde_grpo.runs import Run
from sde_grpo.transfer.design import Setting, build_lanes, longest
from sde_grpo.transfer.left_out import LeftOut, compare_left_out
from sde_grpo.transfer.one_run import OwnDraws, sample_each
from sde_grpo.transfer.population import SCATTER, build_kernels, sample_population
from sde_grpo.transfer.predict import Batches, Prediction, parse_setting, predict_setting

LARGE = 1.5  # factor between settings from which the scatter is called large
_JUDGED = ("log_curvature", "scatter_of_settings", "scatter_of_runs", "start", "fixed_point")


@dataclass(frozen=True)
class Transfer:
    """One curvature across settings.

    - `runs`, `settings`: (run,); `distinct`: the different settings, ascending.
    - `own`: each run alone; `population`: sites with axes (fit, chain, draw, ...), where fit 0 has all runs and fit
      1 + c lacks those of setting c.
    - `left_out`: each run, predicted from the runs of the other settings.
    """

    runs: tuple[Run, ...]
    settings: tuple[Setting, ...]
    distinct: tuple[Setting, ...]
    link: Link
    own: OwnDraws
    population: dict[str, NDArray[Any]]
    seed: int

    def predict(
        self, setting: Setting | str, steps: int | None = None, *, without: Setting | None = None
    ) -> Prediction:
        """A run of `setting`, or of ``learning_rate=...,momentum=...,refresh_interval=...``.

        It is as long as the longest run, or `steps`; `without` leaves the runs of one setting out. G, P and the unit of
        time are those of the first run.
        """
        target = parse_setting(setting, self.distinct) if isinstance(setting, str) else setting
        last = steps if steps is not None else max(float(run.times[-1] - run.times[0]) for run in self.runs)
        times = np.linspace(0.0, float(last), 101)
        return self._predict(target, self.runs[0], times, without)

    @cached_property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Each run, predicted from the runs of all other settings, beside what it did."""
        found = []
        for place, (run, setting) in enumerate(zip(self.runs, self.settings, strict=True)):
            prediction = self._predict(setting, run, run.times - run.times[0], setting)
            own = {name: getattr(self.own, name)[place] for name in OwnDraws._fields if name != "converged"}
            found.append(compare_left_out(run, prediction, own, seed=self.seed))
        return tuple(found)

    @cached_property
    def bayes_factor(self) -> BayesFactor:
        """For no scatter of the curvature between settings: above 1 the data favour one curvature."""
        folded = self.population["folded_scatter_of_settings"][0]
        signs = np.random.default_rng(self.seed).choice([-1.0, 1.0], folded.shape)  # its posterior is symmetric
        return savage_dickey(np.abs(folded) * signs, 0.0, float(norm.pdf(0.0, scale=SCATTER)))

    @cached_property
    def converged(self) -> bool:
        """Whether the runs alone and every fit of the population count as sampled."""
        fits = range(1 + len(self.distinct))
        reached = [convergence({n: self.population[n][f] for n in _JUDGED}) for f in fits]
        return bool(np.all(self.own.converged)) and all(r.rhat_max < 1.02 and r.ess_bulk_min > 200 for r in reached)

    @property
    def record(self) -> dict[str, Any]:
        """Plain data for ``summary.json``."""
        sites = self.population
        return {
            "settings": [setting.label for setting in self.distinct],
            "curvature": describe(np.exp(sites["log_curvature"][0])),
            "curvature_of_setting": {
                setting.label: describe(np.exp(sites["log_curvature_of_setting"][0, :, :, place]))
                for place, setting in enumerate(self.distinct)
            },
            "scatter_factor_of_settings": describe(np.exp(sites["scatter_of_settings"][0])),
            "scatter_factor_of_runs": describe(np.exp(sites["scatter_of_runs"][0])),
            "bayes_factor_one_curvature": self.bayes_factor.value,
            "bayes_factor_is_bound": self.bayes_factor.bound,
            "left_out": [one.record for one in self.left_out],
            "covered": sum(one.covered for one in self.left_out),
            "converged": self.converged,
        }

    @property
    def lines(self) -> list[str]:
        """The finding in words, one sentence a line."""
        record = self.record
        kappa, scatter = record["curvature"], record["scatter_factor_of_settings"]
        found = f"{scatter['q50']:.2f} [{scatter['q05']:.2f}, {scatter['q95']:.2f}]"
        if scatter["q50"] > LARGE:
            found += ". That is large: predictions are wide, and one curvature is at best a summary"
        elif len(self.distinct) < 3:
            found += ", which from two settings is hardly more than its prior"
        lines = [
            f"One curvature for {len(self.distinct)} settings: {kappa['q50']:.3g} [{kappa['q05']:.3g}, "
            f"{kappa['q95']:.3g}]. Between settings it scatters by a factor {found}. Bayes factor for no scatter: "
            f"{self.bayes_factor.value:.2g}.",
            f"Relaxation times of settings left out ({record['covered']} of {len(self.runs)} in their 90 % interval):",
            *(one.sentence for one in self.left_out),
        ]
        return lines if self.converged else [*lines, "The sampler has not converged: do not use these numbers."]

    def _predict(self, setting: Setting, like: Run, times: NDArray[np.float64], without: Setting | None) -> Prediction:
        fit = 0 if without is None else 1 + self.distinct.index(without)
        sites = {n: v[fit].reshape(-1, *v.shape[3:]) for n, v in self.population.items()}
        counted = np.array([one != without for one in self.settings])
        c = like.configuration
        assert c.reward_range is not None
        low, high = c.reward_range
        completions = (c.group_size or 1) * (c.prompts_per_step or 1) * (c.rows_averaged or 1.0)
        unit = float(setting.refresh_interval if c.step_unit == "rollout" else 1)
        batches = Batches(completions, unit, low, high - low)
        return predict_setting(sites, setting, self.own, counted, times, batches, self.link, seed=self.seed)


def transfer_runs(runs: Sequence[Run], *, link: Link | None = None, seed: int = 0, progress: bool = False) -> Transfer:
    """Fit every run alone, then what they have in common, with each setting left out in turn.

    **Arguments**

    - `runs`: with learning rate, momentum and refresh interval known, of at least two settings, better four or more.
    - `link`: as in `build_design`.

    Raises `InputError` in single precision, for one setting, unknown ones, and different or unknown reward ranges.
    """
    require_float64()
    lanes, settings = build_lanes(runs, link)
    distinct = tuple(sorted(set(settings)))
    own = sample_each(lanes, longest(settings), seed=seed, progress=progress)
    member = np.array([distinct.index(setting) for setting in settings])
    about = float(np.mean([float(lane.centre) for lane in lanes]))
    design = lanes[0].design
    kernels = build_kernels(own, member, about, design.link == "logit")
    weights = np.array([np.ones(len(runs)), *(1.0 * (member != c) for c in range(len(distinct)))])
    population = sample_population(kernels, weights, seed=seed)
    return Transfer(tuple(runs), tuple(settings), distinct, design.link, own, population, seed)
