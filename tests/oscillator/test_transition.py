"""The exact discretisation: F against expm, Q against P - F P F', against its integral, and as a semigroup."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from sde_grpo.oscillator import Transition, transition
from tests.tolerance import assert_close

RATES = {
    "strongly overdamped": (50.0, 0.01),
    "overdamped": (0.5, 0.1),
    "critical": (0.3, 0.09),
    "oscillatory": (0.02, 0.5),
    "very slow": (5e-7, 1e-10),
}
SD = 1.3
jitted = jax.jit(transition)
slopes = jax.jit(jax.jacrev(lambda p: jnp.stack(transition(*p))))


def matrices(step: Transition) -> tuple[np.ndarray, np.ndarray]:
    """F and Q as 2 x 2 matrices."""
    f_xx, f_xv, f_vx, f_vv, q_xx, q_xv, q_vv = (float(entry) for entry in step)
    return np.array([[f_xx, f_xv], [f_vx, f_vv]]), np.array([[q_xx, q_xv], [q_xv, q_vv]])


def integral(b: float, k: float, dt: float) -> np.ndarray:
    """Q = 4 b k sd^2 int_0^dt F(u) e_v e_v' F(u)' du: a sum of positive terms, so it cannot cancel."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    drift = np.array([[0.0, 1.0], [-k, -2 * b]])
    columns = [expm(drift * dt * (node + 1) / 2)[:, 1] for node in nodes]
    terms = [weight * dt / 2 * np.outer(c, c) for weight, c in zip(weights, columns, strict=True)]
    return 4 * b * k * SD**2 * np.sum(terms, axis=0)


def van_loan(b: float, k: float, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """F and Q from one matrix exponential of twice the size (Van Loan, 1978, doi:10.1109/TAC.1978.1101743)."""
    drift, noise = np.array([[0.0, 1.0], [-k, -2 * b]]), np.diag([0.0, 4 * b * k * SD**2])
    block = expm(np.block([[-drift, noise], [np.zeros((2, 2)), drift.T]]) * dt)
    f = block[2:, 2:].T
    return f, f @ block[:2, 2:]


@pytest.mark.parametrize("dt", [0.5, 1.0, 8.0])
@pytest.mark.parametrize(("b", "k"), [r for n, r in RATES.items() if n != "very slow"])
def test_mean_and_noise_of_a_step(b: float, k: float, dt: float) -> None:
    f, q = matrices(jitted(b, k, SD, dt))
    reference = expm(np.array([[0.0, 1.0], [-k, -2 * b]]) * dt)
    stationary = SD**2 * np.diag([1.0, k])
    assert_close(f, reference, 1e-11)
    assert_close(q, stationary - f @ stationary @ f.T, 1e-13, scale=SD**2)


@pytest.mark.parametrize("reduced", [1e-6, 1e-4, 1e-2, 0.099, 0.101, 0.2, 1.0])
@pytest.mark.parametrize(("b", "k"), RATES.values(), ids=RATES)
def test_noise_of_a_short_step_does_not_cancel(b: float, k: float, reduced: float) -> None:
    """Down to a millionth of the fastest time scale, and on both sides of the switch at a tenth of it."""
    dt = reduced / max(b, np.sqrt(k))
    _, q = matrices(jitted(b, k, SD, dt))
    reference = integral(b, k, dt)
    for i, j in ((0, 0), (0, 1), (1, 1)):
        assert_close(q[i, j], reference[i, j], 1e-8)


@pytest.mark.parametrize("dt", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize(("b", "k"), [(0.5, 0.1), (0.3, 0.09), (0.02, 0.5)])
def test_agrees_with_van_loan(b: float, k: float, dt: float) -> None:
    f, q = matrices(jitted(b, k, SD, dt))
    f_reference, q_reference = van_loan(b, k, dt)
    assert_close(f, f_reference, 1e-12)
    for i, j in ((0, 0), (0, 1), (1, 1)):
        assert_close(q[i, j], q_reference[i, j], 1e-9)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(log_b=st.floats(-6.0, 3.0), log_q=st.floats(-5.0, 4.0), log_dt=st.floats(-6.0, 4.0))
def test_noise_is_positive_semidefinite(log_b: float, log_q: float, log_dt: float) -> None:
    b, dt = 10.0**log_b, 10.0**log_dt
    k = 4 * 10.0**log_q * b * b
    _, q = matrices(jitted(b, k, SD, dt))
    assert np.all(np.isfinite(q))
    scaled = q / np.sqrt(np.outer([1.0, k], [1.0, k])) / SD**2
    assert np.linalg.eigvalsh(scaled)[0] >= -1e-12
    assert np.all(np.diag(scaled) <= 1 + 1e-9)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(log_b=st.floats(-4.0, 2.0), log_q=st.floats(-4.0, 4.0), log_dt=st.floats(-5.0, 3.0))
def test_short_steps_keep_a_positive_determinant(log_b: float, log_q: float, log_dt: float) -> None:
    """The smoother inverts the predicted covariance, which after a start at rest is Q itself."""
    b, dt = 10.0**log_b, 10.0**log_dt
    k = 4 * 10.0**log_q * b * b
    if max(b, np.sqrt(k)) * dt < 1:
        _, q = matrices(jitted(b, k, SD, dt))
        assert np.linalg.det(q) > 0.2 * q[0, 0] * q[1, 1]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(log_b=st.floats(-4.0, 2.0), log_q=st.floats(-4.0, 4.0), log_dt=st.floats(-4.0, 3.0))
def test_two_steps_are_one_of_twice_the_length(log_b: float, log_q: float, log_dt: float) -> None:
    b, dt = 10.0**log_b, 10.0**log_dt
    k = 4 * 10.0**log_q * b * b
    f, q = matrices(jitted(b, k, SD, dt))
    f_twice, q_twice = matrices(jitted(b, k, SD, 2 * dt))
    unit = np.diag([1.0, 1 / np.sqrt(k)])  # velocities in units of sqrt(k), so that all entries are of order one
    turned = np.linalg.inv(unit)
    loss = 1 + np.sqrt(k) * dt + b * dt  # digits lost in the phase
    assert_close(unit @ f_twice @ turned, unit @ f @ f @ turned, 1e-13 * loss, scale=1.0)
    assert_close(unit @ q_twice @ unit, unit @ (q + f @ q @ f.T) @ unit, 1e-13 * loss, scale=SD**2)


def test_zero_step_changes_nothing_and_infinite_step_forgets() -> None:
    f, q = matrices(jitted(0.3, 0.2, SD, 0.0))
    assert np.array_equal(f, np.eye(2))
    assert np.array_equal(q, np.zeros((2, 2)))
    f, q = matrices(jitted(0.3, 0.2, SD, 1e4))
    assert_close(f, np.zeros((2, 2)), 1e-12, scale=1.0)
    assert_close(q, SD**2 * np.diag([1.0, 0.2]), 1e-12)


def test_lanes_broadcast_and_gradients_are_finite() -> None:
    b, k = jnp.array([[0.3], [0.02]]), jnp.array([[0.09], [0.5]])
    dt = jnp.array([0.0, 1e-7, 0.1, 1.0, 50.0])
    lanes = jitted(b, k, SD, dt)
    for i in range(2):
        for j in range(5):
            alone = jitted(b[i, 0], k[i, 0], SD, dt[j])
            for entry, single in zip(lanes, alone, strict=True):
                assert entry.shape == (2, 5)
                assert_close(entry[i, j], single, 1e-14)
    total = lambda b, k, sd, dt: sum(entry.sum() for entry in transition(b, k, sd, dt))  # noqa: E731
    for gradient in jax.jit(jax.grad(total, argnums=(0, 1, 2, 3)))(b, k, jnp.asarray(SD), dt):
        assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize("dt", [0.05, 0.2, 3.0])
def test_gradient_of_the_noise_is_its_difference_quotient(dt: float) -> None:
    point, h = np.array([0.3, 0.2, SD, dt]), 1e-5
    jacobian = slopes(point)
    for i in range(4):
        up, down = (np.stack(jitted(*(point + sign * h * np.eye(4)[i]))) for sign in (1, -1))
        assert_close(jacobian[:, i], (up - down) / (2 * h), 1e-8)
