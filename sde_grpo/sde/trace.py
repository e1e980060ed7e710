"""Reward traces with known answers: settings in, what a log of such a run would show, and the truth behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.special import logit

from sde_grpo.bandit import curvature as bandit_curvature
from sde_grpo.bandit import fixed_point as bandit_fixed_point
from sde_grpo.errors import require
from sde_grpo.oscillator import LagSchedule, MomentumKind, Oscillator, UpdateRule, regime
from sde_grpo.ranges import (
    require_count,
    require_group_size,
    require_not_negative,
    require_positive,
    require_probability,
)
from sde_grpo.sde.ensemble import sample_paths
from sde_grpo.sde.exact import require_stationary, sample_exact
from sde_grpo.sde.forces import LinearForce, SoftmaxForce
from sde_grpo.sde.motion import Motion, inertial
from sde_grpo.sde.observation import observe

ModelName = Literal["oscillator", "kl-anchored", "kl-free"]

_GIVEN_TO = {
    "oscillator": ("curvature", "fixed_point", "stationary_sd", "gradient_noise"),
    "kl-anchored": ("kl_weight", "p_ref"),
    "kl-free": ("p_ref",),
}
_P_REF = 0.5
_NEEDED_BY = {"oscillator": ("curvature", "fixed_point"), "kl-anchored": ("kl_weight",), "kl-free": ()}


@dataclass(frozen=True, kw_only=True)
class TraceSettings:
    """One simulated run: the settings of the trainer, and the law its policy follows.

    **Arguments**

    - `model`: ``"oscillator"``, M x'' + C x' + K x = s dW/dt in the reward itself, stale fraction 1;
      ``"kl-anchored"`` or ``"kl-free"``, the softmax bandit's force and state-dependent noise in the logit.
    - `learning_rate`, `momentum`, `momentum_kind`, `refresh_interval`, `lag_schedule`: as for `UpdateRule`.
    - `group_size`, `prompts_per_step`: G >= 2 and P >= 1.
    - `steps`: optimizer steps, at least 1.
    - `start`: expected reward at the first step, in (0, 1). By default drawn from the stationary law of the
      oscillator, and `p_ref` for the other two.
    - `curvature`, `fixed_point`: kappa > 0 and p* in (0, 1), of the oscillator.
    - `stationary_sd` or `gradient_noise`: of the oscillator, the stationary standard deviation of the reward, or
      sigma_g in s = eta sigma_g/sqrt(G). By default the noise of P groups of G completions with 0/1 rewards at p*,
      s = eta w* sqrt(Var s(k) / P).
    - `kl_weight`, `p_ref`: beta > 0 and the reference policy's success probability, 0.5 by default.

    Raises `InputError` for a value outside its range, one that is missing, and one that the model does not take.
    """

    model: ModelName = "oscillator"
    learning_rate: float
    momentum: float = 0.0
    momentum_kind: MomentumKind = "heavy_ball"
    refresh_interval: int = 1
    lag_schedule: LagSchedule = "periodic"
    group_size: int = 8
    prompts_per_step: int = 32
    steps: int = 300
    start: float | None = None
    curvature: float | None = None
    fixed_point: float | None = None
    stationary_sd: float | None = None
    gradient_noise: float | None = None
    kl_weight: float | None = None
    p_ref: float | None = None

    def __post_init__(self) -> None:
        require(self.model in _GIVEN_TO, f"model is {self.model!r}; allowed are {', '.join(map(repr, _GIVEN_TO))}.")
        require_positive("learning_rate", self.learning_rate)
        self.rule()
        require_count("refresh_interval", self.refresh_interval, 1)
        require_group_size(self.group_size)
        require_count("prompts_per_step", self.prompts_per_step, 1)
        require_count("steps", self.steps, 1)
        self._require_its_own()
        for name in ("curvature", "kl_weight"):
            if getattr(self, name) is not None:
                require_positive(name, getattr(self, name))
        for name in ("stationary_sd", "gradient_noise"):
            if getattr(self, name) is not None:
                require_not_negative(name, getattr(self, name))
        for name in ("start", "fixed_point", "p_ref"):
            if getattr(self, name) is not None:
                require_probability(name, getattr(self, name))
        require(
            self.stationary_sd is None or self.gradient_noise is None,
            f"stationary_sd is {self.stationary_sd} and gradient_noise {self.gradient_noise}; give one of them.",
        )
        require(
            self.model != "kl-free" or self.refresh_interval == 1,
            f"refresh_interval is {self.refresh_interval}; the kl-free law has no fixed point to expand the lag "
            "about, so it must be 1 there. Take another model, or the sampled bandit.",
        )

    def rule(self, stale_fraction: float = 1.0) -> UpdateRule:
        """The optimizer's part of the settings."""
        return UpdateRule(
            self.learning_rate,
            self.momentum,
            self.momentum_kind,
            self.refresh_interval,
            self.lag_schedule,
            stale_fraction,
        )

    def _require_its_own(self) -> None:
        for name in ("curvature", "fixed_point", "stationary_sd", "gradient_noise", "kl_weight", "p_ref"):
            value = getattr(self, name)
            takers = [model for model, taken in _GIVEN_TO.items() if name in taken]
            require(
                value is None or self.model in takers,
                f"{name} is {value}, but the {self.model} model does not take it; it is for {' and '.join(takers)}.",
            )
            require(
                value is not None or name not in _NEEDED_BY[self.model],
                f"{name} is missing; the {self.model} model needs it.",
            )


@dataclass(frozen=True)
class Truth:
    """What a fit of the trace should find; `None` where the model has no such number.

    - `fixed_point`: the plateau; 1 for the KL-free law.
    - `curvature`, `relaxation_time` = C/K (steps), `inertia_ratio` = M K/C^2, `regime`: at the fixed point.
    - `stationary_sd`: of the expected reward, sqrt(T/K), to first order where the noise depends on the state.
    - `sampling_sd`: of a logged value about the expected reward, at the fixed point.
    """

    fixed_point: float
    curvature: float | None = None
    relaxation_time: float | None = None
    inertia_ratio: float | None = None
    regime: str | None = None
    stationary_sd: float | None = None
    sampling_sd: float | None = None


class Traces(NamedTuple):
    """Runs of one setting: the optimizer step (from 1) of each logged batch, its mean reward, and the expected one."""

    steps: Int[np.ndarray, "row"]
    reward: Float[np.ndarray, "run row"]
    expected: Float[np.ndarray, "run row"]
    truth: Truth


def simulate_traces(settings: TraceSettings, *, runs: int = 1, seed: int = 0) -> Traces:
    """`runs` independent logs: paths of the law, seen through the sampling noise of each batch.

    A batch is logged at the step for which it was sampled, before that step's update: every K_ref steps under the
    periodic schedule, every step under the constant one. Paths with a start begin at rest. The oscillator is sampled
    from its exact transition, the other two are solved by SPaRK with one step per optimizer step.

    Raises `InputError` for runs < 1 or seed < 0, where no start is given and the oscillator has no stationary law,
    where the bandit has no fixed point, and where the expected reward leaves [0, 1].
    """
    require_count("runs", runs, 1)
    require_count("seed", seed, 0)
    key_path, key_batch = jax.random.split(jax.random.key(seed))
    updates = settings.steps - 1  # the last batch is logged before its update
    if settings.model == "oscillator":
        force, motion, truth = _oscillator(settings)
        if settings.start is None:
            require_stationary(motion)
        start = None if settings.start is None else settings.start - truth.fixed_point
        paths = sample_exact(force, motion, key=key_path, steps=max(updates, 1), chains=runs, start=start)
    else:
        force, motion, truth = _softmax(settings)
        start = float(logit(settings.start or settings.p_ref or _P_REF))
        paths = sample_paths(force, motion, key=key_path, start=start, steps=max(updates, 1), chains=runs)
    every = settings.refresh_interval if settings.lag_schedule == "periodic" else 1
    expected = paths.reward[:, : settings.steps : every]
    batch = {"group_size": settings.group_size, "prompts_per_step": settings.prompts_per_step}
    reward = observe(key_batch, expected, **batch)
    steps = np.arange(1, settings.steps + 1, every)
    return Traces(steps, np.asarray(reward), np.asarray(expected), truth)


def _oscillator(settings: TraceSettings) -> tuple[LinearForce, Motion, Truth]:
    assert settings.curvature is not None
    assert settings.fixed_point is not None
    motion = inertial(settings.rule(), settings.curvature)
    p = settings.fixed_point
    if settings.stationary_sd is not None:
        require_stationary(motion)
        s = settings.stationary_sd * math.sqrt(2 * float(motion.damping) * motion.learning_rate * settings.curvature)
        sigma = s * math.sqrt(settings.group_size) / motion.learning_rate
    elif settings.gradient_noise is not None:
        sigma = settings.gradient_noise
    else:
        groups = SoftmaxForce(0.0, 0.5, settings.group_size, settings.prompts_per_step)
        variance = float(groups.variance(jnp.asarray(logit(p))))
        sigma = p * (1 - p) * math.sqrt(variance * settings.group_size)
    force = LinearForce(settings.curvature, sigma, settings.group_size, p)
    return force, motion, _truth(settings, motion, p, settings.curvature, float(force.variance(jnp.zeros(()))))


def _softmax(settings: TraceSettings) -> tuple[SoftmaxForce, Motion, Truth]:
    p_ref, beta = settings.p_ref or _P_REF, settings.kl_weight or 0.0
    force = SoftmaxForce(beta, p_ref, settings.group_size, settings.prompts_per_step)
    if settings.model == "kl-free":
        return force, inertial(settings.rule()), Truth(fixed_point=1.0)
    p = bandit_fixed_point(p_ref, beta, settings.group_size)
    kappa = bandit_curvature(p_ref, beta, settings.group_size)
    w = p * (1 - p)
    motion = inertial(settings.rule(stale_fraction=1 - beta * w / kappa), kappa)
    variance = w**2 * float(force.variance(jnp.asarray(logit(p))))
    return force, motion, _truth(settings, motion, p, kappa, variance)


def _truth(settings: TraceSettings, motion: Motion, p: float, kappa: float, variance: float) -> Truth:
    """`variance` is that of one step's gradient, in the coordinate of the reward."""
    assert motion.mass is not None
    stiffness = float(motion.learning_rate) * kappa
    damping = float(motion.damping)
    oscillator = Oscillator(jnp.asarray(motion.mass), jnp.asarray(motion.damping), jnp.asarray(stiffness))
    sampling = math.sqrt(p * (1 - p) / (settings.group_size * settings.prompts_per_step))
    if damping <= 0:
        return Truth(p, kappa, regime="unstable", sampling_sd=sampling)
    return Truth(
        fixed_point=p,
        curvature=kappa,
        relaxation_time=float(oscillator.relaxation_time),
        inertia_ratio=float(oscillator.inertia_ratio),
        regime=regime(oscillator),
        stationary_sd=float(motion.learning_rate) * math.sqrt(variance / (2 * damping * stiffness)),
        sampling_sd=sampling,
    )
