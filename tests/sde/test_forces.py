"""Forces and motions: their values, and every value out of range refused."""

from __future__ import annotations

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, logit

from sde_grpo.bandit import curvature, fixed_point
from sde_grpo.errors import InputError
from sde_grpo.oscillator import UpdateRule
from sde_grpo.sde import GivenForce, LinearForce, Motion, SoftmaxForce, inertial, langevin_terms, overdamped
from tests.tolerance import assert_close


@pytest.mark.parametrize("group_size", [None, 2, 16])
def test_anchored_force_vanishes_at_the_fixed_point_with_its_curvature(group_size) -> None:
    force, h = SoftmaxForce(2.5, 0.4, group_size), 1e-5
    theta = float(logit(fixed_point(0.4, 2.5, group_size)))
    assert_close(force.mean(jnp.asarray(theta)), 0.0, 1e-12, scale=1.0)
    slope = (force.mean(jnp.asarray(theta + h)) - force.mean(jnp.asarray(theta - h))) / (2 * h)
    assert_close(-slope, curvature(0.4, 2.5, group_size), 1e-8)


def test_noise_of_a_group_averages_over_prompts() -> None:
    theta = jnp.array([-1.0, 0.3])
    one, many = (SoftmaxForce(0.0, 0.5, 2, prompts) for prompts in (1, 16))
    assert_close(many.variance(theta), np.asarray(one.variance(theta)) / 16, 1e-14)
    both = 2 * expit(np.asarray(theta)) * expit(-np.asarray(theta))  # at G = 2 the signal is 1/2 with this probability
    assert_close(one.variance(theta), both * (1 - both) / 4, 1e-13)
    assert np.array_equal(SoftmaxForce(0.0).variance(theta), np.zeros(2))


def test_motion_of_an_update_rule() -> None:
    first = overdamped(UpdateRule(0.1, 0.9))
    assert (first.learning_rate, first.damping, first.mass) == (0.1, pytest.approx(0.1), None)
    ema = inertial(UpdateRule(0.1, 0.9, "ema", 4), 0.5)
    assert float(ema.learning_rate) == pytest.approx(0.01)
    assert float(ema.damping) == pytest.approx(0.1 - 0.005 * 1.5)
    assert ema.mass is not None
    assert float(ema.mass) == pytest.approx(0.95 + 0.005 * 3.5 / 2)


PATH = diffrax.UnsafeBrownianPath((), jax.random.key(0))
REFUSED = {
    r"curvature is 0.0; it must be positive": lambda: LinearForce(0.0, 1.0),
    r"gradient_noise is -1.0; it must be finite and not negative": lambda: LinearForce(1.0, -1.0),
    r"group_size is 0; it must be finite and at least 1": lambda: LinearForce(1.0, 1.0, 0),
    r"fixed_point is inf; it must be finite": lambda: LinearForce(1.0, 1.0, 2, float("inf")),
    r"kl_weight is nan; it must be finite and not negative": lambda: SoftmaxForce(float("nan")),
    r"p_ref is 1.0; it must be strictly between 0 and 1": lambda: SoftmaxForce(1.0, 1.0),
    r"group_size is 1; it must be a whole number of at least 2": lambda: SoftmaxForce(1.0, 0.5, 1),
    r"prompts_per_step is 0; it must be a whole number": lambda: SoftmaxForce(1.0, 0.5, 4, 0),
    r"noise is -2.0; it must be a function, or a variance": lambda: GivenForce(jnp.sin, -2.0),
    r"learning_rate is -0.1; it must be positive and finite": lambda: Motion(-0.1),
    r"damping is 0.0; it must be positive and finite where there is no mass": lambda: Motion(0.1, 0.0),
    r"mass is 0.0; it must be positive": lambda: Motion(0.1, 1.0, 0.0),
    r"refresh_interval is 4 \(periodic\), whose lag acts through the curvature": lambda: inertial(
        UpdateRule(0.1, 0, refresh_interval=4)
    ),
    r"curvature is -1.0; it must be positive": lambda: overdamped(UpdateRule(0.1), -1.0),
    r"Langevin terms need a mass and a noise that does not": lambda: langevin_terms(
        LinearForce(1, 1), Motion(1.0), PATH
    ),
    r"damping is -1.0; it must be positive for Langevin": lambda: langevin_terms(
        LinearForce(1, 1), Motion(1.0, -1.0, 1.0), PATH
    ),
    r"the noise variance is 0.0; it must be positive for": lambda: langevin_terms(
        LinearForce(1, 0), Motion(1.0, 1.0, 1.0), PATH
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message: str) -> None:
    with pytest.raises(InputError, match=message):
        REFUSED[message]()
