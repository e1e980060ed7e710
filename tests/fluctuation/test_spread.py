"""The stationary sd of the policy: the bandit's tables, its sampled runs, and the law in the group size."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit, logit

from sde_grpo.bandit import BanditSettings, curvature, fixed_point, group_signal, simulate
from sde_grpo.bandit import stationary_sd as bandit_stationary_sd
from sde_grpo.errors import InputError
from sde_grpo.fluctuation import stationary_sd, step_noise
from sde_grpo.oscillator import UpdateRule, reduce_update

# The limit T/K is what the theory note prints as "exact finite-G prediction"; the map's sd is a little larger.
GROUP_SIZES = (2, 4, 8, 16, 32, 64)
LANGEVIN_SDS = (0.01612, 0.01246, 0.00793, 0.00453, 0.00293, 0.00202)
DISCRETE_SDS = (0.01617, 0.01250, 0.00795, 0.00454, 0.00294, 0.00203)


def gradient_variance(group_size: int, prompts: int, p_ref: float = 0.5, kl_weight: float = 2.5) -> float:
    """Var s / P at the fixed point."""
    return float(group_signal(fixed_point(p_ref, kl_weight, group_size), group_size).variance) / prompts


@pytest.mark.parametrize(
    ("group_size", "langevin", "discrete"), list(zip(GROUP_SIZES, LANGEVIN_SDS, DISCRETE_SDS, strict=True))
)
def test_finite_group_table_of_the_note(group_size: int, langevin: float, discrete: float) -> None:
    rule, kappa = UpdateRule(0.02), curvature(0.5, 2.5, group_size)
    assert round(stationary_sd(rule, kappa, gradient_variance(group_size, 4)), 5) == discrete
    _, damping, stiffness = reduce_update(rule, kappa)
    limit = math.sqrt(step_noise(rule, gradient_variance(group_size, 4)) / float(2 * damping * stiffness))
    assert round(limit, 5) == langevin


@pytest.mark.parametrize(("learning_rate", "momentum"), [(0.02, 0.0), (1.5, 0.0), (0.01, 0.9), (2.0, 0.7)])
def test_it_is_that_of_the_bandit_without_lag(learning_rate: float, momentum: float) -> None:
    sd = stationary_sd(UpdateRule(learning_rate, momentum), curvature(0.3, 2.0, 8), gradient_variance(8, 16, 0.3, 2.0))
    expected = bandit_stationary_sd(
        0.3, 2.0, 8, prompts_per_step=16, learning_rate=learning_rate, momentum=momentum
    ).theta
    assert sd == pytest.approx(expected, rel=1e-9)


def test_it_falls_as_the_root_of_the_group_size() -> None:
    """Exactly so at given sigma_g and curvature, for any rule; with 0/1 rewards only for large groups."""
    rule = UpdateRule(0.1, 0.5, "heavy_ball", 4)
    sds = [stationary_sd(rule, 0.4, 0.09 / group_size, epochs=2) for group_size in (2, 8, 32)]
    assert np.divide(sds[:-1], sds[1:]) == pytest.approx([2.0, 2.0], rel=1e-12)
    binary = [stationary_sd(rule, curvature(0.5, 2.5, g), gradient_variance(g, 4)) for g in (2, 8, 256, 1024)]
    assert binary[2] / binary[3] == pytest.approx(2.0, rel=0.01)
    assert abs(binary[0] / binary[1] - 2.0) > 0.02


@pytest.mark.parametrize("surrogate", ["importance_ratio", "old_policy"])
def test_sampled_bandit_that_reuses_its_batch(surrogate) -> None:
    """Its batch serves the whole refresh block: epochs = K_ref gives its spread, fresh noise at each step does not."""
    group_size, prompts, interval, eta = 8, 64, 4, 0.15
    kappa, p_star = curvature(0.5, 2.5, group_size), fixed_point(0.5, 2.5, group_size)
    through_old = 1 - 2.5 * p_star * (1 - p_star) / kappa
    rule = UpdateRule(
        eta, 0.3, "heavy_ball", interval, stale_fraction=1.0 if surrogate == "old_policy" else through_old
    )
    settings = BanditSettings(
        p_ref=0.5,
        kl_weight=2.5,
        p_start=p_star,
        group_size=group_size,
        prompts_per_step=prompts,
        learning_rate=eta,
        momentum=0.3,
        refresh_interval=interval,
        steps=480,
    )
    theta = simulate(settings, replicates=1000, seed=7, surrogate=surrogate).theta[:, 120:480]
    simulated = float(np.sqrt(np.mean((theta - theta.mean()) ** 2)))
    noise = gradient_variance(group_size, prompts)
    assert simulated == pytest.approx(stationary_sd(rule, kappa, noise, epochs=interval), rel=0.02)
    assert simulated > 1.7 * stationary_sd(rule, kappa, noise)
    in_p = float(expit(theta).std())
    assert in_p == pytest.approx(p_star * (1 - p_star) * simulated, rel=0.02)
    assert theta.mean() == pytest.approx(float(logit(p_star)), abs=0.1 * simulated)


def test_adam_scales_the_noise_as_it_scales_the_drift() -> None:
    assert step_noise(UpdateRule(0.1, 0.9, "ema"), 4.0) == pytest.approx(0.01**2 * 4)
    assert stationary_sd(UpdateRule(0.1, 0.9, "ema"), 0.5, 4.0) == pytest.approx(
        stationary_sd(UpdateRule(0.01, 0.9), 0.5, 4.0), rel=1e-12
    )


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_bad_input(value: float) -> None:
    with pytest.raises(InputError, match=f"gradient_variance is {value}; it must be positive and finite"):
        stationary_sd(UpdateRule(0.1), 1.0, value)
