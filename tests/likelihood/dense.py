"""The slow textbook: the joint Gaussian of a trace as dense matrices, built by plain loops."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import expm

from sde_grpo.likelihood import OscillatorTrace, State
from sde_grpo.oscillator import transition

Array = np.ndarray

log_prob = jax.jit(OscillatorTrace.log_prob)
filtered = jax.jit(OscillatorTrace.filtered)


@partial(jax.jit, static_argnames="stationary")
def _law(b, k, sd, gaps, loc, gain, noise, observed, stationary) -> OscillatorTrace:
    start = State.stationary(sd, k) if stationary else None
    return OscillatorTrace(loc, gain, noise, transition(b, k, sd, gaps), observed, start)


def step_noise(b: float, k: float, sd: float, gap: float) -> Array:
    """Q = P - F P F'; where that cancels, from one exponential of twice the size (Van Loan, 1978)."""
    drift, stationary = np.array([[0.0, 1.0], [-k, -2 * b]]), sd**2 * np.diag([1.0, k])
    flow = expm(drift * gap)
    if max(b, np.sqrt(k)) * gap > 0.1:
        return stationary - flow @ stationary @ flow.T
    block = np.block([[-drift, np.diag([0.0, 4 * b * k * sd**2])], [np.zeros((2, 2)), drift.T]])
    return flow @ expm(block * gap)[:2, 2:]


@dataclass(frozen=True)
class Case:
    """One oscillator and one set of observations of it."""

    b: float
    k: float
    sd: float
    gaps: Array
    loc: Array
    gain: Array
    noise: Array
    observed: Array
    stationary: bool
    value: Array

    def law(self) -> OscillatorTrace:
        """The same as a distribution of the package."""
        names = ("b", "k", "sd", "gaps", "loc", "gain", "noise", "observed")
        return _law(*(jnp.asarray(getattr(self, name)) for name in names), stationary=self.stationary)

    def state_covariance(self) -> Array:
        """Cov of (x, v) at all steps, (step, step, 2, 2).

        P_k = F P_{k-1} F' + Q and Cov(s_j, s_i) = F_j ... F_{i+1} P_i.
        """
        drift = np.array([[0.0, 1.0], [-self.k, -2 * self.b]])
        stationary = self.sd**2 * np.diag([1.0, self.k])
        flows = [expm(drift * gap) for gap in self.gaps]
        spread = stationary if self.stationary else np.zeros((2, 2))
        n = len(self.gaps)
        covariance = np.zeros((n, n, 2, 2))
        for i in range(n):
            spread = flows[i] @ spread @ flows[i].T + step_noise(self.b, self.k, self.sd, self.gaps[i])
            covariance[i, i] = spread
            later = spread
            for j in range(i + 1, n):
                later = flows[j] @ later
                covariance[j, i], covariance[i, j] = later, later.T
        return covariance

    def path_covariance(self) -> Array:
        """Cov of the displacement x at all steps."""
        return self.state_covariance()[:, :, 0, 0]

    def trace_covariance(self) -> Array:
        """Cov of the rewards at all steps."""
        return np.outer(self.gain, self.gain) * self.path_covariance() + np.diag(self.noise)

    def log_density(self) -> float:
        """Log density of the observed rewards under the dense Gaussian."""
        seen = self.observed
        residual = (self.value - self.loc)[seen]
        covariance = self.trace_covariance()[np.ix_(seen, seen)]
        _, log_determinant = np.linalg.slogdet(covariance)
        return -0.5 * (
            residual @ np.linalg.solve(covariance, residual) + log_determinant + seen.sum() * np.log(2 * np.pi)
        )

    def conditional_path(self) -> tuple[Array, Array]:
        """Mean and covariance of x at all steps given the observed rewards."""
        seen, path = self.observed, self.path_covariance()
        cross = (path * self.gain)[:, seen]
        weights = np.linalg.solve(self.trace_covariance()[np.ix_(seen, seen)], cross.T).T
        return weights @ (self.value - self.loc)[seen], path - weights @ cross.T


RATES = {
    "overdamped": (0.5, 0.05),
    "strongly overdamped": (20.0, 0.5),
    "critical": (0.3, 0.09),
    "oscillatory": (0.05, 0.5),
}


def make_case(rates: str, stationary: bool = False, steps: int = 40, seed: int = 0) -> Case:
    """Heteroscedastic noise, uneven gains, irregular gaps (the first zero) and a fifth of the steps missing."""
    random = np.random.default_rng(seed)
    b, k = RATES[rates]
    observed = random.uniform(size=steps) > 0.2
    observed[0] = observed[-1] = True
    return Case(
        b=b,
        k=k,
        sd=0.3,
        gaps=np.concatenate([[0.0], random.choice([0.3, 1.0, 2.0, 3.7], steps - 1)]),
        loc=0.6 - 0.4 * np.exp(-np.arange(steps) / 8),
        gain=random.uniform(0.1, 1.0, steps),
        noise=random.uniform(0.002, 0.05, steps),
        observed=observed,
        stationary=stationary,
        value=random.normal(0.5, 0.3, steps),
    )
