"""One refresh block as a single linear step: the discrete map with its noise, written without a periodic coefficient.

Collect the K_ref values of one block in Y_n = (x_{n K_ref}, ..., x_{n K_ref + K_ref - 1}), its gradient noises in Xi_n
and call the state of the map at the start of the block X_n. Then

    X_{n+1} = M X_n + B Xi_n,    Y_n = H X_n + D Xi_n,    Xi_n white,

a time-invariant system whatever the schedule; under a constant lag the block is one step. Which noise acts at which
step is all that tells the ways of using a rollout apart: with `epochs` passes in the same order over
K_ref / epochs mini-batches, step j feels entry j mod (K_ref / epochs) of Xi_n.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sde_grpo.discrete_map import step_matrices
from sde_grpo.errors import require
from sde_grpo.oscillator import UpdateRule
from sde_grpo.ranges import require_count


class RefreshBlock(NamedTuple):
    """X_{n+1} = M X_n + B Xi_n and Y_n = H X_n + D Xi_n, for noises of unit variance."""

    transition: Float[np.ndarray, "state state"]
    noise_into_state: Float[np.ndarray, "state noise"]
    output: Float[np.ndarray, "phase state"]
    noise_into_output: Float[np.ndarray, "phase noise"]


def steps_per_rollout(rule: UpdateRule, epochs: int) -> int:
    """K_ref, or 1 under a constant lag; raises `InputError` unless `epochs` >= 1 divides it."""
    require_count("epochs", epochs, 1)
    steps = rule.refresh_interval if rule.lag_schedule == "periodic" else 1
    require(
        steps % epochs == 0,
        f"epochs is {epochs}, but a rollout serves {steps} optimizer step(s) under the {rule.lag_schedule} schedule "
        f"with refresh_interval {rule.refresh_interval}. Give a divisor: steps = mini-batches x epochs.",
    )
    return steps


def refresh_block(rule: UpdateRule, curvature: float, epochs: int) -> RefreshBlock:
    """M = A_{K-1} ... A_0; row j of (H, D) is x after j steps; B holds the noises carried to the end of the block.

    `epochs`: passes over each rollout, a divisor of K_ref (1 under a constant lag). Raises `InputError` otherwise.
    Source: derived here from the update of theory note section 2.
    """
    batches = steps_per_rollout(rule, epochs) // epochs
    steps = step_matrices(rule, curvature)
    carried, noise = np.eye(steps.shape[-1]), np.zeros((steps.shape[-1], batches))
    output, noise_into_output = [], []
    for j, step in enumerate(steps):
        output.append(carried[0])
        noise_into_output.append(noise[0])
        carried, noise = step @ carried, step @ noise
        noise[0, j % batches] += 1.0
    return RefreshBlock(carried, noise, np.array(output), np.array(noise_into_output))
