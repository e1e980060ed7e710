"""The exact expected gradient of the testbed against the textbook loop over every group, and against closed forms."""

from __future__ import annotations

import math
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, logit

from sde_grpo.bandit import fixed_point
from sde_grpo.bandit.testbed import Adam, Bandit, Momentum, Training, softmax_table, train, two_armed
from sde_grpo.groups import GroupRule, group_signal
from tests.bandit.textbook import log_policy, train_exactly
from tests.tolerance import assert_close

THREE_ARMS = softmax_table([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]], [[0.0, 1.0, 0.4], [2.0, -0.5, -0.5]])
SHARED = Bandit(
    jnp.array([[0.0, 0.3, -0.2], [0.5, -0.5, 0.0]]),
    jnp.array([[0.0, 1.0, 1.0], [0.2, 0.9, 0.0]]),
    jnp.array([[[0.0, 0.2], [1.0, 0.0], [0.0, 1.0]], [[0.3, 0.0], [0.0, 1.0], [1.0, 0.5]]]),
)
BASE = Training(
    optimizer=Momentum(0.5, 0.6), group_size=3, prompts_per_step=2, steps=5, kl_weight=0.4, gradient="exact"
)
CASES = {
    "two arms, on policy": (two_armed(0.4), {}),
    "two arms, many prompts": (two_armed([0.2, 0.5, 0.9]), {"refresh_interval": 3}),
    "three arms": (THREE_ARMS, {"refresh_interval": 3}),
    "averaged gradient": (THREE_ARMS, {"optimizer": Momentum(2.0, 0.6, "ema"), "refresh_interval": 2}),
    "Adam": (THREE_ARMS, {"optimizer": Adam(0.1, 0.7, 0.9, 1e-4), "refresh_interval": 2}),
    "shared parameters": (SHARED, {"refresh_interval": 2}),
    "constant lag": (SHARED, {"lag_schedule": "constant", "refresh_interval": 2}),
    "old policy": (THREE_ARMS, {"surrogate": "old_policy", "refresh_interval": 4}),
    "clipped": (THREE_ARMS, {"clip_low": 0.1, "clip_high": 0.25, "refresh_interval": 5}),
    "sample scale": (THREE_ARMS, {"group_rule": GroupRule(scale="sample", baseline="leave_one_out")}),
    "no scale": (SHARED, {"group_rule": GroupRule(scale="none", baseline="leave_one_out"), "refresh_interval": 2}),
    "dropped": (THREE_ARMS, {"group_rule": GroupRule(silent="drop"), "refresh_interval": 2}),
    "larger group": (two_armed(0.3), {"group_size": 6, "refresh_interval": 2}),
}


@pytest.mark.parametrize("name", CASES)
def test_exact_gradient_is_the_textbook_loop(name):
    bandit, changed = CASES[name]
    training = replace(BASE, **changed)
    start = np.linspace(-0.2, 0.3, bandit.features.shape[-1])
    path = train_exactly(bandit, training, start)
    history = train(bandit, training, start=start)
    logits = np.asarray(bandit.reference_logits) + np.einsum("nad,kd->kna", np.asarray(bandit.features), path)
    assert_close(history.logits[0], logits, 1e-10)
    policies = [log_policy(bandit, x) for x in path]
    expected = [np.mean(np.sum(np.exp(p) * np.asarray(bandit.rewards), axis=-1)) for p in policies]
    assert_close(history.expected_reward[0], expected, 1e-10)
    assert_close(history.entropy[0], [-np.mean(np.sum(np.exp(p) * p, axis=-1)) for p in policies], 1e-10)
    reference = log_policy(bandit, np.zeros(bandit.features.shape[-1]))
    assert_close(history.kl[0], [np.mean(np.sum(np.exp(p) * (p - reference), axis=-1)) for p in policies], 1e-10)


def test_clipping_clips_here():
    """The textbook comparison above would prove nothing if no ratio left the interval."""
    bandit, changed = CASES["clipped"]
    clipped = train(bandit, replace(BASE, **changed))
    free = train(bandit, replace(BASE, refresh_interval=5))
    assert np.all(clipped.clip_share[0, :2] == 0)
    assert clipped.clip_share[0, -1] > 0.1
    assert np.all(free.clip_share == 0)
    assert np.abs(clipped.logits - free.logits).max() > 0.05


@pytest.mark.parametrize("scale", ["population", "sample", "none"])
@pytest.mark.parametrize("baseline", ["group_mean", "leave_one_out"])
@pytest.mark.parametrize("silent", ["keep", "drop"])
def test_first_step_of_two_arms_is_the_finite_sum(scale, baseline, silent):
    rule = GroupRule(scale=scale, baseline=baseline, silent=silent)
    training = replace(BASE, optimizer=Momentum(1.0), group_size=8, group_rule=rule, steps=2)
    for p in (0.1, 0.5, 0.9):
        theta, w = logit(p), p * (1 - p)
        history = train(two_armed(0.5), training, start=theta)
        drift = float(group_signal(theta, 8, rule).mean) - 0.4 * w * theta
        assert_close(history.logits[0, 1, 0, 1] - theta, drift, 1e-11)
        silent_share = p**8 + (1 - p) ** 8 if silent == "keep" else 0.0
        assert_close(history.silent_share[0, 0], silent_share, 1e-12, scale=1.0)


def test_a_stale_group_has_the_ratio_of_variances():
    """s(k) w(theta)/w(theta_old), so with beta = 0 every step of a block is the first times that ratio."""
    training = replace(BASE, optimizer=Momentum(0.3), kl_weight=0.0, refresh_interval=6, steps=6)
    theta = np.asarray(train(two_armed(0.3), training).logits[0, :, 0, 1])
    w = expit(theta) * expit(-theta)
    assert_close(np.diff(theta), np.diff(theta)[0] * w[:-1] / w[0], 1e-11)


def test_two_logits_feel_twice_the_learning_rate():
    table = softmax_table([0.7, 0.3], [0.0, 1.0])
    two = train(table, replace(BASE, optimizer=Momentum(0.1))).logits[0, :, 0]
    one = train(two_armed(0.3), replace(BASE, optimizer=Momentum(0.2))).logits[0, :, 0, 1]
    assert_close(two[:, 1] - two[:, 0], one, 1e-12)


def test_the_plateau_is_the_fixed_point():
    training = replace(BASE, optimizer=Momentum(0.5), group_size=8, kl_weight=2.5, steps=200)
    history = train(two_armed(0.5), training, start=-1.0, record_every=199)
    assert history.steps.tolist() == [1, 200]
    assert_close(history.expected_reward[0, -1], fixed_point(0.5, 2.5, 8), 1e-12)


def test_prompts_with_logits_of_their_own_do_not_meet():
    both = softmax_table([[0.5, 0.5], [0.2, 0.8]], [0.0, 1.0])
    alone = softmax_table([0.5, 0.5], [0.0, 1.0])
    joint = train(both, replace(BASE, optimizer=Momentum(0.4)))
    single = train(alone, replace(BASE, optimizer=Momentum(0.2)))
    assert_close(joint.logits[0, :, 0], single.logits[0, :, 0], 1e-12)


def test_a_saturated_policy_stays_finite():
    training = replace(BASE, optimizer=Momentum(1e4), kl_weight=0.0, refresh_interval=3, gradient="sampled")
    history = train(two_armed(0.5), training, replicates=5)
    assert all(np.all(np.isfinite(np.asarray(field))) for field in history)
    assert math.isclose(float(history.expected_reward[:, -1].min()), 1.0)


def test_silence_is_seen_through_rounding():
    """Seven rewards of 0.1 have a mean that is not 0.1, and must not be scaled up to a signal."""
    bandit = softmax_table([0.5, 0.3, 0.2], [0.1, 0.1, 0.1])
    history = train(bandit, replace(BASE, group_size=7, kl_weight=0.0))
    assert_close(history.silent_share, np.ones((1, 5)), 1e-12)
    assert_close(history.logits[0, -1], history.logits[0, 0], 1e-15)
