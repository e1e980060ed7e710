from __future__ import annotations

import numpy as np
import pytest

from sde_grpo.errors import InputError
from sde_grpo.runs import read_run
from sde_grpo.runs.roles import REWARD_COLUMNS, STEP_COLUMNS
from tests.runs.writing import curve, rows, write_csv, write_jsonl


@pytest.mark.parametrize("column", REWARD_COLUMNS)
def test_every_reward_column(tmp_path, column):
    table = [{"step": row["step"], column: row["reward"]} for row in rows()]
    assert read_run(write_csv(tmp_path / "log.csv", table)).reward_column == column


@pytest.mark.parametrize("column", STEP_COLUMNS)
def test_every_step_column(tmp_path, column):
    table = [{column: row["step"] + 4, "reward": row["reward"]} for row in rows()]
    run = read_run(write_csv(tmp_path / "log.csv", table))
    np.testing.assert_array_equal(run.steps, np.arange(5, 35))
    assert run.warnings == ()


def test_step_over_last_step(tmp_path):
    table = [{"global_step/max_steps": f"{10 * row['step']}/300", "reward": row["reward"]} for row in rows()]
    assert read_run(write_jsonl(tmp_path / "log", table)).steps[-1] == 300


def test_several_reward_columns(tmp_path):
    table = [row | {"mean_reward": 0.5, "scores": 0.1} for row in rows()]
    (warning,) = read_run(write_csv(tmp_path / "log.csv", table)).warnings
    assert warning == "The reward is read from reward; mean_reward, scores could also be meant (--reward-column)."
    same = [row | {"mean_reward": row["reward"]} for row in rows()]
    assert read_run(write_csv(tmp_path / "log.csv", same)).warnings == ()


def test_an_empty_candidate_is_passed_over(tmp_path):
    table = [{"step": row["step"], "reward": None, "scores": row["reward"]} for row in rows()]
    assert read_run(write_csv(tmp_path / "log.csv", table)).reward_column == "scores"


def test_given_columns_win(tmp_path):
    table = [row | {"mine": row["reward"] / 2, "tick": 3 * row["step"]} for row in rows()]
    run = read_run(write_csv(tmp_path / "log.csv", table), reward_column="mine", step_column="tick")
    np.testing.assert_array_equal(run.reward, curve() / 2)
    assert run.steps[0] == 3


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ([{"step": 1, "accuracy": 1, "loss": 2, "note": "x"}], {}, r"look like one are accuracy\. .*--reward-column"),
        ([{"step": 1, "loss": 2, "note": "x"}], {}, r"the numeric columns are step, loss\."),
        ([{"step": 1, "reward": 2}], {"reward_column": "r"}, "no column 'r' .*columns are step, reward"),
        ([{"step": 1, "reward": 2}], {"step_column": "s"}, "no column 's' .*--step-column.*columns are step, reward"),
        ([{"step": 1, "mine": None}], {"reward_column": "mine"}, "column 'mine' holds no value"),
    ],
)
def test_columns_that_are_not_there(tmp_path, table, options, message):
    with pytest.raises(InputError, match=message):
        read_run(write_csv(tmp_path / "log.csv", table), **options)


@pytest.mark.parametrize("cell", ["abc", "1_000", "0,5", "1/2"])
def test_a_reward_that_is_no_number(tmp_path, cell):
    table = rows()
    table[4]["reward"] = cell
    with pytest.raises(InputError, match=f"line 6: the cell in column reward is '{cell}'.*Correct it"):
        read_run(write_csv(tmp_path / "log.csv", table, ";"))


def test_a_step_that_is_no_number(tmp_path):
    table = rows()
    table[4]["step"] = "last"
    with pytest.raises(InputError, match=r"line 5: the cell in column step is 'last', not a number.*--step-column"):
        read_run(write_jsonl(tmp_path / "log", table))


def test_booleans_are_no_rewards(tmp_path):
    table = rows()
    table[0]["reward"] = True
    with pytest.raises(InputError, match="line 1: the cell in column reward is 'True'"):
        read_run(write_jsonl(tmp_path / "log", table))
