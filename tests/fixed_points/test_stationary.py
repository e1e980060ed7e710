"""Stationary policies against the gradient of the surrogate itself, by autodiff over every possible group."""

import math
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, logit

from sde_grpo.errors import InputError
from sde_grpo.fixed_points import fixed_point, group_preference, k3_plateau, signal_ratio_derivatives, stationary_policy
from sde_grpo.groups import GroupRule
from tests.tolerance import assert_close

REWARDS, REFERENCE = np.array([0.0, 0.3, 1.0]), np.array([0.5, 0.3, 0.2])
LEAVE_ONE_OUT = GroupRule(scale="none", baseline="leave_one_out")
RULES = [GroupRule(), GroupRule(scale="sample"), LEAVE_ONE_OUT, GroupRule(silent="drop")]


def advantages(rewards: np.ndarray, rule: GroupRule) -> np.ndarray:
    if np.ptp(rewards) == 0:
        return np.zeros_like(rewards)
    size = len(rewards)
    baseline = (rewards.sum() - rewards) / (size - 1) if rule.baseline == "leave_one_out" else rewards.mean()
    scale = {"population": rewards.std(), "sample": rewards.std(ddof=1), "none": 1.0}[rule.scale]
    return (rewards - baseline) / scale


def surrogate_gradient(policy, old, rewards, reference, kl_weight, group_size, rule, penalty):
    """d/d logits of E_groups~old [(1/G) sum_i ratio_i A_i - beta penalty_i], every ordered group enumerated."""
    groups = np.array(list(product(range(len(rewards)), repeat=group_size)))
    chance = np.prod(old[groups], axis=1)
    gains = np.array([advantages(rewards[group], rule) for group in groups])
    live = 1.0
    if rule.silent == "drop":
        live = chance[[np.ptp(rewards[group]) > 0 for group in groups]].sum()

    def objective(logits):
        log_pi = jax.nn.log_softmax(logits)
        ratio = jnp.exp(log_pi)[groups] / old[groups]
        log_rho = jnp.log(reference)[groups] - log_pi[groups]
        k3 = jnp.exp(log_rho) - log_rho - 1
        surrogate = jnp.mean(ratio * gains, axis=1) / live - (kl_weight * k3.mean(axis=1) if penalty == "k3" else 0)
        direct = jnp.exp(log_pi) @ (log_pi - jnp.log(reference)) if penalty == "kl" else 0.0
        return chance @ surrogate - kl_weight * direct

    return np.asarray(jax.grad(objective)(jnp.log(policy)))


@pytest.mark.parametrize("penalty", ["k3", "kl"])
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("group_size", [2, 4])
def test_the_gradient_of_the_surrogate_vanishes(group_size, rule, penalty):
    policy = stationary_policy(REWARDS, REFERENCE, 1.8, group_size, rule, penalty)
    gradient = surrogate_gradient(policy, policy, REWARDS, REFERENCE, 1.8, group_size, rule, penalty)
    assert np.abs(gradient).max() < 1e-9
    elsewhere = surrogate_gradient(REFERENCE, REFERENCE, REWARDS, REFERENCE, 1.8, group_size, rule, penalty)
    assert np.abs(elsewhere).max() > 1e-2


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("group_size", [2, 5, None])
def test_rational_and_exponential_pooling(group_size, rule):
    beta = 1.8
    rational = stationary_policy(REWARDS, REFERENCE, beta, group_size, rule)
    preference = group_preference(rational, REWARDS, group_size, rule)
    assert_close((1 - (preference - rational @ preference) / beta) * rational, REFERENCE, 1e-9)
    exponential = stationary_policy(REWARDS, REFERENCE, beta, group_size, rule, "kl")
    pooled = REFERENCE * np.exp(group_preference(exponential, REWARDS, group_size, rule) / beta)
    assert_close(exponential, pooled / pooled.sum(), 1e-9)
    assert np.abs(rational - exponential).max() > 0.005


def test_mean_only_with_the_direct_penalty_is_the_usual_softmax():
    for group_size in (2, 6, None):
        pooled = REFERENCE * np.exp(REWARDS / 0.7)
        policy = stationary_policy(REWARDS, REFERENCE, 0.7, group_size, LEAVE_ONE_OUT, "kl")
        assert_close(policy, pooled / pooled.sum(), 1e-9)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_preferences_against_enumeration(rule):
    policy, group_size = np.array([0.2, 0.5, 0.3]), 4
    expected, live = np.zeros(3), 0.0
    for group in product(range(3), repeat=group_size):
        rewards, chance = REWARDS[list(group)], float(np.prod(policy[list(group)]))
        expected[group[0]] += chance / policy[group[0]] * advantages(rewards, rule)[0]
        live += chance * (np.ptp(rewards) > 0)
    if rule.silent == "drop":
        expected /= live
    assert_close(group_preference(policy, REWARDS, group_size, rule), expected, 1e-12)


def test_a_pair_compares_and_a_large_group_standardises():
    policy = np.array([0.2, 0.5, 0.3])
    wins = np.sign(REWARDS[:, None] - REWARDS[None, :]) @ policy
    assert_close(group_preference(policy, REWARDS, 2), wins, 1e-12)
    centred = REWARDS - policy @ REWARDS
    limit = centred / math.sqrt(policy @ centred**2)
    assert_close(group_preference(policy, REWARDS), limit, 1e-12)
    errors = [np.abs(group_preference(policy, REWARDS, g) - limit).max() for g in (50, 100, 200)]
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.1)
    assert errors[1] / errors[2] == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize("group_size", [2, 8, None])
def test_binary_rewards_reduce_to_the_two_armed_bandit(group_size):
    rewards, reference = np.array([0.0, 1.0, 1.0, 0.0]), np.array([0.3, 0.15, 0.05, 0.5])
    k3 = stationary_policy(rewards, reference, 1.7, group_size, penalty="k3")
    kl = stationary_policy(rewards, reference, 1.7, group_size, penalty="kl")
    for policy, p in ((k3, k3_plateau(0.2, 1.7, group_size).p), (kl, fixed_point(0.2, 1.7, group_size))):
        assert policy[1] + policy[2] == pytest.approx(p, rel=1e-9)
        assert policy[1] / policy[2] == pytest.approx(3)  # arms of one reward keep their odds
    ratio = float(signal_ratio_derivatives(logit(0.2), group_size, GroupRule()).value)
    preference = group_preference(reference, rewards, group_size)
    assert preference[1] - preference[0] == pytest.approx(ratio)


@pytest.mark.parametrize(("p_ref", "beta"), [(0.5, 2.5), (0.2, 0.3), (0.9, 1.0)])
def test_closed_forms_of_the_k3_plateau(p_ref, beta):
    limit = (1 + 2 * beta**2 * p_ref + math.sqrt(1 + 4 * beta**2 * p_ref * (1 - p_ref))) / (2 * (1 + beta**2))
    pair = (1 - beta + math.sqrt((1 - beta) ** 2 + 4 * beta * p_ref)) / 2
    assert k3_plateau(p_ref, beta).p == pytest.approx(limit, rel=1e-12)
    assert k3_plateau(p_ref, beta, 2).p == pytest.approx(pair, rel=1e-12)


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("group_size", [2, 4])
def test_curvature_of_the_k3_plateau_is_minus_the_slope_of_the_surrogate_gradient(group_size, rule):
    point, rewards, reference = k3_plateau(0.3, 1.2, group_size, rule), np.array([0.0, 1.0]), np.array([0.7, 0.3])

    def drift(now: float, old: float) -> float:
        policy, sampling = (np.array([expit(-x), expit(x)]) for x in (point.theta + now, point.theta + old))
        return float(surrogate_gradient(policy, sampling, rewards, reference, 1.2, group_size, rule, "k3")[1])

    h = 1e-5
    slopes = [(drift(-h * a, -h * b) - drift(h * a, h * b)) / (2 * h) for a, b in ((1, 0), (0, 1))]
    assert abs(drift(0, 0)) < 1e-12
    assert_close([point.kappa_now, point.kappa_old], slopes, 1e-7)


def test_the_k3_penalty_has_no_fold():
    with pytest.raises(InputError, match="no interior fixed point"):
        fixed_point(0.5, 1.0)
    assert k3_plateau(0.5, 1.0).p == pytest.approx((2 + math.sqrt(2)) / 4)
    with pytest.raises(InputError, match=r"runs to the best arm\. Raise kl_weight"):
        stationary_policy([0.0, 1.0], [0.5, 0.5], 1.0, penalty="kl")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rewards": [1.0, 1.0, 1.0]}, "rewards is .*; it must be one finite number per arm, not all equal"),
        ({"rewards": [0.0, math.nan, 1.0]}, "rewards is .*; it must be one finite number per arm"),
        ({"reference": [0.5, 0.5, 0.0]}, "reference is .*; its entries must be positive and sum to one"),
        ({"reference": [0.5, 0.4]}, "reference is .*; its entries must be positive and sum to one"),
        ({"reference": [0.5, 0.5]}, "reference has 2 arms and rewards 3; they must have as many"),
        ({"reference": [1.0]}, r"reference has shape \(1,\); it must have one axis and at least two arms"),
        ({"kl_weight": 0.0}, r"kl_weight is 0\.0; it must be positive and finite"),
        ({"group_size": 1}, "group_size is 1; it must be a whole number of at least 2"),
        ({"group_size": 900}, "group_size = 900 with 3 arms has 405450 compositions; at most 200000"),
        ({"penalty": "k2"}, "(?s)'k2'.*'k3'.*'kl'"),
    ],
)
def test_policy_errors(changed, message):
    given = {"rewards": REWARDS, "reference": REFERENCE, "kl_weight": 1.0, "group_size": 4} | changed
    # TypeError: what a run under the jaxtyping hook sees first
    with pytest.raises((InputError, TypeError), match=message):
        stationary_policy(**given)


def test_other_errors():
    with pytest.raises(InputError, match="policy has 2 arms and rewards 3"):
        group_preference([0.5, 0.5], REWARDS)
    with pytest.raises(InputError, match=r"p_ref is 0\.0; it must lie strictly"):
        k3_plateau(0.0, 1.0)
    with pytest.raises(InputError, match=r"kl_weight is 0\.0; it must be positive and finite"):
        k3_plateau(0.5, 0.0)
    with pytest.raises(InputError, match="group_size is True; it must be a whole number"):
        k3_plateau(0.5, 1.0, True)
    with pytest.raises(InputError, match=r"no fixed point below 1 - 1e-9 at p_ref = 0\.5, kl_weight = 0\.1"):
        k3_plateau(0.5, 0.1, 8, GroupRule(silent="drop"))
