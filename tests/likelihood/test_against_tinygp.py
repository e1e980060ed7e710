"""A rival code: the stationary oscillator is tinygp's SHO kernel, omega^2 = k, quality = sqrt(k)/(2 b)."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tinygp import GaussianProcess
from tinygp.kernels import quasisep

from tests.likelihood import dense
from tests.likelihood.dense import RATES, make_case
from tests.tolerance import assert_close

STEPS = 120


@jax.jit
def rival(b, k, sd, times, noise, residual):
    """Log density of a zero-mean trace of unit gain."""
    omega = jnp.sqrt(k)
    kernel = quasisep.SHO(omega=omega, quality=omega / (2 * b), sigma=sd)
    return GaussianProcess(kernel, times, diag=noise).log_probability(residual)


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("seed", [0, 1])
def test_log_likelihood_agrees(rates: str, seed: int) -> None:
    case = make_case(rates, stationary=True, steps=STEPS, seed=seed)
    case = dataclasses.replace(case, gain=np.ones(STEPS), observed=np.ones(STEPS, bool))
    ours = dense.log_prob(case.law(), case.value)
    theirs = rival(case.b, case.k, case.sd, np.cumsum(case.gaps), case.noise, case.value - case.loc)
    assert_close(ours, theirs, 1e-9)
