"""Batches that lose their silent groups, against enumeration of the batch, sampling, and both limits."""

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import binom

from sde_grpo.errors import InputError
from sde_grpo.groups import GroupRule, group_signal, signal_values, silent_share, unreplaced_signal
from tests.tolerance import assert_close

DROP = GroupRule(silent="drop")
P = np.array([0.02, 0.3, 0.5, 0.9])
THETA = logit(P)


def test_moments_are_those_of_all_batches_of_three_groups():
    group_size, groups = 4, 3
    values = signal_values(group_size)
    counts = np.array(list(np.ndindex(*(group_size + 1,) * groups)))
    live = np.sum((counts > 0) & (counts < group_size), axis=1)
    average = values[counts].sum(axis=1) / np.maximum(live, 1)
    signal = unreplaced_signal(THETA, group_size, groups, DROP)
    for i, p in enumerate(P):
        weights = np.prod(binom.pmf(counts, group_size, p), axis=1)
        mean = weights @ average
        assert_close(signal.mean[i], mean, 1e-12)
        assert_close(signal.variance[i], weights @ (average - mean) ** 2, 1e-12)


def test_one_prompt_loses_nothing_but_its_silence():
    kept = group_signal(THETA, 4)
    alone = unreplaced_signal(THETA, 4, 1)
    assert_close(alone.mean, kept.mean, 1e-12)
    assert_close(alone.variance, kept.variance, 1e-12)


def test_many_prompts_drift_as_if_replaced_but_with_more_noise():
    theta, prompts = np.full(4, 1.5), 4096
    refilled = group_signal(theta, 4, DROP)
    lossy = unreplaced_signal(theta, 4, prompts, DROP)
    assert_close(lossy.mean, refilled.mean, 1e-12)
    assert_close(lossy.variance * prompts * (1 - silent_share(theta, 4)), refilled.variance, 1e-3)


def test_fewer_groups_make_more_noise_than_the_refilled_batch():
    """The approximation that ignores the random N is measurably wrong at P = 4, p = 0.9."""
    refilled, lossy = group_signal(THETA, 4, DROP), unreplaced_signal(THETA, 4, 4, DROP)
    assert lossy.variance[3] > 2 * refilled.variance[3] / 4
    assert lossy.mean[3] < 0.99 * refilled.mean[3]


def test_far_tails_stay_finite():
    tails = np.array([-700.0, -300.0, 300.0, 700.0])
    mean, variance = unreplaced_signal(tails, 4, 8, DROP)
    w = expit(tails) * expit(-tails)
    one = signal_values(4)[1]
    assert_close(mean / w, np.full(4, 8 * 4 * one), 1e-12)
    assert_close(variance / w, np.full(4, 8 * 4 * one**2), 1e-12)


def test_kept_groups_and_bad_counts_are_refused():
    with pytest.raises(InputError, match=r"rule.silent is 'keep'; a batch loses groups only with 'drop'"):
        unreplaced_signal(0.0, 4, 8, GroupRule())
    with pytest.raises(InputError, match="prompts_per_step is 0; it must be a whole number of at least 1"):
        unreplaced_signal(0.0, 4, 0)
    with pytest.raises(InputError, match="group_size is 1"):
        unreplaced_signal(0.0, 1, 8)
