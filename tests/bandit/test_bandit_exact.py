"""The closed forms of the bandit against the tables of the theory note, the AR(2) process and brute-force sampling."""

import math

import numpy as np
import pytest

from sde_grpo.bandit import curvature, fixed_point, group_signal, stationary_sd
from sde_grpo.errors import InputError
from sde_grpo.ranges import require_count

GROUP_SIZES = (2, 4, 8, 16, 32, 64)
# sqrt(eta Var s / (2 kappa P)): the note's "exact finite-G prediction" is the limit eta kappa -> 0 of the discrete map.
LANGEVIN_SDS = (0.01612, 0.01246, 0.00793, 0.00453, 0.00293, 0.00202)
DISCRETE_SDS = (0.01617, 0.01250, 0.00795, 0.00454, 0.00294, 0.00203)


@pytest.mark.parametrize(
    ("group_size", "langevin", "discrete"), list(zip(GROUP_SIZES, LANGEVIN_SDS, DISCRETE_SDS, strict=True))
)
def test_stationary_sd_table(group_size, langevin, discrete):
    sd = stationary_sd(0.5, 2.5, group_size, prompts_per_step=4, learning_rate=0.02)
    assert round(sd.theta, 5) == discrete
    assert round(sd.theta * math.sqrt(1 - 0.01 * curvature(0.5, 2.5, group_size)), 5) == langevin
    w = fixed_point(0.5, 2.5, group_size) * (1 - fixed_point(0.5, 2.5, group_size))
    assert sd.p == pytest.approx(w * sd.theta, rel=1e-12)


@pytest.mark.parametrize(("learning_rate", "momentum"), [(0.02, 0.0), (2.0, 0.0), (0.01, 0.9), (3.0, 0.7)])
def test_stationary_sd_is_the_variance_of_the_ar2_process(learning_rate, momentum):
    """x_{k+1} = f1 x_k + f2 x_{k-1} + e: Var x = Var e (1 - f2) / ((1 + f2) ((1 - f2)^2 - f1^2))."""
    f1, f2 = 1 + momentum - learning_rate * curvature(0.5, 2.5, 8), -momentum
    noise = learning_rate**2 * float(group_signal(fixed_point(0.5, 2.5, 8), 8).variance) / 16
    expected = math.sqrt(noise * (1 - f2) / ((1 + f2) * ((1 - f2) ** 2 - f1**2)))
    sd = stationary_sd(0.5, 2.5, 8, prompts_per_step=16, learning_rate=learning_rate, momentum=momentum)
    assert sd.theta == pytest.approx(expected, rel=1e-9)


def test_group_signal_against_brute_force_sampling():
    rng, n = np.random.default_rng(5), 200_000
    for p, group_size in ((0.3, 2), (0.6, 8), (0.9, 16)):
        rewards = rng.random((n, group_size)) < p
        sampled = rewards.std(axis=1)  # for 0/1 rewards s(k) is the population standard deviation of the group
        exact = group_signal(p, group_size)
        deviation = (sampled - sampled.mean()) ** 2
        assert abs(sampled.mean() - exact.mean) < 4 * sampled.std() / math.sqrt(n)
        assert abs(deviation.mean() - exact.variance) < 4 * deviation.std() / math.sqrt(n)


@pytest.mark.parametrize("p", [0.3, 0.5, 0.7])
def test_group_signal_against_the_leading_order(p):
    w = p * (1 - p)
    for group_size in (100, 1000):
        mean, variance = group_signal(p, group_size)
        assert abs(mean - math.sqrt(w) * (1 - 1 / (8 * group_size * w))) < 1 / group_size**2
        assert abs(variance - (1 - 2 * p) ** 2 / (4 * group_size)) < 1 / group_size**2


def test_group_signal_identities_and_shapes():
    """E s^2 = w (1 - 1/G); a pair has s = 1/2 or 0, so E s = w; a sure arm is silent."""
    p = np.array([[0.0, 0.2, 0.5], [0.7, 0.99, 1.0]])
    for group_size in (2, 3, 50):
        mean, variance = group_signal(p, group_size)
        assert mean.shape == variance.shape == p.shape
        np.testing.assert_allclose(variance + mean**2, p * (1 - p) * (1 - 1 / group_size), atol=1e-14)
    np.testing.assert_allclose(group_signal(p, 2).mean, p * (1 - p), atol=1e-15)


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan, np.array([0.5, 2.0])])
def test_group_signal_errors(p):
    with pytest.raises(InputError, match=r"p is .*; it must lie in \[0, 1\]"):
        group_signal(p, 4)
    with pytest.raises(InputError, match="group_size is 1; it must be a whole number of at least 2"):
        group_signal(0.5, 1)


@pytest.mark.parametrize("value", [2.5, 2.0, math.nan, True])
def test_counts_are_whole_numbers(value):
    with pytest.raises(InputError, match=f"group_size is {value}; it must be a whole number of at least 1"):
        require_count("group_size", value, 1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"group_size": 1}, "group_size is 1; it must be a whole number of at least 2"),
        ({"prompts_per_step": 0}, "prompts_per_step is 0; it must be a whole number of at least 1"),
        ({"learning_rate": 0.0}, r"learning_rate is 0\.0; it must be positive and finite"),
        ({"momentum": 1.0}, r"momentum is 1\.0; it must lie in \[0, 1\)"),
        ({"learning_rate": 5.0}, r"eta kappa is 2\.459; .* between 0 and 2 \(1 \+ momentum\) = 2\. Lower"),
        ({"kl_weight": 0.0}, "no interior fixed point"),
    ],
)
def test_stationary_sd_errors(changed, message):
    given = {"p_ref": 0.5, "kl_weight": 2.5, "group_size": 8, "prompts_per_step": 4, "learning_rate": 0.02} | changed
    with pytest.raises(InputError, match=message):
        stationary_sd(**given)
