"""The linear map of the update as matrices: one for each step of the refresh cycle (theory note, section 2)."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from sde_grpo.errors import require
from sde_grpo.oscillator import UpdateRule


def stiffness_per_step(rule: UpdateRule, curvature: ArrayLike) -> Float[np.ndarray, "..."]:
    """a = eta kappa (heavy ball) or eta (1 - mu) kappa (EMA), per step; of the shape of `curvature`.

    Raises `InputError` unless every curvature is positive and finite.
    """
    kappa = np.asarray(curvature, dtype=np.float64)
    bad = kappa[~((kappa > 0) & (kappa < np.inf))]
    require(
        bad.size == 0,
        f"curvature is {bad.flat[0] if bad.size else ''}; it must be positive and finite: without a restoring drift "
        "there is no fixed point to be stable about.",
    )
    return float(rule.effective_learning_rate) * kappa


def step_matrices(rule: UpdateRule, curvature: ArrayLike) -> Float[np.ndarray, "... step state state"]:
    """The steps of one refresh cycle, in order, of

        x_{k+1} = x_k - a [(1 - phi) x_k + phi x_old] + mu (x_k - x_{k-1}) + xi_k.

    - Constant (or mixed) lag: one step, the companion matrix on (x_k, x_{k-1}, ..., x_{k-n+1}), n = max(L + 1, 2).
    - Periodic refresh: K_ref steps on (x_k, x_{k-1}, x_old); the first begins with the refresh x_old := x_k.

    Entry 0 of the state is always x_k, and xi_k enters entry 0 of the new state with coefficient 1.

    **Arguments**

    - `rule`: the optimizer's settings.
    - `curvature`: kappa > 0, per unit of learning rate; its shape comes first in the result.

    Raises `InputError` unless every curvature is positive and finite. Source: theory note section 2 (paper eq. 3).
    """
    a = stiffness_per_step(rule, curvature)
    mu, phi = float(rule.momentum), float(rule.stale_fraction)
    if rule.lag_schedule == "constant":
        size = max(rule.refresh_interval + 1, 2)
        companion = np.zeros((*a.shape, 1, size, size))
        companion[..., np.arange(1, size), np.arange(size - 1)] = 1.0
        companion[..., 0, 0, 0] = 1 + mu - a * (1 - phi)
        companion[..., 0, 0, 1] = -mu
        weights = rule.lag_weights or (*[0.0] * rule.refresh_interval, 1.0)
        companion[..., 0, 0, : len(weights)] -= phi * a[..., None] * np.asarray(weights)
        return companion
    steps = np.zeros((*a.shape, rule.refresh_interval, 3, 3))
    steps[..., 0, 0] = (1 + mu - a * (1 - phi))[..., None]
    steps[..., 0, 1] = -mu
    steps[..., 0, 2] = -(a * phi)[..., None]
    steps[..., 1, 0] = 1.0
    steps[..., 2, 2] = 1.0
    steps[..., 0, :, 0] += steps[..., 0, :, 2]
    steps[..., 0, :, 2] = 0.0
    return steps


def cycle_matrix(rule: UpdateRule, curvature: ArrayLike) -> Float[np.ndarray, "... state state"]:
    """The product of `step_matrices` over one refresh cycle: the state at one refresh to the state at the next.

    Arguments and `InputError` as for `step_matrices`. Source: theory note section 4, "Stability".
    """
    if rule.lag_schedule == "constant" or rule.refresh_interval == 1:
        return step_matrices(rule, curvature)[..., 0, :, :]
    steps = step_matrices(dataclasses.replace(rule, refresh_interval=2), curvature)  # all but the first are alike
    return np.linalg.matrix_power(steps[..., 1, :, :], rule.refresh_interval - 1) @ steps[..., 0, :, :]
