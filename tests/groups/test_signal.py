"""Drift and noise of a group: enumeration, sampling, far tails, derivatives, transformations, input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import binom

from sde_grpo.errors import InputError
from sde_grpo.groups import (
    GroupRule,
    group_signal,
    learning_rate_factor,
    signal_ratio,
    signal_values,
    silent_share,
    success_probabilities,
)
from tests.groups.enumeration import NAMES, RULES, enumerated_moments
from tests.tolerance import assert_close

TAILS = np.array([-700.0, -300.0, -40.0, 40.0, 300.0, 700.0])
CENTRE = np.array([-8.0, -3.0, -1.0, 0.0, 0.4, 2.5])
THETA = np.append(CENTRE, TAILS)  # one shape in all tests, so that JAX compiles each operation once
SIZES = (2, 3, 7)
by_rule = pytest.mark.parametrize("rule", RULES, ids=NAMES)
by_size = pytest.mark.parametrize("group_size", SIZES)


def assert_equal_ratio(actual, desired, relative):
    """Each entry to its own relative accuracy: far apart in size."""
    assert_close(np.asarray(actual) / np.asarray(desired), np.ones(np.shape(actual)), relative)


@by_rule
@by_size
def test_moments_are_those_of_all_reward_vectors(rule, group_size):
    mean, variance = (np.asarray(x)[:6] for x in group_signal(THETA, group_size, rule))
    expected = np.array([enumerated_moments(float(p), group_size, rule) for p in expit(CENTRE)])
    assert_equal_ratio(mean, expected[:, 0], 1e-12)
    assert_close(variance, expected[:, 1], 1e-13, scale=0.1)


@pytest.mark.parametrize("silent", ["keep", "drop"])
def test_moments_are_those_of_sampled_groups_and_not_of_another_rule(silent):
    theta, group_size, groups = 2.5, 7, 400_000
    rewards = (np.random.default_rng(7).random((groups, group_size)) < expit(theta)).astype(float)
    std = rewards.std(axis=1, ddof=1)
    advantages = (rewards - rewards.mean(axis=1, keepdims=True)) / np.where(std > 0, std, 1.0)[:, None]
    drawn = np.mean(advantages * (rewards - expit(theta)), axis=1)
    assert abs(np.mean(std == 0) - silent_share(theta, group_size)) < 5 * 0.5 / groups**0.5
    drawn = drawn if silent == "keep" else drawn[std > 0]
    mean_error = drawn.std() / len(drawn) ** 0.5
    variance_error = ((drawn - drawn.mean()) ** 2).std() / len(drawn) ** 0.5

    def deviations(rule):
        mean, variance = (np.asarray(x)[5] for x in group_signal(THETA, group_size, rule))
        return abs(drawn.mean() - mean) / mean_error, abs(drawn.var() - variance) / variance_error

    assert max(deviations(GroupRule(scale="sample", silent=silent))) < 4.5
    assert min(deviations(GroupRule(scale="population", silent=silent))) > 20
    assert min(deviations(GroupRule(scale="sample", silent="drop" if silent == "keep" else "keep"))) > 20


@given(st.floats(-30, 30), st.sampled_from([2, 7, 64]))
@settings(deadline=None, max_examples=25)
def test_probabilities_are_binomial_symmetric_and_sum_to_one(theta, group_size):
    probabilities = np.asarray(success_probabilities(theta, group_size))
    assert_close(probabilities.sum(), 1.0, 1e-13)
    assert_close(probabilities, binom.pmf(np.arange(group_size + 1), group_size, expit(theta)), 1e-11)
    assert_close(probabilities[::-1], success_probabilities(-theta, group_size), 1e-13)
    assert_close(probabilities[[0, -1]].sum(), silent_share(theta, group_size), 1e-13)


@by_rule
def test_both_arms_are_alike(rule):
    """p -> 1-p changes neither drift nor noise: every reward vector has the other arm's for its complement."""
    here, mirrored = group_signal(THETA, 7, rule), group_signal(-THETA, 7, rule)
    assert_equal_ratio(here.mean, mirrored.mean, 1e-12)
    assert_close(here.variance, mirrored.variance, 1e-14, scale=0.1)
    assert_equal_ratio(signal_ratio(THETA, 7, rule), signal_ratio(-THETA, 7, rule), 1e-12)


@by_rule
@by_size
def test_ratio_times_w_is_the_drift(rule, group_size):
    log_w = -np.logaddexp(0, THETA) - np.logaddexp(0, -THETA)
    mean = group_signal(THETA, group_size, rule).mean
    assert_equal_ratio(signal_ratio(THETA, group_size, rule) * np.exp(log_w), mean, 1e-12)
    factor = learning_rate_factor(THETA, group_size, rule)
    assert_equal_ratio(factor, mean * np.exp(-rule.limit_power * log_w), 1e-12)


@by_rule
def test_far_tails_are_one_success_or_one_failure(rule):
    """P(k = 1) = G w there, so E s = G w s(1) and Var s = G w s(1)^2; if silent groups are dropped, s(1) and 0."""
    one = signal_values(7, rule)[1]
    w = (expit(THETA) * expit(-THETA))[6:]
    mean, variance = (np.asarray(x)[6:] for x in group_signal(THETA, 7, rule))
    if rule.silent == "keep":
        assert_close(mean / w, np.full(6, 7 * one), 1e-12)
        assert_close(variance / w, np.full(6, 7 * one**2), 1e-12)
        assert_close(signal_ratio(THETA, 7, rule)[6:], np.full(6, 7 * one), 1e-12)
    else:
        assert_close(mean, np.full(6, one), 1e-12)
        assert_close(variance, np.zeros(6), 1e-12, scale=1.0)


@by_rule
@pytest.mark.parametrize("group_size", [7, None])
def test_derivatives_are_right_and_finite_in_the_tails(rule, group_size):
    step = 1e-5
    functions = [
        lambda theta: group_signal(theta, group_size, rule).mean,
        lambda theta: group_signal(theta, group_size, rule).variance,
        lambda theta: signal_ratio(theta, group_size, rule),
        lambda theta: learning_rate_factor(theta, group_size, rule),
    ]
    for function in functions:
        slope = np.asarray(jax.grad(lambda theta, f=function: jnp.sum(f(theta)))(jnp.asarray(THETA)))
        difference = np.asarray((function(THETA + step) - function(THETA - step)) / (2 * step))[:6]
        assert_close(slope[:6], difference, 1e-8, scale=max(1.0, float(np.abs(difference).max())))
        assert np.all(np.isfinite(slope))


def test_noise_has_a_derivative_where_there_is_none():
    drop = GroupRule(silent="drop")
    assert_close(group_signal(THETA, 7).sd ** 2, group_signal(THETA, 7).variance, 1e-14)
    for group_size, rule in ((2, drop), (None, GroupRule())):
        assert_close(group_signal(THETA, group_size, rule).sd, np.zeros(12))
        slope = jax.grad(lambda theta, g=group_size, r=rule: jnp.sum(group_signal(theta, g, r).sd))(jnp.asarray(THETA))
        assert_close(slope, np.zeros(12))


def test_jit_vmap_and_shapes():
    rule = GroupRule(scale="sample", silent="drop")

    def all_of(theta):
        signal = group_signal(theta, 7, rule)
        return (*signal, signal_ratio(theta, 7, rule), learning_rate_factor(theta, 7, rule), silent_share(theta, 7))

    mapped = jax.jit(jax.vmap(all_of))(jnp.asarray(THETA))
    for together, apart in zip(all_of(THETA), mapped, strict=True):
        assert_equal_ratio(apart[:6], together[:6], 1e-12)
    shapes = jax.eval_shape(all_of, THETA.reshape(2, 6))
    assert {(leaf.shape, leaf.dtype) for leaf in shapes} == {((2, 6), jnp.dtype("float64"))}
    assert jax.eval_shape(lambda theta: success_probabilities(theta, 7), THETA.reshape(2, 6)).shape == (2, 6, 8)
    static = jax.jit(group_signal, static_argnames=("group_size", "rule"))
    assert static.eval_shape(np.float32(0), group_size=7, rule=rule).mean.dtype == jnp.float64


@by_rule
def test_many_completions_are_the_limit(rule):
    limit, large = group_signal(THETA, None, rule), group_signal(THETA, 4096, rule)
    near = slice(2, 6)  # |theta| < 3: elsewhere 4096 is not many
    assert_close(large.mean[near], limit.mean[near], 2e-3)
    assert_close(large.variance, limit.variance, 2e-4, scale=1.0)
    assert_close(signal_ratio(THETA, 4096, rule)[near], signal_ratio(THETA, None, rule)[near], 2e-3)
    assert_close(learning_rate_factor(THETA, None, rule), np.ones(12), 1e-14)
    assert_close(silent_share(THETA, None), np.zeros(12))


def test_mean_only_factors_do_not_depend_on_p():
    assert_close(learning_rate_factor(THETA, 7, GroupRule(scale="none")), np.full(12, 6 / 7), 1e-12)
    unbiased = GroupRule(scale="none", baseline="leave_one_out")
    assert_close(learning_rate_factor(THETA, 7, unbiased), np.ones(12), 1e-12)


@pytest.mark.parametrize("theta", [np.nan, np.inf, [0.0, -np.inf]])
def test_theta_that_is_not_finite_is_refused(theta):
    for function in (group_signal, signal_ratio, learning_rate_factor, silent_share, success_probabilities):
        with pytest.raises(InputError, match="a logit must be finite"):
            function(theta, 4)


def test_group_size_out_of_range_is_refused():
    for function in (group_signal, signal_ratio, learning_rate_factor, silent_share, success_probabilities):
        with pytest.raises(InputError, match="group_size is 1; it must be a whole number of at least 2"):
            function(0.0, 1)
    with pytest.raises(InputError, match="group_size is None"):
        success_probabilities(0.0, None)  # pyright: ignore[reportArgumentType]


def test_single_precision_is_refused():
    with jax.enable_x64(False), pytest.raises(InputError, match="needs float64"):
        group_signal(0.0, 4)
