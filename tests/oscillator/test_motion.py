"""The closed-form response and displacement against the matrix exponential, in every regime."""

from __future__ import annotations

from decimal import Decimal, localcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from sde_grpo.oscillator import displacement, response
from tests.tolerance import assert_close

# (b, k), times in steps: tau = 2 b/k, q = k/(4 b^2).
REGIMES = {
    "q = 1e-6": (500.0, 1.0),
    "q = 1e-3": (1.0, 4e-3),
    "overdamped": (0.5, 0.1),
    "nearly critical, above": (0.3, 0.09 * (1 - 1e-9)),
    "critical": (0.3, 0.09),
    "nearly critical, below": (0.3, 0.09 * (1 + 1e-9)),
    "oscillatory": (0.05, 0.25),
    "undamped": (0.0, 0.25),
    "unstable, oscillatory": (-0.02, 0.25),
    "unstable, real": (-0.3, 0.04),
}
jitted = jax.jit(response)
forward = jax.jit(jax.jacfwd(lambda p: jnp.stack(response(*p))))
reverse = jax.jit(jax.jacrev(lambda p: jnp.stack(response(*p))))
velocity = jax.jit(jax.grad(displacement, argnums=4))
acceleration = jax.jit(jax.grad(jax.grad(displacement, argnums=4), argnums=4))


def flow(b: float, k: float, t: float) -> np.ndarray:
    """The matrix exponential of the companion matrix."""
    return expm(np.array([[0.0, 1.0], [-k, -2 * b]]) * t)


def naive(b: float, k: float, t: float) -> tuple[float, float]:
    """exp(-b t) cosh(d t) and exp(-b t) sinh(d t)/d with 400 digits, real d only."""
    with localcontext() as context:
        context.prec = 400
        rate, time = Decimal(b), Decimal(t)
        d = (rate * rate - Decimal(k)).sqrt()
        up, down = ((d - rate) * time).exp(), (-(d + rate) * time).exp()
        return float((up + down) / 2), float((up - down) / (2 * d))


@pytest.mark.parametrize("t", [0.0, 1e-6, 0.01, 0.3, 1.0, 7.0, 40.0])
@pytest.mark.parametrize(("b", "k"), REGIMES.values(), ids=REGIMES)
def test_displacement_is_the_matrix_exponential(b: float, k: float, t: float) -> None:
    x0, v0 = -0.6, 0.2
    reference = flow(b, k, t)
    # expm itself loses digits with the norm of its argument.
    relative = 1e-13 * (10 + abs(b) * t)
    c, s = response(b, k, t)
    assert_close(s, reference[0, 1], relative)
    assert_close(c + b * s, reference[0, 0], relative)
    assert_close(
        displacement(b, k, x0, v0, t), reference[0] @ [x0, v0], 10 * relative, scale=np.abs(reference[0]).max()
    )


@pytest.mark.parametrize(("b", "k", "t"), [(1e5, 1e4, 1.0), (1e3, 5.0, 100.0), (50.0, 1.0, 2e3), (1e-2, 1e-5, 1e7)])
def test_strong_overdamping_neither_overflows_nor_loses_the_slow_mode(b: float, k: float, t: float) -> None:
    assert b * t >= 1e5
    c, s = response(b, k, t)
    reference = naive(b, k, t)
    assert_close(c, reference[0], 1e-12)
    assert_close(s, reference[1], 1e-12)
    assert np.all(np.isfinite(reverse(np.array([b, k, t]))))


@pytest.mark.parametrize(("b", "k"), REGIMES.values(), ids=REGIMES)
def test_at_time_zero_nothing_has_moved(b: float, k: float) -> None:
    assert response(b, k, 0.0) == (1.0, 0.0)
    assert displacement(b, k, -0.4, 0.3, 0.0) == -0.4
    assert_close(velocity(b, k, -0.4, 0.3, 0.0), 0.3, 1e-12)
    assert np.array_equal(reverse(np.array([b, k, 0.0])), [[0.0, 0.0, -b], [0.0, 0.0, 1.0]])


@pytest.mark.parametrize("u", [-0.05, 0.0, 0.05], ids=["switch to cosine", "critical", "switch to exponentials"])
@pytest.mark.parametrize("offset", [-1e-3, -1e-8, -1e-12, 0.0, 1e-12, 1e-8, 1e-3])
def test_smooth_across_critical_damping_and_the_switches(u: float, offset: float) -> None:
    b, t = 0.3, 4.0
    k = b * b - (u + offset) / t**2
    reference = flow(b, k, t)
    c, s = response(b, k, t)
    assert_close(s, reference[0, 1], 1e-13)
    assert_close(c + b * s, reference[0, 0], 1e-13)
    # Central differences reach over the switch, so a kink or a jump of either formula would show.
    point = np.array([b, k, t])
    jacobian = forward(point)
    assert_close(reverse(point), jacobian, 1e-12)
    for i in range(3):
        h = 1e-5 * np.eye(3)[i]
        difference = (np.stack(jitted(*(point + h))) - np.stack(jitted(*(point - h)))) / 2e-5
        assert_close(jacobian[:, i], difference, 1e-8)


@pytest.mark.parametrize(("b", "k"), REGIMES.values(), ids=REGIMES)
def test_gradient_is_that_of_the_differential_equation(b: float, k: float) -> None:
    """c' + b s' follows x'' = -2 b x' - k x: one more derivative than the code writes down."""
    for t in (0.02, 0.9, 5.0):
        at = (b, k, -0.6, 0.2, t)
        pull, drag = -k * float(displacement(*at)), -2 * b * float(velocity(*at))
        assert_close(acceleration(*at), pull + drag, 1e-8, scale=abs(pull) + abs(drag))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    b=st.floats(-0.5, 20.0),
    k=st.floats(1e-8, 50.0),
    t=st.floats(0.0, 5.0),
)
def test_response_matches_expm_for_any_rates(b: float, k: float, t: float) -> None:
    reference = flow(b, k, t)
    c, s = jitted(b, k, t)
    size = float(np.abs(reference).max())
    assert_close(s, reference[0, 1], 1e-11, scale=size)
    assert_close(c + b * s, reference[0, 0], 1e-11, scale=size)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    log_b=st.floats(-6.0, 4.0),
    log_q=st.floats(-6.0, 6.0),
    log_t=st.floats(-6.0, 6.0),
)
def test_values_and_gradients_are_finite_over_twelve_decades(log_b: float, log_q: float, log_t: float) -> None:
    b, t = 10.0**log_b, 10.0**log_t
    k = 4 * 10.0**log_q * b * b
    (c, s), gradients = value_and_gradients(b, k, t)
    assert np.all(np.isfinite([c, s, *np.ravel(gradients)]))
    # |x| never exceeds the energy it started with.
    assert abs(float(c + b * s)) <= 1 + 1e-9
    assert abs(float(s)) * np.sqrt(k) <= 1 + 1e-9


value_and_gradients = jax.jit(lambda b, k, t: (response(b, k, t), jax.jacrev(response, argnums=(0, 1, 2))(b, k, t)))


def test_arguments_broadcast() -> None:
    b, k, t = jnp.array([[0.1], [0.4]]), jnp.array([[0.2], [0.01]]), jnp.linspace(0, 30, 7)
    c, s = response(b, k, t)
    assert c.shape == s.shape == (2, 7)
    x = displacement(b, k, -0.5, 0.0, t)
    each = [[jax.jit(displacement)(b[i, 0], k[i, 0], -0.5, 0.0, t[j]) for j in range(7)] for i in range(2)]
    assert_close(x, np.array(each), 1e-14)
