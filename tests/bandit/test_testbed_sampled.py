"""The testbed with sampled groups: against a loop with the same random numbers, and against exact moments."""

from __future__ import annotations

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom, chi2

from sde_grpo.bandit import curvature, fixed_point
from sde_grpo.bandit.testbed import Momentum, Training, softmax_table, train, two_armed
from sde_grpo.bandit.testbed.compositions import compositions, draw, probabilities
from sde_grpo.groups import GroupRule, group_signal
from tests.statistical.bandit_theory import CASES, located, response, spread
from tests.tolerance import assert_close

BASE = Training(optimizer=Momentum(0.3, 0.5), group_size=4, prompts_per_step=3, steps=12, kl_weight=2.5)


def successes(seed: int, step: int, replicates: int, training: Training, p: np.ndarray) -> np.ndarray:
    """k ~ Binomial(G, p) of each group by inversion, from the uniform numbers that `train` takes."""
    shape = (replicates, training.prompts_per_step, 1)
    uniform = jax.random.uniform(jax.random.fold_in(jax.random.key(seed), step), shape)
    return binom.ppf(np.asarray(uniform)[..., 0], training.group_size, p[:, None])


@pytest.mark.parametrize("surrogate", ["importance_ratio", "old_policy"])
@pytest.mark.parametrize(("schedule", "interval"), [("periodic", 1), ("periodic", 5), ("constant", 0), ("constant", 3)])
def test_sampled_run_is_the_plain_loop(surrogate, schedule, interval):
    training = replace(BASE, surrogate=surrogate, lag_schedule=schedule, refresh_interval=interval)
    history = train(two_armed(0.5), training, replicates=6, seed=3, start=-0.4)
    path, k = [np.full(6, -0.4)] * 2, np.zeros((6, 3))
    old = path[0]
    for step in range(training.steps):
        constant = schedule == "constant"
        if constant or step % interval == 0:
            old = path[1 + max(step - interval, 0)] if constant else path[-1]
            k = successes(3, step, 6, training, expit(old))
        assert_close(history.reward[:, step], k.mean(axis=1) / 4, 1e-12)
        assert_close(history.silent_share[:, step], np.mean((k == 0) | (k == 4), axis=1), 1e-12, scale=1.0)
        at = old if surrogate == "old_policy" else path[-1]
        w, w_old = expit(at) * expit(-at), expit(old) * expit(-old)
        slope = np.sqrt(k * (4 - k)).mean(axis=1) / 4 * w / w_old - 2.5 * w * at
        path.append(path[-1] + 0.3 * slope + 0.5 * (path[-1] - path[-2]))
    assert_close(history.logits[:, :, 0, 1], np.array(path[1:-1]).T, 1e-11)


def test_records_are_rows_of_the_full_history():
    training = replace(BASE, refresh_interval=4)
    full = train(two_armed(0.5), training, replicates=2, seed=1)
    rows = train(two_armed(0.5), training, replicates=2, seed=1, record_every=4)
    assert rows.steps.tolist() == [1, 5, 9]
    for field in rows._fields[1:]:
        assert_close(getattr(rows, field), np.asarray(getattr(full, field))[:, ::4], 1e-14, scale=1.0)
    assert full.reward[0, 0] == full.reward[0, 3]


@pytest.mark.parametrize("rule", [GroupRule(), GroupRule(scale="sample", silent="drop")])
def test_drawn_groups_have_their_multinomial_law(rule):
    bandit = softmax_table([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]], [0.0, 1.0, 0.4])
    table = compositions(bandit, 4, rule)
    expected = np.asarray(probabilities(table, bandit.log_policy(jnp.zeros(6))))
    draws, groups = 4000, 5
    law = np.broadcast_to(expected, (draws, *expected.shape))
    counts = groups * np.asarray(draw(jax.random.key(2), jnp.asarray(law), groups))
    assert_close(counts.sum(axis=(1, 2)), np.full(draws, groups), 1e-12)
    possible = expected > 0
    assert not counts[:, ~possible].any()
    mean = draws * groups * expected[possible]
    statistic = float(np.sum((counts.sum(axis=0)[possible] - mean) ** 2 / mean))
    assert statistic < chi2.ppf(0.9999, possible.sum() - 1)
    common = expected[expected > 0.02]
    variance = counts.var(axis=0)[expected > 0.02] / (groups * common * (1 - common))
    assert_close(variance, np.ones(len(common)), 0.15)  # groups of a batch are independent


@pytest.mark.parametrize("scale", ["population", "sample", "none"])
@pytest.mark.parametrize("silent", ["keep", "drop"])
def test_one_step_has_the_exact_drift_and_noise(scale, silent):
    rule, replicates, theta = GroupRule(scale=scale, silent=silent), 20_000, 1.3
    training = replace(BASE, optimizer=Momentum(1.0), kl_weight=0.0, group_rule=rule, steps=2)
    history = train(two_armed(0.5), training, replicates=replicates, seed=5, start=theta)
    change = np.asarray(history.logits[:, 1, 0, 1]) - theta
    exact = group_signal(theta, 4, rule)
    assert abs(change.mean() - float(exact.mean)) < 4 * change.std() / math.sqrt(replicates)
    squares = (change - change.mean()) ** 2
    assert abs(squares.mean() - float(exact.variance) / 3) < 4 * squares.std() / math.sqrt(replicates)


def test_many_arms_and_prompts_drift_as_the_exact_gradient():
    bandit = softmax_table([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]], [[0.0, 0.5, 1.0, -1.0], [1.0, 0.0, 0.0, 1.0]])
    training = replace(BASE, optimizer=Momentum(0.5), steps=2, kl_weight=0.3)
    start = np.linspace(-0.5, 0.5, 8)
    sampled = np.asarray(train(bandit, training, replicates=20_000, seed=4, start=start).logits[:, 1])
    exact = np.asarray(train(bandit, replace(training, gradient="exact"), start=start).logits[0, 1])
    error = sampled.std(axis=0) / math.sqrt(20_000)
    assert np.abs((sampled.mean(axis=0) - exact) / error).max() < 4


def test_seed_decides_everything():
    first, again, other = (train(two_armed(0.5), BASE, replicates=2, seed=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(first.logits, again.logits)
    assert not np.array_equal(first.reward, other.reward)
    assert not np.array_equal(first.logits[0], first.logits[1])


@pytest.mark.parametrize("group_size", [2, 8])
def test_stationary_spread_is_the_exact_one(group_size):
    seen = spread(group_size, replicates=300, seed=7, times=20)
    assert seen["relative_standard_error"] < 0.012
    assert abs(seen["exact_relative_error"]) < 0.04
    assert seen["leading_relative_error"] < -0.25  # the test would tell the leading law from the exact one
    assert_close(seen["mean_reward"], seen["fixed_point"], 0.002)


@pytest.mark.parametrize("index", [0, 1])
def test_ringing_and_instability_come_where_the_stiffness_says(index):
    case = CASES[index]
    place = located(case, [response(case, interval, 60, 1) for interval in case.sweep])
    assert abs(place / case.expected - 1) < 0.05
    moved = [response(replace(case, expected=case.expected + 1), interval, 60, 1) for interval in case.sweep]
    assert abs(located(case, moved) / case.expected - 1) > 0.04  # another learning rate, another place


def test_ratios_and_the_old_policy_differ_as_their_stale_fractions_do():
    """One block, mu = 0: (b^K - phi)/(1 - phi) with b = 1 - a (1 - phi), or 1 - a K at phi = 1."""
    for case, interval in ((CASES[0], 10), (CASES[6], 10)):
        mean = response(case, interval, 100, 2).mean(axis=0)
        a, phi = case.learning_rate() * curvature(*case.bandit), float(case.rule(interval).stale_fraction)
        expected = 1 - a * interval if phi == 1 else ((1 - a * (1 - phi)) ** interval - phi) / (1 - phi)
        assert_close(mean[1], expected, 0.02, scale=1.0)
    assert fixed_point(*CASES[6].bandit) < 0.5 < fixed_point(*CASES[0].bandit)
