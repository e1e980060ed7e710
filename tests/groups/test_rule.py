"""s(k) against GRPO's gradient written out for every reward vector, and the variants of the theory note."""

import jax
import numpy as np
import pytest

from sde_grpo.errors import InputError
from sde_grpo.groups import GroupRule, signal_values
from tests.groups.enumeration import NAMES, RULES, all_rewards, gradients
from tests.tolerance import assert_close


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
@pytest.mark.parametrize("group_size", [2, 3, 7])
def test_signal_is_the_gradient_of_every_reward_vector_at_any_p(rule, group_size):
    rewards = all_rewards(group_size)
    expected = signal_values(group_size, rule)[rewards.sum(axis=1).astype(int)]
    for p in (0.2, 0.9):
        assert_close(gradients(rewards, p, rule), expected, 1e-14, scale=1.0)


def test_score_of_a_completion_is_reward_minus_p():
    """The step from (1/G) sum_i A_i d log pi(a_i)/d theta to the loop above: arms of logits (theta, 0)."""

    def log_policy(theta, arm):
        return jax.nn.log_softmax(jax.numpy.array([theta, 0.0]))[arm]

    theta, p = 0.7, float(jax.nn.sigmoid(0.7))
    scores = [float(jax.grad(log_policy)(theta, arm)) for arm in (0, 1)]
    assert_close(scores, [1 - p, -p], 1e-14)


@pytest.mark.parametrize("group_size", [2, 5, 16])
def test_variants_of_the_note(group_size):
    k, g = np.arange(group_size + 1), group_size
    population = np.sqrt(k / g * (1 - k / g))
    assert_close(signal_values(g), population, 1e-14)
    assert_close(signal_values(g, GroupRule(scale="sample")), population * np.sqrt((g - 1) / g), 1e-14)
    assert_close(signal_values(g, GroupRule(scale="none")), k / g * (1 - k / g), 1e-14)
    leave_one_out = GroupRule(scale="none", baseline="leave_one_out")
    assert_close(signal_values(g, leave_one_out), k * (g - k) / (g * (g - 1)), 1e-14)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
@pytest.mark.parametrize("group_size", [2, 9, 64])
def test_signal_is_symmetric_and_silent_at_both_ends(rule, group_size):
    values = signal_values(group_size, rule)
    assert values.shape == (group_size + 1,)
    assert np.array_equal(values, values[::-1])
    assert values[0] == values[-1] == 0
    assert np.all(values[1:-1] > 0)


def test_rule_is_hashable_and_equal_by_value():
    assert GroupRule(scale="sample") == GroupRule(scale="sample")
    assert len({GroupRule(), GroupRule(scale="sample"), GroupRule(scale="sample")}) == 2


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("scale", "std", "scale is 'std'; allowed are 'population', 'sample', 'none'"),
        ("baseline", "none", "baseline is 'none'; allowed are 'group_mean', 'leave_one_out'"),
        ("silent", True, "silent is True; allowed are 'keep', 'drop'"),
    ],
)
def test_unknown_choices_are_refused(field, value, message):
    with pytest.raises(InputError, match=message):
        GroupRule(**{field: value})


@pytest.mark.parametrize("group_size", [1, 0, 2.5, True, None])
def test_group_size_out_of_range_is_refused(group_size):
    with pytest.raises(InputError, match=f"group_size is {group_size}; it must be a whole number of at least 2"):
        signal_values(group_size)
