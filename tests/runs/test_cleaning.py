from __future__ import annotations

import numpy as np
import pytest

from sde_grpo.errors import InputError, NothingToFitError
from sde_grpo.runs import Configuration, read_run, run_from_arrays
from tests.runs.writing import curve, rows, write_csv, write_jsonl


def test_missing_rewards_are_dropped_and_counted(tmp_path):
    table = rows(34)
    for k, cell in enumerate([None, "nan", "inf", "null"]):
        table[3 * k]["reward"] = cell
    run = read_run(write_csv(tmp_path / "log.csv", table))
    assert len(run.reward) == 30
    assert run.steps[0] == 2
    (warning,) = run.warnings
    assert warning.startswith("4 of 34 rows were dropped: the reward is missing, not a number or infinite")


def test_rows_without_a_step_are_dropped(tmp_path):
    table = rows()
    table[4]["step"] = None
    run = read_run(write_csv(tmp_path / "log.csv", table))
    assert len(run.reward) == 29
    assert any(warning.startswith("1 rows without a step") for warning in run.warnings)


def test_a_restart_replaces_what_was_lost(tmp_path):
    before = [row | {"entropy": 1.0} for row in rows(30)]
    after = [{"step": step, "reward": 0.5 + step / 100, "entropy": 2.0} for step in range(21, 41)]
    run = read_run(write_jsonl(tmp_path / "log", before + after))
    np.testing.assert_array_equal(run.steps, np.arange(1, 41))
    np.testing.assert_array_equal(run.reward[:20], curve(30)[:20])
    np.testing.assert_allclose(run.reward[20:], 0.5 + np.arange(21, 41) / 100)
    assert run.series["entropy"].values.tolist() == [1.0] * 20 + [2.0] * 20
    (warning,) = run.warnings
    assert "go back from 30 to 21" in warning
    assert "10 earlier rows" in warning


def test_rows_after_the_restart_that_were_never_reached_again_are_dropped(tmp_path):
    run = read_run(write_jsonl(tmp_path / "log", rows(40) + rows(25)))
    np.testing.assert_array_equal(run.steps, np.arange(1, 26))
    assert any("40 earlier rows" in warning for warning in run.warnings)


def test_two_restarts():
    steps = [*range(1, 31), *range(20, 36), *range(25, 41)]
    reward = np.concatenate([np.full(30, 0.1), np.full(16, 0.2), np.full(16, 0.3)])
    run = run_from_arrays(steps, reward)
    np.testing.assert_array_equal(run.steps, np.arange(1, 41))
    assert run.reward.tolist() == [0.1] * 19 + [0.2] * 5 + [0.3] * 16
    assert any("2 times in all" in warning for warning in run.warnings)


def test_micro_batches_are_averaged():
    run = run_from_arrays(np.repeat(np.arange(25), 2), np.column_stack([curve(25), curve(25) + 0.5]).ravel())
    np.testing.assert_allclose(run.reward, curve(25) + 0.25)
    (warning,) = [warning for warning in run.warnings if "averaged" in warning]
    assert warning.startswith("50 rows were averaged to 25")


def test_rows_in_another_order_are_sorted():
    run = run_from_arrays(np.arange(30)[::-1], curve()[::-1])
    np.testing.assert_array_equal(run.reward, curve())
    (warning,) = run.warnings
    assert warning.startswith("The step goes back 29 times, but no step is logged twice: the rows were out of order")


def test_rows_in_a_regular_other_order_are_sorted():
    order = np.array([(7 * k) % 60 for k in range(60)])
    run = run_from_arrays(order, curve(60)[order])
    np.testing.assert_array_equal(run.reward, curve(60))
    assert any("were sorted" in sentence for sentence in run.warnings)


def test_a_late_row_is_no_restart():
    steps = np.arange(30)
    steps[[10, 11]] = steps[[11, 10]]
    run = run_from_arrays(steps, curve())
    assert (len(run.reward), run.restarts) == (30, 0)
    assert any("out of order" in warning for warning in run.warnings)


def test_rows_in_no_order_are_refused():
    steps = np.concatenate([np.arange(15)[::-1], np.arange(15)[::-1]])
    with pytest.raises(InputError, match=r"step goes back 28 times in 30 rows.*Sort the rows by step"):
        run_from_arrays(steps, curve())


def test_too_few_points():
    with pytest.raises(NothingToFitError, match=r"19 reward points, but at least 20 are needed.*echo its prior"):
        run_from_arrays(range(19), curve(19))
    assert len(run_from_arrays(range(20), curve(20)).reward) == 20


@pytest.mark.parametrize(("value", "zero"), [(0.25, False), (0.0, True)])
def test_constant_and_almost_constant(value, zero):
    reward = np.full(40, value)
    with pytest.raises(NothingToFitError, match=f"reward is {value:g} on all 40 steps") as caught:
        run_from_arrays(range(40), reward)
    assert ("no gradient" in str(caught.value)) is zero
    reward[7] = reward[20] = 0.5
    with pytest.raises(NothingToFitError, match=f"reward is {value:g} on all but 2 of 40 steps"):
        run_from_arrays(range(40), reward)
    reward[30] = 0.75
    assert len(run_from_arrays(range(40), reward).reward) == 40


def test_rewards_without_bounds():
    with pytest.raises(InputError, match=r"the column reward reaches 1e\+300, which is no reward"):
        run_from_arrays(range(30), 1e300 * np.linspace(0, 1, 30))
    tiny = run_from_arrays(range(60), 1e-300 * curve(60))
    assert tiny.refusals == ()


def test_no_finite_reward(tmp_path):
    with pytest.raises(NothingToFitError, match="holds no finite reward"):
        run_from_arrays(range(30), np.full(30, np.nan))


@pytest.mark.parametrize(("bound", "warned"), [(0.25, True), (1.0, False)])
def test_forward_filled_rows(bound, warned):
    reward = np.repeat(curve(10), 3)
    flat = run_from_arrays(range(30), reward if warned else np.concatenate([curve(10), np.full(20, bound)]))
    assert any("forward-filled" in warning for warning in flat.warnings) is warned


def test_arrays_are_checked():
    with pytest.raises(InputError, match=r"steps have shape \(3,\) and rewards \(2,\)"):
        run_from_arrays([1, 2, 3], [0.1, 0.2])
    with pytest.raises(InputError, match="some steps are NaN or infinite"):
        run_from_arrays([1, np.nan], [0.1, 0.2])
    with pytest.raises(NothingToFitError, match="no finite reward"):
        run_from_arrays([], [])


def test_arrays_cannot_be_changed():
    run = run_from_arrays(range(30), curve())
    with pytest.raises(ValueError, match="read-only"):
        run.reward[0] = 2


def test_truncated(tmp_path):
    path = write_jsonl(tmp_path / "log", [row | {"kl": 0.1} for row in rows()])
    short = read_run(path).truncated(22)
    assert len(short.steps) == len(short.times) == len(short.reward) == len(short.series["kl"].values) == 22
    with pytest.raises(NothingToFitError, match="log up to step 10: 10 reward points"):
        read_run(path).truncated(10)


def test_binary():
    known = Configuration(group_size=8, prompts_per_step=8)
    assert run_from_arrays(range(30), curve(), configuration=known).binary
    assert not run_from_arrays(range(30), curve()).binary
    assert not run_from_arrays(range(30), curve() + 1e-4, configuration=known).binary
    assert not run_from_arrays(range(30), 2 * curve(), configuration=known).binary
    finer = known.merged(Configuration(rows_averaged=4))
    assert run_from_arrays(range(30), curve() - 1 / 256, configuration=finer).binary
