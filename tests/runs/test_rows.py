from __future__ import annotations

import numpy as np
import pytest

from sde_grpo.errors import InputError
from sde_grpo.runs import read_run
from tests.runs.writing import curve, rows, write_csv, write_jsonl, write_state


@pytest.mark.parametrize("column", ["type", "kind", "split", "phase"])
def test_rollout_rows_are_preferred_and_eval_rows_become_a_series(tmp_path, column):
    table = []
    for row in rows():
        table.append({column: "rollout", "step": row["step"], "reward": row["reward"]})
        table.append({column: "train", "step": row["step"], "reward": 0.0, "entropy": 1.0, "grad_norm": 2.0})
        table.append({column: "train", "step": row["step"], "reward": 0.0, "entropy": 2.0})
        table.append({column: "summary", "step": "done"})
    table.append({column: "eval", "step": 30, "reward": 0.9, "learning_rate": 7.0})
    run = read_run(write_jsonl(tmp_path / "log", table))
    np.testing.assert_array_equal(run.reward, curve())
    assert run.series["eval_reward"].values.tolist() == [0.9]
    np.testing.assert_array_equal(run.series["entropy"].values, np.full(30, 1.5))
    assert run.configuration.learning_rate is None
    (warning,) = run.warnings
    assert warning.startswith("1 evaluation row lies among the training rows: kept apart, as the held-out series")


@pytest.mark.parametrize("column", ["mode", "stage", "split"])
def test_held_out_rows_under_other_names(tmp_path, column):
    table = [part for row in rows() for part in (row | {column: "train"}, row | {column: "dev", "reward": 0.4})]
    run = read_run(write_csv(tmp_path / "log.csv", table))
    np.testing.assert_array_equal(run.reward, curve())
    assert set(run.series["eval_reward"].values) == {0.4}


def test_train_rows_without_rollout_rows(tmp_path):
    table = [{"split": kind, **row} for row in rows() for kind in ("eval", "train")]
    assert len(read_run(write_csv(tmp_path / "log.csv", table)).reward) == 30


def test_a_given_column_chooses_the_kind(tmp_path):
    table = [{"type": "rollout", "step": row["step"], "reward": 0.1 * (row["step"] % 7)} for row in rows()]
    table += [{"type": "train", "step": row["step"], "train_reward": row["reward"]} for row in rows()]
    run = read_run(write_jsonl(tmp_path / "log", table), reward_column="train_reward")
    np.testing.assert_array_equal(run.reward, curve())


def test_only_held_out_rows(tmp_path):
    run = read_run(write_jsonl(tmp_path / "log", rows(type="eval")))
    assert any("held-out curve" in warning for warning in run.warnings)
    assert "eval_reward" not in run.series


@pytest.mark.parametrize("write", [write_state, write_csv])
def test_eval_rows_of_the_hugging_face_trainer(tmp_path, write):
    table = [row | {"eval_reward": None} for row in rows()]
    table.insert(10, {"step": 10, "eval_reward": 0.25})
    table.append({"step": 30, "eval_reward": 0.5, "epoch": 1.0})
    table.append({"step": 30, "train_runtime": 9.0})
    if write is write_csv:
        table.pop()
    run = read_run(write(tmp_path / "log", table))
    np.testing.assert_array_equal(run.reward, curve())
    assert run.series["eval_reward"].steps.tolist() == [10, 30]
    assert run.series["eval_reward"].values.tolist() == [0.25, 0.5]
    (warning,) = run.warnings
    assert warning.startswith("2 evaluation rows lie among the training rows")


def stacked(**columns: tuple) -> list[dict]:
    count = len(next(iter(columns.values())))
    return [{name: values[k] for name, values in columns.items()} | row for k in range(count) for row in rows(25)]


def test_stacked_runs_are_refused_with_an_example(tmp_path):
    path = write_csv(tmp_path / "log.csv", stacked(group_size=(4, 4, 8), seed=(42, 1, 42)))
    with pytest.raises(InputError, match=r"stacks 3 runs, told apart by group_size, seed .*--select group_size=4 --s"):
        read_run(path)
    with pytest.raises(InputError, match=r"stacks 2 runs, told apart by seed .*--select seed=42"):
        read_run(path, select={"group_size": "4"})
    run = read_run(path, select={"group_size": "4.0", "seed": "1"})
    assert (len(run.reward), run.configuration.group_size) == (25, 4)
    assert run.provenance["group_size"] == "log (group_size column)"


def test_columns_that_say_nothing_new_are_not_asked_for(tmp_path):
    path = write_csv(tmp_path / "log.csv", stacked(label=("slow run", "fast"), learning_rate=(1e-5, 1e-4)))
    with pytest.raises(InputError, match=r"told apart by label .*--select 'label=slow run'"):
        read_run(path)
    assert read_run(path, select={"label": "fast"}).configuration.learning_rate == 1e-4


def test_a_learning_rate_alone_tells_runs_apart(tmp_path):
    path = write_csv(tmp_path / "log.csv", stacked(learning_rate=(1e-5, 1e-4)))
    with pytest.raises(InputError, match="stacks 2 runs, told apart by learning_rate"):
        read_run(path)
    assert len(read_run(path, select={"learning_rate": "0.0001"}).reward) == 25


def test_runs_that_alternate_are_stacked_too(tmp_path):
    table = [row | {"seed": seed} for row in rows() for seed in (1, 2)]
    with pytest.raises(InputError, match="stacks 2 runs, told apart by seed"):
        read_run(write_csv(tmp_path / "log.csv", table))


def test_stacked_runs_without_steps(tmp_path):
    table = [{"seed": seed, "reward": row["reward"]} for seed in (1, 2) for row in rows()]
    with pytest.raises(InputError, match="stacks 2 runs"):
        read_run(write_csv(tmp_path / "log.csv", table))


def test_a_scheduled_rate_and_a_restart_are_no_stack(tmp_path):
    table = [row | {"learning_rate": 1e-5 * (31 - row["step"])} for row in rows()]
    run = read_run(write_csv(tmp_path / "log.csv", table + table[20:]))
    assert any("restarted run" in warning for warning in run.warnings)


def test_selections_that_fit_nothing(tmp_path):
    path = write_csv(tmp_path / "log.csv", stacked(seed=(1, 2)))
    with pytest.raises(InputError, match=r"no row has seed=3 .*values found are 1, 2"):
        read_run(path, select={"seed": "3"})
    with pytest.raises(InputError, match=r"no column 'sed' .*columns are seed, step, reward"):
        read_run(path, select={"sed": "1"})
