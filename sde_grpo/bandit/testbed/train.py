"""GRPO on the softmax bandit, replicates side by side: groups, stale batches, ratios, clipping, optimizer."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, PRNGKeyArray

from sde_grpo.bandit.testbed.bandit import Bandit
from sde_grpo.bandit.testbed.compositions import Batch, Compositions, average, compositions, draw, probabilities
from sde_grpo.bandit.testbed.optimizers import Moments, Optimizer
from sde_grpo.bandit.testbed.training import Training
from sde_grpo.errors import require
from sde_grpo.precision import require_float64
from sde_grpo.ranges import require_count


class History(NamedTuple):
    """What was seen just before the optimizer steps `steps` (counted from 1): step k has had k - 1 updates.

    Of the batch in use: `reward` its mean, `silent_share` the share of groups without a signal, `clip_share` the share
    of completions whose gradient is clipped. Of the current policy, averaged over all prompts and without sampling
    noise: `expected_reward`, `entropy` (nats), `kl` to the reference (nats); and its `logits`.
    """

    steps: Int[np.ndarray, " record"]
    reward: Float[Array, "replicate record"]
    silent_share: Float[Array, "replicate record"]
    clip_share: Float[Array, "replicate record"]
    expected_reward: Float[Array, "replicate record"]
    entropy: Float[Array, "replicate record"]
    kl: Float[Array, "replicate record"]
    logits: Float[Array, "replicate record prompt arm"]


class _Problem(NamedTuple):
    """What stays the same over a run, traced: a sweep over any of these numbers compiles once."""

    bandit: Bandit
    table: Compositions
    optimizer: Optimizer
    kl_weight: Float[Array, ""]
    clip_low: Float[Array, ""]
    clip_high: Float[Array, ""]
    refresh_interval: Int[Array, ""]
    record_every: Int[Array, ""]


class _Layout(NamedTuple):
    """What the compiled program depends on."""

    groups: int
    lag: int
    surrogate: str
    gradient: str
    records: int


class _State(NamedTuple):
    parameters: Float[Array, "replicate parameter"]
    moments: Moments
    history: Float[Array, "lag_plus_1 replicate parameter"]
    sampling: Float[Array, "replicate parameter"]
    batch: Batch


class _View(NamedTuple):
    """What a step was computed from: current parameters, those of its gradient, those sampled, and the batch."""

    parameters: Float[Array, "... parameter"]
    at: Float[Array, "... parameter"]
    sampling: Float[Array, "... parameter"]
    batch: Batch


def train(
    bandit: Bandit,
    training: Training,
    *,
    replicates: int = 1,
    seed: int = 0,
    start: ArrayLike = 0.0,
    record_every: int = 1,
) -> History:
    """Ascend  sum_i min(r_i A_i, clip(r_i, 1 - e_low, 1 + e_high) A_i) / (P G) - beta KL(pi || pi_ref).

    r_i is the ratio of the current to the sampling policy, A_i the advantage by `training.group_rule`. For two arms
    without clipping a group with k successes has the gradient s(k) w(theta)/w(theta_old) - beta w (theta - theta_ref).

    **Arguments**

    - `bandit`: prompts, arms, rewards and features.
    - `training`: the settings of the run.
    - `replicates`: independent copies, at least 1.
    - `seed`: of all random numbers. Runs that differ in settings or start alone but share the seed are coupled: each
      group is drawn by inversion from the same uniform number.
    - `start`: parameters x before the first step, finite: one number, shape (parameter,) or (replicate, parameter).
    - `record_every`: keep every so many steps, at least 1. With the refresh interval, one record per batch.

    Raises `InputError` outside these ranges, for a table of group outcomes that would be too long, and unless JAX
    computes in float64. Source: theory note sections 2 and 5.
    """
    require_float64()
    require_count("replicates", replicates, 1)
    require_count("record_every", record_every, 1)
    begin = _start(start, replicates, bandit.features.shape[-1])
    periodic = training.lag_schedule == "periodic"
    steps = np.arange(1, training.steps + 1, record_every)
    problem = _Problem(
        bandit,
        compositions(bandit, training.group_size, training.group_rule),
        jax.tree.map(jnp.asarray, training.optimizer),
        jnp.asarray(training.kl_weight),
        jnp.asarray(training.clip_low),
        jnp.asarray(training.clip_high),
        jnp.asarray(training.refresh_interval if periodic else 1),
        jnp.asarray(record_every),
    )
    layout = _Layout(
        training.prompts_per_step,
        0 if periodic else training.refresh_interval,
        training.surrogate,
        training.gradient,
        len(steps),
    )
    return History(steps, *_run(problem, layout, begin, jax.random.key(seed)))


@eqx.filter_jit
def _run(problem: _Problem, layout: _Layout, start: Float[Array, "replicate parameter"], key: PRNGKeyArray):
    """All records, replicate first."""

    def step(number: Int[Array, ""], carry: tuple[_State, _View]) -> tuple[_State, _View]:
        return _step(problem, layout, key, carry[0], number)

    def record(carry: tuple[_State, _View], number: Int[Array, ""]):
        last = number * problem.record_every
        after_former = jnp.maximum(last - problem.record_every + 1, 0)
        carry = jax.lax.fori_loop(after_former, last + 1, step, carry)
        return carry, jax.vmap(_seen, in_axes=(None, 0))(problem, carry[1])

    zeros = jnp.zeros_like(start)
    history = jnp.broadcast_to(start, (layout.lag + 1, *start.shape))
    nothing = average(problem.table, jnp.zeros((len(start), *problem.table.reward.shape)))
    carry = _State(start, Moments(zeros, zeros), history, start, nothing), _View(start, start, start, nothing)
    _, records = jax.lax.scan(record, carry, jnp.arange(layout.records))
    return jax.tree.map(lambda series: jnp.moveaxis(series, 0, 1), records)


def _step(
    problem: _Problem, layout: _Layout, key: PRNGKeyArray, state: _State, step: Int[Array, ""]
) -> tuple[_State, _View]:
    """One optimizer step of all replicates, and what there was to see before it."""
    history = state.history.at[step % (layout.lag + 1)].set(state.parameters)

    def refresh():
        sampling = history[(step + 1) % (layout.lag + 1)]  # the oldest kept
        weights = probabilities(problem.table, jax.vmap(problem.bandit.log_policy)(sampling))
        if layout.gradient == "sampled":
            weights = draw(jax.random.fold_in(key, step), weights, layout.groups)
        return sampling, average(problem.table, weights)

    # The condition is the same for all replicates, hence outside their vmap: no batch is drawn in vain
    sampling, batch = jax.lax.cond(step % problem.refresh_interval == 0, refresh, lambda: (state.sampling, state.batch))
    at = state.parameters if layout.surrogate == "importance_ratio" else sampling
    slope = jax.vmap(jax.grad(_objective, argnums=1), in_axes=(None, 0, 0, 0))
    change, moments = problem.optimizer.step(slope(problem, at, sampling, batch), state.moments, step)
    after = _State(state.parameters + change, moments, history, sampling, batch)
    return after, _View(state.parameters, at, sampling, batch)


def _objective(
    problem: _Problem, parameters: Float[Array, " parameter"], sampling: Float[Array, " parameter"], batch: Batch
) -> Float[Array, ""]:
    """min(r A, clip(r) A) is A min(r, 1 + e_high) for A > 0 and A max(r, 1 - e_low) for A < 0."""
    ratio = _ratio(problem, parameters, sampling)
    gain = jnp.minimum(ratio, 1 + problem.clip_high) * batch.raising
    loss = jnp.maximum(ratio, 1 - problem.clip_low) * batch.lowering
    return jnp.sum(gain + loss) - problem.kl_weight * batch.prompt @ _kl(problem, parameters)


def _ratio(problem: _Problem, parameters: Float[Array, " parameter"], sampling: Float[Array, " parameter"]):
    return jnp.exp(problem.bandit.log_policy(parameters) - problem.bandit.log_policy(sampling))


def _kl(problem: _Problem, parameters: Float[Array, " parameter"]) -> Float[Array, " prompt"]:
    now = problem.bandit.log_policy(parameters)
    return jnp.sum(jnp.exp(now) * (now - jax.nn.log_softmax(problem.bandit.reference_logits)), axis=-1)


def _seen(problem: _Problem, view: _View):
    """The fields of `History` after `steps`, of one replicate at one step."""
    batch, ratio = view.batch, _ratio(problem, view.at, view.sampling)
    clipped = batch.raised * (ratio > 1 + problem.clip_high) + batch.lowered * (ratio < 1 - problem.clip_low)
    log_policy = problem.bandit.log_policy(view.parameters)
    policy = jnp.exp(log_policy)
    return (
        batch.reward,
        batch.silent_share,
        clipped.sum(),
        jnp.mean(jnp.sum(policy * problem.bandit.rewards, axis=-1)),
        -jnp.mean(jnp.sum(policy * log_policy, axis=-1)),
        jnp.mean(_kl(problem, view.parameters)),
        problem.bandit.logits(view.parameters),
    )


def _start(start: ArrayLike, replicates: int, parameters: int) -> Float[Array, "replicate parameter"]:
    """The start as an array, or `InputError`."""
    given = np.asarray(start, dtype=np.float64)
    shapes = ((), (parameters,), (replicates, parameters))
    require(given.shape in shapes, f"start has shape {given.shape}; allowed are {', '.join(map(str, shapes))}.")
    require(bool(np.all(np.isfinite(given))), f"start is {start}; it must be finite.")
    return jnp.broadcast_to(jnp.asarray(given), (replicates, parameters))
