"""The sampled bandit against a textbook loop over completions, the linear map and the exact stationary spread."""

import math
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from scipy.special import expit, logit

from sde_grpo.bandit import BanditSettings, curvature, fixed_point, simulate, stationary_sd
from sde_grpo.errors import InputError

BASE = BanditSettings(
    p_ref=0.5, kl_weight=2.5, p_start=0.3, group_size=4, prompts_per_step=3, learning_rate=0.1, momentum=0.5, steps=12
)


def surrogate_gradient(rewards: np.ndarray, theta: float, theta_old: float) -> float:
    """(1/G) sum_i ratio_i A_i dlog pi(a_i)/dtheta for one group, completion by completion."""
    p, p_old = float(expit(theta)), float(expit(theta_old))
    if rewards.std() == 0:
        return 0.0
    total = 0.0
    for reward, advantage in zip(rewards, (rewards - rewards.mean()) / rewards.std(), strict=True):
        ratio, score = (p / p_old, 1 - p) if reward else ((1 - p) / (1 - p_old), -p)
        total += ratio * advantage * score
    return total / len(rewards)


def textbook(settings: BanditSettings, seed: int, surrogate: str) -> tuple[list[float], list[float]]:
    """GRPO written out: groups, advantages, ratios, momentum. Draws its batches as `simulate` does."""
    rng, theta_ref = np.random.default_rng(seed), float(logit(settings.p_ref))
    path = [float(logit(settings.p_start))] * 2
    reward, batch, old = [], [], path[0]
    for step in range(settings.steps):
        if step % settings.refresh_interval == 0:
            old = path[-1]
            counts = rng.binomial(settings.group_size, expit(old), size=(1, settings.prompts_per_step))[0]
            batch = [np.arange(settings.group_size) < k for k in counts]
            reward.append(float(np.mean(batch)))
        at = path[-1] if surrogate == "importance_ratio" else old
        w = float(expit(at) * expit(-at))
        gradient = float(np.mean([surrogate_gradient(group, at, old) for group in batch]))
        gradient -= settings.kl_weight * w * (at - theta_ref)
        path.append(path[-1] + settings.learning_rate * gradient + settings.momentum * (path[-1] - path[-2]))
    return reward, path[1:]


@pytest.mark.parametrize("group_size", [2, 5, 8])
def test_surrogate_gradient_is_the_group_signal_times_the_ratio_of_variances(group_size):
    theta_old, theta = 0.4, 1.1
    w, w_old = (float(expit(x) * expit(-x)) for x in (theta, theta_old))
    for k in range(group_size + 1):
        rewards = np.arange(group_size) < k
        signal = math.sqrt(k / group_size * (1 - k / group_size))
        assert surrogate_gradient(rewards, theta_old, theta_old) == pytest.approx(signal, abs=1e-15)
        assert surrogate_gradient(rewards, theta, theta_old) == pytest.approx(signal * w / w_old, abs=1e-15)


@pytest.mark.parametrize("surrogate", ["importance_ratio", "old_policy"])
@pytest.mark.parametrize("refresh_interval", [1, 4, 5])
def test_simulation_is_the_textbook_loop(surrogate, refresh_interval):
    settings = replace(BASE, refresh_interval=refresh_interval)
    simulation = simulate(settings, seed=7, surrogate=surrogate)
    reward, theta = textbook(settings, 7, surrogate)
    np.testing.assert_allclose(simulation.reward[0], reward, rtol=1e-12)
    np.testing.assert_allclose(simulation.theta[0], theta, rtol=1e-12)


def test_surrogates_agree_without_lag_and_differ_with_it():
    paths = {
        (k, s): simulate(replace(BASE, refresh_interval=k), seed=1, surrogate=s).theta
        for k in (1, 4)
        for s in ("importance_ratio", "old_policy")
    }
    np.testing.assert_array_equal(paths[1, "importance_ratio"], paths[1, "old_policy"])
    assert np.abs(paths[4, "importance_ratio"] - paths[4, "old_policy"]).max() > 1e-3


def test_refresh_makes_rows_and_reuses_the_batch():
    settings = replace(BASE, refresh_interval=5, momentum=0.0)
    simulation = simulate(settings, replicates=3, seed=2, surrogate="old_policy")
    assert simulation.steps.tolist() == [1, 6, 11]
    assert simulation.reward.shape == (3, 3)
    assert simulation.theta.shape == (3, 13)
    increments = np.diff(simulation.theta)
    for start, end in ((0, 5), (5, 10), (10, 12)):
        np.testing.assert_allclose(increments[:, start:end], increments[:, [start]] * np.ones(end - start), rtol=1e-9)
    assert np.all(increments[:, 4] != increments[:, 5])


@pytest.mark.parametrize("surrogate", ["importance_ratio", "old_policy"])
def test_a_block_follows_the_linear_map_with_its_stale_fraction(surrogate):
    """x_{k+1} = x_k - a_now x_k - a_old x_old; opposite starts cancel the second order. phi = 1: all of it is stale."""
    plateau, distance, rate, refresh = fixed_point(0.5, 2.5, 4), 0.05, 0.2, 8
    now = 2.5 * plateau * (1 - plateau) if surrogate == "importance_ratio" else 0.0
    old = curvature(0.5, 2.5, 4) - now
    expected = 1.0
    for _ in range(refresh):
        expected += -rate * now * expected - rate * old
    settings = replace(BASE, learning_rate=rate, momentum=0.0, refresh_interval=refresh, steps=refresh)
    settings = replace(settings, prompts_per_step=5000)
    ends, errors = [], []
    for sign in (-1, 1):
        start = float(expit(logit(plateau) + sign * distance))
        end = simulate(replace(settings, p_start=start), replicates=400, seed=3, surrogate=surrogate).theta[:, -1]
        ends.append(end.mean())
        errors.append(end.std() / math.sqrt(len(end)))
    bound = 4 * math.hypot(*errors) / (2 * distance) + 2e-3
    assert bound < 0.02
    assert (ends[1] - ends[0]) / (2 * distance) == pytest.approx(expected, abs=bound)


@pytest.mark.parametrize(
    ("group_size", "prompts_per_step", "learning_rate", "momentum"),
    [(2, 32, 0.2, 0.0), (8, 32, 0.2, 0.0), (8, 256, 2.0, 0.0), (8, 32, 0.02, 0.9)],
)
def test_simulated_spread_is_the_exact_one(group_size, prompts_per_step, learning_rate, momentum):
    """After ten relaxation times; the third case (eta kappa near 1) tells the discrete map from its Langevin limit."""
    tau = (1 - momentum) / (learning_rate * curvature(0.5, 2.5, group_size))
    settings = BanditSettings(
        p_ref=0.5,
        kl_weight=2.5,
        p_start=fixed_point(0.5, 2.5, group_size),
        group_size=group_size,
        prompts_per_step=prompts_per_step,
        learning_rate=learning_rate,
        momentum=momentum,
        steps=math.ceil(10 * tau) + 10,
    )
    replicates = 1500
    simulation = simulate(settings, replicates=replicates, seed=11)
    exact = stationary_sd(
        0.5,
        2.5,
        group_size,
        prompts_per_step=prompts_per_step,
        learning_rate=learning_rate,
        momentum=momentum,
    )
    bound = 4 / math.sqrt(2 * replicates) + 0.005
    assert simulation.theta[:, -1].std() == pytest.approx(exact.theta, rel=bound)
    assert expit(simulation.theta[:, -1]).std() == pytest.approx(exact.p, rel=bound)
    assert simulation.theta[:, -1].mean() == pytest.approx(logit(settings.p_start), abs=0.15 * exact.theta)


def test_rewards_have_the_binomial_variance():
    simulation = simulate(replace(BASE, steps=1), replicates=20_000, seed=4)
    assert simulation.reward.mean() == pytest.approx(0.3, abs=4 * math.sqrt(0.21 / 12 / 20_000))
    assert simulation.reward.var() == pytest.approx(0.21 / 12, rel=4 * math.sqrt(2 / 20_000))


def test_seed_decides_everything():
    first, again, other = (simulate(BASE, replicates=2, seed=s) for s in (3, np.random.default_rng(3), (3, 1)))
    np.testing.assert_array_equal(first.theta, again.theta)
    np.testing.assert_array_equal(first.reward, again.reward)
    assert not np.array_equal(first.reward, other.reward)
    assert not np.array_equal(first.theta[0], first.theta[1])


def test_a_saturated_policy_stays_finite():
    simulation = simulate(replace(BASE, kl_weight=0.0, learning_rate=1e4, refresh_interval=3), replicates=5, seed=1)
    assert np.all(np.isfinite(simulation.theta))
    assert np.all(simulation.reward[:, -1] == 1)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("p_ref", 1.0, r"p_ref is 1\.0; it must lie strictly between 0 and 1"),
        ("p_start", 0.0, r"p_start is 0\.0; it must lie strictly between 0 and 1"),
        ("kl_weight", -0.5, r"kl_weight is -0\.5; it must be finite and not negative"),
        ("kl_weight", math.inf, "kl_weight is inf; it must be finite and not negative"),
        ("group_size", 1, "group_size is 1; it must be a whole number of at least 2"),
        ("prompts_per_step", True, "prompts_per_step is True; it must be a whole number of at least 1"),
        ("learning_rate", math.nan, "learning_rate is nan; it must be positive and finite"),
        ("momentum", -0.1, r"momentum is -0\.1; it must lie in \[0, 1\)"),
        ("refresh_interval", 0, "refresh_interval is 0; it must be a whole number of at least 1"),
        ("steps", 0, "steps is 0; it must be a whole number of at least 1"),
    ],
)
def test_settings_errors(field, value, message):
    with pytest.raises(InputError, match=message):
        replace(BASE, **{field: value})


def test_settings_are_frozen():
    with pytest.raises(FrozenInstanceError, match="steps"):
        BASE.steps = 3  # pyright: ignore[reportAttributeAccessIssue]


def test_simulate_errors():
    with pytest.raises(InputError, match="replicates is 0; it must be a whole number of at least 1"):
        simulate(BASE, replicates=0)
    # TypeError: what a run under the jaxtyping hook sees first
    with pytest.raises((InputError, TypeError), match=r"(?s)'stale'.*'importance_ratio'.*'old_policy'"):
        simulate(BASE, surrogate="stale")  # pyright: ignore[reportArgumentType]
