"""Stationary variance, autocovariance and power spectrum of the discrete map: exact, at any stiffness that is stable.

With the refresh block X' = M X + B Xi, Y = H X + D Xi (see `block`) and noise of variance s^2,

    Sigma = M Sigma M' + s^2 B B',                        discrete Lyapunov equation
    Cov(Y_n, Y_n)     = H Sigma H' + s^2 D D',            its diagonal: the variance at each phase of the refresh
    Cov(Y_{n+m}, Y_n) = H M^{m-1} (M Sigma H' + s^2 B D'),            m >= 1
    S(w) = s^2/K_ref || sum_j e^{-i w j} [H_j (e^{i w K_ref} - M)^{-1} B + D_j] ||^2.

Under periodic refresh x is cyclostationary: variance, autocovariance and spectrum are averages over the phase.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.linalg import solve_discrete_lyapunov

from sde_grpo.discrete_map import spectral_radius, stiffness_per_step
from sde_grpo.errors import require
from sde_grpo.fluctuation.block import RefreshBlock, refresh_block
from sde_grpo.oscillator import UpdateRule
from sde_grpo.ranges import require_positive

_ROUNDING = 1e-12  # a spectral radius this close to 1 is not known to be below it


@dataclass(frozen=True)
class DiscreteFluctuation:
    """The stationary process x_k of one stable setting; make it with `discrete_fluctuation`.

    **Fields**

    - `rule`, `curvature`: the setting.
    - `noise_variance`: s^2, the variance of the noise xi of one optimizer step.
    - `block`: the map over one refresh block.
    - `start_covariance`: Sigma, the covariance of the map's state at the start of a block.
    """

    rule: UpdateRule
    curvature: float
    noise_variance: float
    block: RefreshBlock
    start_covariance: Float[np.ndarray, "state state"]

    @property
    def phase_variance(self) -> Float[np.ndarray, " phase"]:
        """Var x after 0, ..., K_ref - 1 steps since the refresh (one entry under a constant lag)."""
        return np.diag(self._covariance_within_block())

    @property
    def variance(self) -> float:
        """Var x, averaged over the phase: what a log that records every step shows."""
        return float(np.mean(self.phase_variance))

    def autocovariance(self, lags: ArrayLike) -> Float[np.ndarray, "..."]:
        """r(h) = (1/K_ref) sum over phases of Cov(x_{k+h}, x_k), even in h; `lags` are whole steps, any shape."""
        lags = np.asarray(lags)
        require(
            bool(np.all(np.isfinite(lags)) and np.all(lags == np.round(lags))),
            f"lags are {lags}; they must be whole numbers of steps.",
        )
        lags = np.abs(lags).astype(int)
        block, phases = self.block, len(self.block.output)
        blocks = int(lags.max(initial=0)) // phases + 2
        offset = np.subtract.outer(np.arange(phases), np.arange(phases)) + phases - 1  # i - j, from zero
        sums = np.zeros((blocks + 1) * phases)
        between = self._covariance_within_block()
        next_start = block.transition @ self.start_covariance @ block.output.T
        next_start += self.noise_variance * block.noise_into_state @ block.noise_into_output.T
        for m in range(blocks):
            np.add.at(sums, m * phases + offset, between)
            between, next_start = block.output @ next_start, block.transition @ next_start
        return sums[phases - 1 + lags] / phases

    def autocorrelation(self, lags: ArrayLike) -> Float[np.ndarray, "..."]:
        """r(h) / r(0)."""
        return self.autocovariance(lags) / self.variance

    def power_spectrum(self, frequency: ArrayLike) -> Float[np.ndarray, "..."]:
        """S(w) = sum over h of r(h) e^{-i w h}, so that r(h) = (1/2 pi) int_{-pi}^{pi} S(w) e^{i w h} dw.

        `frequency`: w in radians per step, any shape; S is even and has the period 2 pi. Under a constant lag L it is

            S(w) = s^2 / | e^{i w} - (1 + mu - a (1 - phi)) + mu e^{-i w} + a phi e^{-i w L} |^2,

        and sum over l of w_l e^{-i w l} in place of e^{-i w L} under a mixed lag.
        """
        w = np.asarray(frequency, dtype=np.float64)
        require(bool(np.all(np.isfinite(w))), f"frequency is {frequency}; it must be finite, in radians per step.")
        flat = w.ravel()
        gain = self._constant_lag_gain(flat) if self.rule.lag_schedule == "constant" else self._block_gain(flat)
        return self.noise_variance * gain.reshape(w.shape)

    def _covariance_within_block(self) -> Float[np.ndarray, "phase phase"]:
        output, direct = self.block.output, self.block.noise_into_output
        return output @ self.start_covariance @ output.T + self.noise_variance * direct @ direct.T

    def _block_gain(self, w: Float[np.ndarray, " frequency"]) -> Float[np.ndarray, " frequency"]:
        block, phases = self.block, len(self.block.output)
        weights = np.exp(-1j * np.outer(w, np.arange(phases)))
        resolvent = np.exp(1j * w * phases)[:, None, None] * np.eye(len(block.transition)) - block.transition.T
        through_state = np.linalg.solve(resolvent, (weights @ block.output)[..., None])[..., 0]
        gain = through_state @ block.noise_into_state + weights @ block.noise_into_output
        return np.sum(np.abs(gain) ** 2, axis=-1) / phases

    def _constant_lag_gain(self, w: Float[np.ndarray, " frequency"]) -> Float[np.ndarray, " frequency"]:
        # The first row of the companion matrix holds the coefficients of x_{k+1} = sum_i c_i x_{k-i} + xi_k.
        coefficients = self.block.transition[0]
        delays = np.exp(-1j * np.outer(w, np.arange(len(coefficients))))
        return 1 / np.abs(np.exp(1j * w) - delays @ coefficients) ** 2


def discrete_fluctuation(
    rule: UpdateRule, curvature: float, noise_variance: float = 1.0, *, epochs: int = 1
) -> DiscreteFluctuation:
    """Solve Sigma = M Sigma M' + s^2 B B' for the stationary state of

    x_{k+1} = x_k - a [(1 - phi) x_k + phi x_old] + mu (x_k - x_{k-1}) + xi_k,    Var xi_k = s^2.

    **Arguments**

    - `rule`: optimizer settings and lag schedule.
    - `curvature`: kappa > 0 (1/learning rate).
    - `noise_variance`: s^2 > 0, of one optimizer step, in squared units of x; see `step_noise`.
    - `epochs`: passes over each rollout (TRL `num_iterations`, verl `ppo_epochs`), a divisor of K_ref. 1: every step
      has a mini-batch of its own, so the noise is fresh at every step. K_ref: the whole rollout is used at each step,
      so one noise acts K_ref times. Between the two, K_ref / epochs mini-batches are gone through in the same order.

    Raises `InputError` outside these ranges and where the map is unstable. Source: theory note section 4, "What is
    exact"; reuse of a rollout derived here (the policy ratio multiplies the noise by 1 to first order in x).
    """
    require(np.ndim(curvature) == 0, f"curvature has the shape {np.shape(curvature)}; give one setting at a time.")
    a = float(stiffness_per_step(rule, curvature))
    require_positive("noise_variance", noise_variance)
    block = refresh_block(rule, curvature, epochs)
    radius = float(spectral_radius(rule, curvature))
    require(
        radius < 1 - _ROUNDING,
        f"There is no stationary state: with learning_rate {rule.learning_rate} and curvature {curvature}, hence a "
        f"stiffness of {a:.6g} per step, momentum {rule.momentum} and refresh_interval {rule.refresh_interval}, the "
        f"{rule.lag_schedule} map has a spectral radius of {radius:.8g}. It must be below 1: it reaches 1 at the "
        "critical stiffness, beyond which a displacement grows. Lower the learning rate or refresh more often.",
    )
    noise = noise_variance * block.noise_into_state @ block.noise_into_state.T
    covariance = solve_discrete_lyapunov(block.transition, noise)
    return DiscreteFluctuation(rule, curvature, noise_variance, block, covariance)
