"""What the model needs of a sweep: every run a lane of one step grid. Arrays only, so that one program serves many."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import NDArray

from sde_grpo.hierarchy.covariates import setting
from sde_grpo.hierarchy.guide import Guide, find_guide
from sde_grpo.hierarchy.priors import slope_unit
from sde_grpo.hierarchy.sweep import Sweep
from sde_grpo.likelihood.links import Link
from sde_grpo.model.design import reward_scale
from sde_grpo.model.observation import NoiseKind
from sde_grpo.model.scale import Scale
from sde_grpo.runs import Run


class SweepDesign(eqx.Module):
    """Inputs of `sweep_model`. Lanes are runs; a lane's steps may have unobserved ones before, between and after."""

    reward: Float[Array, "run step"]  # unit scale
    observed: Bool[Array, "run step"]
    time: Float[Array, "run step"]  # steps since the run's first logged value
    gaps: Float[Array, " gap"]  # distinct gaps between logged values, the first of them 0
    gap_index: Int[Array, "run step"]  # which gap leads into each step; where nothing is logged, time stands still
    length: Float[Array, ""]  # steps from the first to the last logged value, median of the runs
    covariates: Float[Array, "run covariate"]  # centred, in units of `slope_unit`
    log2_group_size: Float[Array, " run"]  # centred; 0 where G is not known
    log_noise_drive: Float[Array, " run"]  # log learning rate, centred: the temperature goes with its square
    offset_log_curvature: Float[Array, " run"]  # of the finite-G correction, 0 without
    offset_level: Float[Array, " run"]  # likewise, in the coordinate of the link
    averaged: Float[Array, " run"]  # batches averaged in one logged value
    resolution: Float[Array, " run"]  # grid of the rewards, unit scale
    completions: tuple[Float[Array, " run"], Float[Array, " run"]]  # G, P
    order: Int[Array, " run"]  # the prompt order of each run
    orders: Int[Array, " order"]  # 0, 1, ...
    scale: Scale
    guide: Guide  # what each run says by itself: coordinates for the sampler, no part of the model
    link: Link = eqx.field(static=True)
    noise: NoiseKind = eqx.field(static=True)
    bounded: bool = eqx.field(static=True)
    paired: bool = eqx.field(static=True)
    tempered: bool = eqx.field(static=True)  # G varies, so that the temperature has an exponent


def build_design(sweep: Sweep) -> SweepDesign:
    """The design of a sweep, without a finite-G correction (see `corrected`)."""
    runs = sweep.runs
    configurations = [run.configuration for run in runs]
    bounded = configurations[0].reward_range is not None
    scale = _scale(runs)
    index, steps = _positions(sweep)
    gaps, gap_index = _gaps(runs, index, steps)
    reward, time = np.full((len(runs), steps), 0.5), np.zeros((len(runs), steps))
    observed = np.zeros((len(runs), steps), bool)
    for r, (run, place) in enumerate(zip(runs, index, strict=True)):
        reward[r, place] = (run.reward - scale[0]) / scale[1]
        elapsed = run.times - run.times[0]
        time[r] = elapsed[np.clip(np.searchsorted(place, np.arange(steps), side="right") - 1, 0, None)]
        observed[r, place] = True
    size, prompts = setting(runs, "group_size"), setting(runs, "prompts_per_step")
    if sweep.group_size is not None:
        size = sweep.group_size
    known = bool(np.isfinite(size).all() and np.isfinite(prompts).all())
    averaged = np.array([c.rows_averaged or 1.0 for c in configurations])
    binary = known and all(run.binary for run in runs)
    rate = setting(runs, "learning_rate")
    covariates = np.array([_unit(name, values) for name, values in sweep.covariates.items()]).T
    order = np.unique(np.asarray(sweep.orders), return_inverse=True)[1]
    per_value = np.where(np.isfinite(size * prompts), size * prompts, 1.0) * averaged
    f = jax.device_put
    return SweepDesign(
        reward=f(reward),
        observed=f(observed),
        time=f(time),
        gaps=f(gaps),
        gap_index=f(gap_index),
        length=f(np.asarray(float(np.median([run.times[-1] - run.times[0] for run in runs])))),
        covariates=f(covariates),
        log2_group_size=f(_centred(np.log2(size))),
        log_noise_drive=f(_centred(np.log(rate))),
        offset_log_curvature=f(np.zeros(len(runs))),
        offset_level=f(np.zeros(len(runs))),
        averaged=f(averaged),
        resolution=f(1.0 / per_value if binary else np.full(len(runs), 1e-3)),
        completions=(f(np.nan_to_num(size, nan=1.0)), f(np.nan_to_num(prompts, nan=1.0))),
        order=f(order),
        orders=f(np.arange(order.max() + 1)),
        scale=Scale(*(f(np.asarray(value)) for value in scale)),
        guide=Guide.none(len(runs)),
        link=sweep.link,
        noise=("design_effect" if binary else "dispersion") if bounded else "constant",
        bounded=bounded,
        paired=sweep.paired,
        tempered=bool(np.isfinite(size).all() and np.ptp(size) > 0),
    )


def guided(design: SweepDesign) -> SweepDesign:
    """The same design in coordinates that are easy to sample."""
    return eqx.tree_at(lambda d: d.guide, design, find_guide(design))


def corrected(
    design: SweepDesign, offset_log_curvature: NDArray[np.float64], offset_level: NDArray[np.float64]
) -> SweepDesign:
    """The same design with what a finite group is expected to change taken out of the regression."""
    offsets = (jax.device_put(offset_log_curvature), jax.device_put(offset_level))
    return eqx.tree_at(lambda d: (d.offset_log_curvature, d.offset_level), design, offsets)


def _scale(runs: tuple[Run, ...]) -> tuple[float, float]:
    """One unit scale for all: the declared range, or that of all rewards together."""
    return reward_scale(replace(runs[0], reward=np.concatenate([run.reward for run in runs])))


def _unit(name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    return (values - values.mean()) / slope_unit(name, values)


def _centred(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values - values.mean() if np.isfinite(values).all() else np.zeros(len(values))


def _positions(sweep: Sweep) -> tuple[list[NDArray[np.int_]], int]:
    """Where each logged value stands on the common grid, and the length of the grid.

    Paired runs stand step by step beside each other; others begin at the left. The length is the next of
    2^i (4 + j)/4, j = 0 ... 3, so that sweeps of similar length share programs.
    """
    times = [np.round(run.times, 6) for run in sweep.runs]
    if sweep.paired:
        union = np.unique(np.concatenate(times))
        index = [np.searchsorted(union, t) for t in times]
    else:
        index = [np.arange(len(t)) for t in times]
    longest = max(int(place[-1]) + 1 for place in index)
    octave = 2 ** int(np.log2(longest))
    return index, next(n for n in (octave * j // 4 for j in range(4, 9)) if n >= longest)


def _gaps(
    runs: tuple[Run, ...], index: list[NDArray[np.int_]], steps: int
) -> tuple[NDArray[np.float64], NDArray[np.int_]]:
    """The distinct gaps, and which leads into each step of each lane."""
    between = [np.round(np.diff(run.times, prepend=run.times[0]), 6) for run in runs]
    gaps = np.unique(np.concatenate([[0.0], *between]))
    gap_index = np.zeros((len(runs), steps), int)
    for r, (place, gap) in enumerate(zip(index, between, strict=True)):
        gap_index[r, place] = np.searchsorted(gaps, gap)
    # Two gaps, 0 and another, tell the likelihood that all steps are alike; here some stand still.
    contiguous = all(np.array_equal(place, np.arange(len(place))) for place in index)
    if len(gaps) == 2 and contiguous:
        return gaps, np.ones_like(gap_index) - (np.arange(steps) == 0)
    size = max(2 ** int(np.ceil(np.log2(len(gaps)))), 4)
    return np.pad(gaps, (0, size - len(gaps)), mode="edge"), gap_index
