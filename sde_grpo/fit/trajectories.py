"""Per draw of the posterior: the trajectory, replicated traces, path behind the data, one-step-ahead predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from sde_grpo.model import Design, trace_model

if TYPE_CHECKING:
    from sde_grpo.likelihood import OscillatorTrace


BATCH = 40  # draws at a time: what divides their number is compiled once, not twice


class Trajectories(NamedTuple):
    """Arrays (draw, step), in units of the reward."""

    mean: Float[Array, "draw step"]  # deterministic trajectory
    expected_reward: Float[Array, "draw step"]  # trajectory and fluctuation given the data
    replicate: Float[Array, "draw step"]  # a new trace from the same parameters
    noise_sd: Float[Array, "draw step"]  # of the sampling noise alone
    marginal_sd: Float[Array, "draw step"]  # of fluctuation and sampling noise together
    ahead_mean: Float[Array, "draw step"]  # one step ahead, given the rewards before
    ahead_sd: Float[Array, "draw step"]
    log_likelihood: Float[Array, "draw step"]  # log p(y_k | y_1 ... y_{k-1}), per unit of the reward


def _distribution(design: Design, parameters: dict[str, Array]) -> OscillatorTrace:
    from numpyro import handlers

    model = handlers.seed(handlers.substitute(trace_model, parameters), jax.random.key(0))
    return handlers.trace(model).get_trace(design)["obs"]["fn"].trace


def trajectories(key: Array, design: Design, sites: Mapping[str, Float[Array, " draw"]]) -> Trajectories:
    """Evaluate the draws `sites` on every step of `design`; for use within a compiled program."""
    from sde_grpo.likelihood import OscillatorTrace

    keys = jax.random.split(key, len(next(iter(sites.values()))))
    scale = design.scale

    def one(inputs):
        draw, key = inputs
        law = _distribution(design, draw)
        key_new, key_path = jax.random.split(key)
        ahead = law.filtered(design.reward)
        unseen = OscillatorTrace(law.loc, law.gain, law.noise_variance, law.steps, jnp.zeros(law.loc.shape, bool))
        return Trajectories(
            scale.to_reward(law.loc),
            scale.to_reward(law.loc + law.gain * law.conditional_path(key_path, design.reward)),
            scale.to_reward(law.sample(key_new)),
            scale.width * jnp.sqrt(law.noise_variance),
            scale.width * jnp.sqrt(unseen.filtered(design.reward).variance),
            scale.to_reward(ahead.mean),
            scale.width * jnp.sqrt(ahead.variance),
            ahead.log_density - jnp.log(scale.width),
        )

    return jax.lax.map(one, (dict(sites), keys), batch_size=BATCH)


def extended(design: Design, times: NDArray[np.float64]) -> Design:
    """The same run with unobserved steps at `times` (since the first logged value) added after its last."""
    time = np.concatenate([np.asarray(design.time), times])
    gaps, index = np.unique(np.round(np.diff(time, prepend=time[0]), 9), return_inverse=True)
    fields = {
        "reward": np.concatenate([design.reward, np.zeros(len(times))]),
        "time": time,
        "gaps": gaps,
        "gap_index": index,
        "observed": np.concatenate([design.observed, np.zeros(len(times), bool)]),
    }
    arrays = jax.device_put(tuple(fields.values()))
    return eqx.tree_at(lambda d: tuple(getattr(d, n) for n in fields), design, arrays)
