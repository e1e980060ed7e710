"""Bad input to the testbed: each value outside its range says so."""

from __future__ import annotations

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sde_grpo.bandit.testbed import Adam, Bandit, Momentum, Training, softmax_table, train, two_armed
from sde_grpo.errors import InputError
from sde_grpo.groups import GroupRule

BASE = Training(optimizer=Momentum(0.1), group_size=4, prompts_per_step=3, steps=3)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"group_size": 1}, "group_size is 1; it must be a whole number of at least 2"),
        ({"prompts_per_step": 0}, "prompts_per_step is 0; it must be a whole number of at least 1"),
        ({"steps": 0}, "steps is 0; it must be a whole number of at least 1"),
        ({"kl_weight": -1.0}, r"kl_weight is -1\.0; it must be finite and not negative"),
        ({"kl_weight": math.nan}, "kl_weight is nan; it must be finite and not negative"),
        ({"refresh_interval": 0}, "refresh_interval is 0; it must be a whole number of at least 1"),
        (
            {"refresh_interval": -1, "lag_schedule": "constant"},
            "refresh_interval is -1; it must be a whole number of at least 0",
        ),
        ({"clip_low": 0.0}, r"clip_low is 0\.0; it must be positive"),
        ({"clip_high": math.nan}, "clip_high is nan; it must be positive"),
    ],
)
def test_training_errors(changed, message):
    with pytest.raises(InputError, match=message):
        replace(BASE, **changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"lag_schedule": "never"}, r"(?s)'never'.*'periodic'.*'constant'"),
        ({"surrogate": "stale"}, r"(?s)'stale'.*'importance_ratio'.*'old_policy'"),
        ({"gradient": "none"}, r"(?s)'none'.*'sampled'.*'exact'"),
        ({"optimizer": 0.1}, r"(?s)optimizer.*0\.1.*Momentum"),
    ],
)
def test_choices_outside_the_list(changed, message):
    with pytest.raises((InputError, TypeError), match=message):  # TypeError: under the jaxtyping hook
        replace(BASE, **changed)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Momentum(0.0), r"learning_rate is 0\.0; it must be positive and finite"),
        (lambda: Momentum(math.inf), "learning_rate is inf; it must be positive and finite"),
        (lambda: Momentum(0.1, 1.0), r"momentum is 1\.0; it must lie in \[0, 1\)"),
        (lambda: Adam(-0.1), r"learning_rate is -0\.1; it must be positive and finite"),
        (lambda: Adam(0.1, beta1=1.0), r"beta1 is 1\.0; it must lie in \[0, 1\)"),
        (lambda: Adam(0.1, beta2=-0.5), r"beta2 is -0\.5; it must lie in \[0, 1\)"),
        (lambda: Adam(0.1, epsilon=0.0), r"epsilon is 0\.0; it must be positive and finite"),
        (lambda: two_armed(1.0), r"p_ref is 1\.0; each value must lie strictly between 0 and 1"),
        (lambda: two_armed([0.5, math.nan]), "p_ref is .*; each value must lie strictly between 0 and 1"),
        (lambda: two_armed([]), "p_ref is .*; each value must lie"),
        (lambda: softmax_table([0.5, 0.6], [0.0, 1.0]), "each row must be positive and sum to 1"),
        (lambda: softmax_table([1.0, 0.0], [0.0, 1.0]), "each row must be positive and sum to 1"),
        (lambda: softmax_table([0.5, 0.5], [0.0, 1.0, 2.0]), r"rewards has shape \(3,\); allowed are \(1, 2\) and"),
        (lambda: softmax_table([0.5, 0.5], [0.0, math.inf]), "rewards holds a value that is not finite"),
        (lambda: softmax_table([1.0], [0.0]), r"reference_logits has shape \(1, 1\); .* at least two arms"),
    ],
)
def test_constructor_errors(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_an_unknown_kind_of_momentum():
    with pytest.raises((InputError, TypeError), match=r"(?s)'nesterov'"):
        Momentum(0.1, 0.5, "nesterov")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("rewards", "features", "message"),
    [
        ((1, 3), (1, 2, 1), r"(?s)rewards.*\(1, 3\)|1,3"),
        ((1, 2), (1, 3, 1), r"(?s)features.*\(1, 3, 1\)|1,3,1"),
        ((1, 2), (1, 2, 0), r"features has shape \(1, 2, 0\)"),
    ],
)
def test_bandit_shapes(rewards, features, message):
    with pytest.raises((InputError, TypeError), match=message):
        Bandit(jnp.zeros((1, 2)), jnp.zeros(rewards), jnp.zeros(features))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"replicates": 0}, "replicates is 0; it must be a whole number of at least 1"),
        ({"record_every": 0}, "record_every is 0; it must be a whole number of at least 1"),
        ({"start": math.nan}, "start is nan; it must be finite"),
        ({"start": np.zeros(2)}, r"start has shape \(2,\); allowed are \(\), \(1,\), \(1, 1\)"),
    ],
)
def test_train_errors(changed, message):
    with pytest.raises(InputError, match=message):
        train(two_armed(0.5), BASE, **changed)


def test_a_table_that_is_too_long():
    bandit = softmax_table(np.full(10, 0.1), np.arange(10.0))
    with pytest.raises(InputError, match=r"1 prompts with groups of 16 on 10 arms make 2042975 cases; at most 100000"):
        train(bandit, replace(BASE, group_size=16))


def test_dropping_every_group():
    with pytest.raises(InputError, match="every group is silent and silent='drop' would leave none"):
        train(softmax_table([0.5, 0.5], [1.0, 1.0]), replace(BASE, group_rule=GroupRule(silent="drop")))


def test_single_precision_is_refused():
    with jax.enable_x64(False), pytest.raises(InputError, match="float64"):
        train(two_armed(0.5), BASE)
