"""The slowest mode of the discrete map: how it decays and how it turns (theory note, section 4)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Complex, Float
from numpy.typing import ArrayLike

from sde_grpo.discrete_map.matrices import cycle_matrix, step_matrices
from sde_grpo.oscillator import UpdateRule


def dominant_root(rule: UpdateRule, curvature: ArrayLike) -> Complex[np.ndarray, "..."]:
    """The eigenvalue of largest modulus of the cycle matrix, per *cycle*; of a conjugate pair, the upper one.

    Constant lag: the dominant root of z^{L+1} - (1 + mu - a(1-phi)) z^L + mu z^{L-1} + a phi = 0 (L >= 1), per step.

    Arguments and `InputError` as for `step_matrices`; of the shape of `curvature`. Source: theory note section 4.
    """
    roots = np.linalg.eigvals(cycle_matrix(rule, curvature))
    z = np.take_along_axis(roots, _dominant(roots), axis=-1)[..., 0]
    return np.real(z) + 1j * np.abs(np.imag(z))


def spectral_radius(rule: UpdateRule, curvature: ArrayLike) -> Float[np.ndarray, "..."]:
    """|dominant root|^(1/steps): the factor by which a displacement shrinks per *step*; stable below 1.

    `steps` is the length of the cycle: K_ref under periodic refresh, 1 under constant lag.

    Arguments and `InputError` as for `step_matrices`; of the shape of `curvature`. Source: theory note section 4.
    """
    return np.abs(dominant_root(rule, curvature)) ** (1 / _steps(rule))


def phase_per_step(rule: UpdateRule, curvature: ArrayLike) -> Float[np.ndarray, "..."]:
    """omega = |sum_j arg(u_{j+1} / u_j)| / steps: the angle in [0, pi] that the dominant mode turns by in a step.

    u_j is entry 0 of the dominant eigenvector of the cycle matrix, followed through the steps of one cycle. The mode
    changes sign omega/pi times per step: it *rings* (overshoots the fixed point) where omega > 0, with period
    2 pi / omega steps. Constant lag: the argument of the dominant root. Under periodic refresh a mode can cross zero
    twice within a cycle and so ring although its root is positive; the sum counts that too.

    Arguments and `InputError` as for `step_matrices`; of the shape of `curvature`.
    """
    if _steps(rule) == 1:
        return np.angle(dominant_root(rule, curvature))
    roots, vectors = np.linalg.eig(cycle_matrix(rule, curvature))
    index = _dominant(roots)
    state = np.take_along_axis(vectors, index[..., None], axis=-1)
    turned = 0.0
    for step in np.moveaxis(step_matrices(rule, curvature), -3, 0):
        after = step @ state
        turn = np.angle(after[..., 0, 0] * np.conj(state[..., 0, 0]))
        turned = turned + np.where(turn == -np.pi, np.pi, turn)  # a real mode: the sign of a zero means nothing
        state = after
    return np.abs(turned) / _steps(rule)


def _steps(rule: UpdateRule) -> int:
    return rule.refresh_interval if rule.lag_schedule == "periodic" else 1


def _dominant(roots: np.ndarray) -> np.ndarray:
    return np.argmax(np.abs(roots), axis=-1, keepdims=True)
