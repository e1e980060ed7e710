"""What the model needs of a run: the step grid, the scale, and which variant applies. Arrays only, no names."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import ArrayLike

from sde_grpo.errors import require
from sde_grpo.likelihood.links import Link
from sde_grpo.model.observation import NoiseKind
from sde_grpo.model.scale import Scale
from sde_grpo.oscillator import UpdateRule
from sde_grpo.runs import Configuration, Run

Dynamics = Literal["free", "mechanistic"]
_NEEDED = ("learning_rate", "momentum", "refresh_interval")


class Design(eqx.Module):
    """Inputs of `trace_model` for one run; every array field may be padded (unobserved steps at the end)."""

    reward: Float[Array, " step"]  # unit scale
    time: Float[Array, " step"]  # steps since the first logged value
    gaps: Float[Array, " gap"]  # the distinct gaps between logged values
    gap_index: Int[Array, " step"]  # which gap leads into each step
    observed: Bool[Array, " step"]
    length: Float[Array, ""]  # steps from the first to the last logged value
    averaged: Float[Array, ""]  # batches averaged in one logged value
    resolution: Float[Array, ""]  # grid of the rewards, unit scale
    completions: tuple[Float[Array, ""], Float[Array, ""]]  # G, P
    scale: Scale
    time_unit: Float[Array, ""]  # optimizer steps per unit of the step column
    rule: UpdateRule | None
    link: Link = eqx.field(static=True)
    dynamics: Dynamics = eqx.field(static=True)
    noise: NoiseKind = eqx.field(static=True)
    bounded: bool = eqx.field(static=True)


def _array(values: ArrayLike) -> Array:
    """Put on the device as it is: `jnp.asarray` compiles a program for every shape."""
    return jax.device_put(np.asarray(values, dtype=float))


def update_rule(configuration: Configuration) -> UpdateRule | None:
    """The update rule, where learning rate, momentum and refresh interval are all known; otherwise None."""
    c = configuration
    if c.learning_rate is None or c.momentum is None or c.refresh_interval is None:
        return None
    # Arrays, not numbers: another learning rate is then no other program to compile.
    return UpdateRule(
        _array(c.learning_rate),
        _array(c.momentum),
        c.momentum_kind or "heavy_ball",
        c.refresh_interval,
        c.lag_schedule or "periodic",
        _array(1.0),
    )


def reward_scale(run: Run) -> tuple[float, float]:
    """(low, width) of the unit scale: the declared range, or median and spread where there is none."""
    if run.configuration.reward_range is not None:
        low, high = run.configuration.reward_range
        return low, high - low
    return float(np.median(run.reward)), float(np.std(run.reward))


def build_design(run: Run, link: Link | None = None, dynamics: Dynamics | None = None) -> Design:
    """The design of a run.

    `link` defaults to logit where the reward has a range, identity otherwise; `dynamics` to mechanistic where
    learning rate, momentum and refresh interval are known, free otherwise. Raises `InputError` where what was asked
    for needs something that the run lacks.
    """
    c = run.configuration
    bounded = c.reward_range is not None
    link = link or ("logit" if bounded else "identity")
    require(
        link == "identity" or bounded,
        "The logit link needs a reward range, and rewards of this run lie outside [0, 1]. "
        "Declare it with --reward-range LOW HIGH, or use --link identity.",
    )
    rule = update_rule(c)
    dynamics = dynamics or ("mechanistic" if rule is not None else "free")
    missing = [name for name in _NEEDED if getattr(c, name) is None]
    require(
        dynamics == "free" or not missing,
        f"Mechanistic dynamics need {', '.join(_NEEDED)}; this run lacks {', '.join(missing)}. "
        f"Give them as options (--{missing[0].replace('_', '-') if missing else ''} ...) or use --dynamics free.",
    )
    low, width = reward_scale(run)
    time = run.times - run.times[0]
    gaps, index = np.unique(np.round(np.diff(time, prepend=time[0]), 9), return_inverse=True)
    averaged = c.rows_averaged or 1.0
    known = c.group_size is not None and c.prompts_per_step is not None
    per_value = (c.group_size or 1) * (c.prompts_per_step or 1) * averaged
    f = _array
    return Design(
        reward=f((run.reward - low) / width),
        time=f(time),
        gaps=f(gaps),
        gap_index=jax.device_put(index),
        observed=jax.device_put(np.ones(len(time), bool)),
        length=f(time[-1]),
        averaged=f(averaged),
        resolution=f(1.0 / per_value if run.binary else 1e-3),
        completions=(f(c.group_size or 1), f(c.prompts_per_step or 1)),
        scale=Scale(f(low), f(width)),
        time_unit=f(c.refresh_interval if c.step_unit == "rollout" and c.refresh_interval else 1),
        rule=rule,
        link=link,
        dynamics=dynamics,
        noise=("design_effect" if known and run.binary else "dispersion") if bounded else "constant",
        bounded=bounded,
    )


def padded(design: Design) -> Design:
    """The same run with unobserved steps after its last, so that runs of similar length share compiled programs.

    Steps are filled up to the next of 2^i (4 + j)/4, j = 0 ... 3, and distinct gaps to the next power of two.
    """
    steps, gaps = len(design.time), len(design.gaps)
    octave = 2 ** int(np.log2(steps))
    more = next(n for n in (octave * j // 4 for j in range(4, 9)) if n >= steps) - steps
    last, gap = np.asarray(design.time)[-1], np.asarray(design.gaps)[min(1, gaps - 1)]
    fields = {
        "reward": np.pad(design.reward, (0, more), constant_values=0.5),
        "time": np.concatenate([design.time, last + gap * np.arange(1, more + 1)]),
        "gaps": np.pad(design.gaps, (0, 2 ** int(np.ceil(np.log2(gaps))) - gaps), mode="edge"),
        "gap_index": np.pad(design.gap_index, (0, more), constant_values=min(1, gaps - 1)),
        "observed": np.pad(design.observed, (0, more)),
    }
    arrays = jax.device_put(tuple(fields.values()))
    return eqx.tree_at(lambda d: tuple(getattr(d, n) for n in fields), design, arrays)
