"""Exact sampling of a linear force: its transition against Van Loan, its paths against the law, in every regime."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm
from scipy.stats import kstest

from sde_grpo.errors import InputError
from sde_grpo.oscillator import UpdateRule, reduce_update, temperature
from sde_grpo.sde import LinearForce, Motion, exact_transition, inertial, overdamped, sample_exact
from tests.tolerance import assert_close

# Damping from strongly stable to growing; the force and the mass stay.
FORCE = LinearForce(curvature=2.0, gradient_noise=1.5, group_size=4, fixed_point=0.6)
DAMPINGS = {"overdamped": 1.5, "oscillatory": 0.2, "undamped": 0.0, "unstable": -0.3, "growing without a swing": -2.0}
RATE, MASS = 0.1, 0.8
MOTION = Motion(RATE, 0.9, MASS)
STEPS, CHAINS = 40, 20_000  # the same in all tests, so that sampling is compiled once
transition = jax.jit(lambda damping, dt: exact_transition(FORCE, Motion(RATE, damping, MASS), dt))


def van_loan(damping: float, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """F and Q from one matrix exponential (Van Loan, 1978, doi:10.1109/TAC.1978.1101743)."""
    drift = np.array([[0.0, 1.0], [-RATE * 2.0 / MASS, -damping / MASS]])
    noise = np.array([[0.0, 0.0], [0.0, (RATE * 1.5 / MASS) ** 2 / 4]])
    block = expm(np.block([[-drift, noise], [np.zeros((2, 2)), drift.T]]) * dt)
    f = block[2:, 2:].T
    return f, f @ block[:2, 2:]


def gathered(f: np.ndarray, q: np.ndarray, steps: int) -> np.ndarray:
    """The covariance after so many steps, one by one: over a long span the big exponential itself overflows."""
    covariance = np.zeros((2, 2))
    for _ in range(steps):
        covariance = f @ covariance @ f.T + q
    return covariance


@pytest.mark.parametrize("damping", DAMPINGS.values(), ids=DAMPINGS)
@pytest.mark.parametrize("dt", [0.25, 1.0, 4.0])
def test_transition_in_every_regime(damping: float, dt: float) -> None:
    step = transition(damping, dt)
    f, q = van_loan(damping, dt)
    assert_close(np.array([[step.f_xx, step.f_xv], [step.f_vx, step.f_vv]]), f, 1e-11)
    for entry, (i, j) in ((step.q_xx, (0, 0)), (step.q_xv, (0, 1)), (step.q_vv, (1, 1))):
        assert_close(entry, q[i, j], 1e-9)


def test_transition_of_lanes() -> None:
    dampings = jnp.array(list(DAMPINGS.values()))
    lanes = transition(dampings, 1.0)
    for i, damping in enumerate(dampings):
        alone = transition(float(damping), 1.0)
        for entry, single in zip(lanes, alone, strict=True):
            assert_close(entry[i], single, 1e-13)


@pytest.mark.parametrize("damping", [1.5, 0.2, -0.05])
def test_mean_and_covariance_at_several_times(damping: float) -> None:
    x0, v0 = -0.3, 0.02
    paths = sample_exact(
        FORCE, Motion(RATE, damping, MASS), key=jax.random.key(5), steps=STEPS, chains=CHAINS, start=x0, velocity=v0
    )
    assert paths.theta.shape == (CHAINS, STEPS + 1)
    assert np.array_equal(paths.reward, 0.6 + paths.theta)
    assert paths.velocity is not None
    for time in (1, 4, 40):
        f, q = van_loan(damping, 1.0)
        f, q = np.linalg.matrix_power(f, time), gathered(f, q, time)
        state = np.stack([paths.theta[:, time], paths.velocity[:, time]])
        error = (state.mean(axis=1) - f @ [x0, v0]) / np.sqrt(np.diag(q) / CHAINS)
        assert np.max(np.abs(error)) < 4
        scale = np.sqrt(np.outer(np.diag(q), np.diag(q)) / CHAINS)
        assert np.max(np.abs(np.cov(state) - q) / scale) < 4 * np.sqrt(2)
        assert kstest((state[0] - f[0] @ [x0, v0]) / np.sqrt(q[0, 0]), "norm").pvalue > 1e-3


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_equipartition(momentum: float) -> None:
    """K Var x = M Var v = T at the start of a stationary run and at its end, and x and v are uncorrelated."""
    rule = UpdateRule(0.02, momentum)
    motion, oscillator = inertial(rule, FORCE.curvature), reduce_update(rule, FORCE.curvature)
    paths = sample_exact(FORCE, motion, key=jax.random.key(1), steps=STEPS, chains=CHAINS)
    expected = float(temperature(oscillator, FORCE.gradient_noise, rule.learning_rate, FORCE.group_size))
    assert paths.velocity is not None
    for time in (0, STEPS):
        x, v = paths.theta[:, time], paths.velocity[:, time]
        energies = np.array([oscillator.stiffness * np.mean(x**2), oscillator.mass * np.mean(v**2)])
        assert np.max(np.abs(energies / expected - 1)) < 4 * np.sqrt(2 / CHAINS)
        assert abs(np.corrcoef(x, v)[0, 1]) < 4 / np.sqrt(CHAINS)


def test_temperature_falls_as_the_group_grows() -> None:
    """By vmap over the group size; where G is left out of the noise the exponent is 0."""

    def variance(size, key):
        force = LinearForce(2.0, 1.5, size)
        return sample_exact(force, MOTION, key=key, steps=STEPS, chains=CHAINS).theta[:, -1].var()

    sizes = jnp.array([2.0, 8.0, 32.0, 1.0, 1.0, 1.0])
    variances = np.log(jax.vmap(variance)(sizes, jax.random.split(jax.random.key(2), 6))).reshape(2, 3)
    scaled, ignored = np.polyfit(np.log([2, 8, 32]), variances.T, 1)[0]
    assert scaled == pytest.approx(-1, abs=0.02)
    assert ignored == pytest.approx(0, abs=0.02)


def test_motion_without_mass_is_an_ornstein_uhlenbeck_process() -> None:
    motion = overdamped(UpdateRule(0.1, 0.5), FORCE.curvature)
    paths = sample_exact(FORCE, motion, key=jax.random.key(8), steps=STEPS, chains=CHAINS, start=0.4)
    assert paths.velocity is None
    decay = np.exp(-0.1 * 2.0 / 0.5 * 5)
    variance = (0.1 * 1.5) ** 2 / 4 / (2 * 0.5 * 0.1 * 2.0) * (1 - decay**2)
    assert abs(paths.theta[:, 5].mean() - 0.4 * decay) < 4 * np.sqrt(variance / CHAINS)
    assert kstest((paths.theta[:, 5] - 0.4 * decay) / np.sqrt(variance), "norm").pvalue > 1e-3
    stationary = sample_exact(FORCE, motion, key=jax.random.key(9), steps=STEPS, chains=CHAINS).theta[:, -1]
    assert stationary.var() == pytest.approx(variance / (1 - decay**2), rel=0.04)


def test_no_noise_is_the_deterministic_trajectory() -> None:
    paths = sample_exact(LinearForce(2.0, 0.0), MOTION, key=jax.random.key(0), steps=STEPS, chains=CHAINS, start=-0.3)
    f, _ = van_loan(0.9, 1.0)
    assert_close(paths.theta[0], [-0.3 * np.linalg.matrix_power(f, n)[0, 0] for n in range(STEPS + 1)], 1e-11)
    assert np.array_equal(paths.theta[0], paths.theta[-1])


def test_what_is_refused() -> None:
    key = jax.random.key(0)
    with pytest.raises(InputError, match=r"damping is -0.1; a stationary state needs it positive. Give a start"):
        sample_exact(FORCE, Motion(RATE, -0.1, MASS), key=key, steps=3)
    with pytest.raises(InputError, match=r"The paths overflow within 40 steps: damping is -40.0, so they grow"):
        sample_exact(FORCE, Motion(RATE, -40.0, MASS), key=key, steps=STEPS, chains=CHAINS, start=0.1)
    with pytest.raises(InputError, match=r"start is nan; it must be finite"):
        sample_exact(FORCE, MOTION, key=key, steps=3, start=float("nan"))
    with pytest.raises(InputError, match=r"steps is 0; it must be a whole number of at least 1"):
        sample_exact(FORCE, MOTION, key=key, steps=0)
    with pytest.raises(InputError, match=r"dt is -1.0; it must be finite and not negative"):
        exact_transition(FORCE, MOTION, -1.0)
