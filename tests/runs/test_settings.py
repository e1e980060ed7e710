from __future__ import annotations

import numpy as np
import pytest

from sde_grpo.errors import InputError
from sde_grpo.runs import Configuration, read_run, run_from_arrays
from tests.runs.writing import curve, rows, write_csv, write_jsonl, write_state


@pytest.mark.parametrize("column", ["group_size", "num_generations", "rollout_n", "group_size_mean"])
def test_group_size_from_the_log(tmp_path, column):
    run = read_run(write_csv(tmp_path / "log.csv", [row | {column: 8.0} for row in rows()]))
    assert run.configuration.group_size == 8
    assert run.provenance["group_size"] == f"log ({column} column)"


@pytest.mark.parametrize("column", ["learning_rate", "optim/lr", "lr", "actor_lr", "actor/lr"])
def test_learning_rate_from_the_log(tmp_path, column):
    run = read_run(write_csv(tmp_path / "log.csv", [row | {column: 1e-5} for row in rows()]))
    assert run.configuration.learning_rate == 1e-5
    assert run.provenance["learning_rate"] == f"log ({column} column)"


def test_prompts_from_the_log(tmp_path):
    assert read_run(write_jsonl(tmp_path / "log", rows(num_questions=32))).configuration.prompts_per_step == 32


def test_a_learning_rate_that_decays_is_left_out_and_warned_of(tmp_path):
    path = write_csv(tmp_path / "log.csv", [row | {"lr": 1e-3 / row["step"]} for row in rows()])
    run = read_run(path)
    assert run.configuration.learning_rate is None
    (warning,) = run.warnings
    assert "varies over the log (lr: from 0.001 to 3.33333e-05" in warning
    assert "a plateau may be the schedule's" in warning
    assert read_run(path, options=Configuration(learning_rate=1e-3)).configuration.learning_rate == 1e-3


def test_a_group_size_that_varies_is_left_out(tmp_path):
    table = [row | {"group_size_mean": 7 + row["step"] % 2} for row in rows()]
    run = read_run(write_csv(tmp_path / "log.csv", table))
    assert run.configuration.group_size is None
    assert any("group_size_mean varies over the rows (7 to 8)" in warning for warning in run.warnings)


def test_the_command_line_wins_over_the_file_over_the_log(tmp_path):
    sidecar = tmp_path / "run.toml"
    sidecar.write_text("group_size = 4\nprompts_per_step = 2\nmomentum = 0.5")
    path = write_csv(tmp_path / "log.csv", rows(group_size=8, lr=1e-5))
    run = read_run(path, config_file=sidecar, options=Configuration(prompts_per_step=3))
    assert run.configuration == Configuration(
        group_size=4, prompts_per_step=3, momentum=0.5, learning_rate=1e-5, reward_range=(0, 1)
    )
    assert run.provenance == {
        "group_size": "run.toml",
        "prompts_per_step": "--prompts-per-step",
        "momentum": "run.toml",
        "learning_rate": "log (lr column)",
        "reward_range": "assumed: all rewards lie in [0, 1]",
    }
    assert run.warnings == (
        "group_size is 4 by run.toml, but 8 by log (group_size column); 4 is used.",
        "prompts_per_step is 3 by --prompts-per-step, but 2 by run.toml; 3 is used.",
    )


def test_step_units(tmp_path):
    assert read_run(write_state(tmp_path / "s", rows())).configuration.step_unit == "optimizer"
    grpo = [{"grpo_step": row["step"], "reward": row["reward"]} for row in rows()]
    assert read_run(write_csv(tmp_path / "g", grpo)).configuration.step_unit == "rollout"
    verl = [row | {"training/global_step": row["step"]} for row in rows()]
    assert read_run(write_csv(tmp_path / "v", verl)).configuration.step_unit == "rollout"
    assert read_run(write_csv(tmp_path / "p", rows())).configuration.step_unit is None


def test_an_unknown_unit_matters_when_the_policy_lags(tmp_path):
    path = write_csv(tmp_path / "log.csv", rows())
    (warning,) = read_run(path, options=Configuration(refresh_interval=4)).warnings
    assert "steps are taken as optimizer updates" in warning
    assert "step_unit" in warning
    assert read_run(path, options=Configuration(refresh_interval=1)).warnings == ()
    assert read_run(path, options=Configuration(refresh_interval=4, step_unit="rollout")).warnings == ()


def test_steps_that_are_whole_rollout_batches_are_named(tmp_path):
    (tmp_path / "config.json").write_text('{"group_size": 8, "refresh_interval": 4}')
    path = write_csv(tmp_path / "log.csv", [{"grpo_step": row["step"], "reward": row["reward"]} for row in rows()])
    (warning,) = read_run(path).warnings
    assert "a rollout batch, on which the optimizer takes 4 steps" in warning


def every(step: int) -> list[dict]:
    return [row | {"step": step * row["step"]} for row in rows()]


def test_a_window_of_logging_steps(tmp_path):
    path = write_state(tmp_path / "s", every(10), logging_steps=10)
    run = read_run(path)
    assert run.configuration.rows_averaged == 10
    assert run.provenance["rows_averaged"] == "log (logging_steps)"
    np.testing.assert_array_equal(run.times, run.steps - 4.5)
    lagged = read_run(path, options=Configuration(refresh_interval=4))
    assert lagged.configuration.rows_averaged == 2.5
    assert "--refresh-interval" in lagged.provenance["rows_averaged"]
    assert read_run(path, options=Configuration(refresh_interval=20)).configuration.rows_averaged == 1
    alone = read_run(path, options=Configuration(rows_averaged=1))
    np.testing.assert_array_equal(alone.times, alone.steps)


def test_logging_every_step_averages_nothing(tmp_path):
    run = read_run(write_state(tmp_path / "s", every(4), logging_steps=1))
    assert run.configuration.rows_averaged is None
    np.testing.assert_array_equal(run.times, run.steps)


def test_a_first_step_and_a_missing_reward_do_not_shift_the_windows(tmp_path):
    table = every(10)
    table[5]["reward"] = None
    del table[9]["reward"]
    table.insert(0, {"step": 1, "reward": 0.25})
    run = read_run(write_state(tmp_path / "s", table, logging_steps=10))
    assert run.times[:3].tolist() == [1.0, 6.0, 15.5]
    np.testing.assert_array_equal(run.times[2:], run.steps[2:] - 4.5)


def test_rows_averaged_without_a_stated_window():
    run = run_from_arrays(5 * np.arange(1, 31), curve(), configuration=Configuration(rows_averaged=5))
    np.testing.assert_array_equal(run.times, run.steps - 2)
    assert run.provenance["rows_averaged"] == "argument"


def test_a_given_range_is_kept_and_checked(tmp_path):
    path = write_csv(tmp_path / "log.csv", [row | {"reward": 3 * row["reward"]} for row in rows()])
    assert read_run(path).configuration.reward_range is None
    run = read_run(path, options=Configuration(reward_range=(0, 3)))
    assert run.provenance["reward_range"] == "--reward-range"
    with pytest.raises(InputError, match=r"reward at step 3 is 1.\d+, outside the given reward range \[0, 1\]"):
        read_run(path, options=Configuration(reward_range=(0, 1)))


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        ("rewards/f/mean", "optimizer"),
        ("train/frac_reward_zero_std", "optimizer"),
        ("env/all/turns_per_episode", "rollout"),
        ("env/steps", None),
        ("baseline_reward/pct_0", "rollout"),
        ("train_speed(s/it)", "optimizer"),
        ("batch/solve_none", "rollout"),
        ("env/all/reward/total", "rollout"),
        ("critic/score/max", "rollout"),
        ("batch/filtered_prompts", "rollout"),
    ],
)
def test_a_trainer_is_known_by_its_columns(tmp_path, column, unit):
    table = [row | {column: row["reward"]} for row in rows()]
    assert read_run(write_csv(tmp_path / "log.csv", table)).configuration.step_unit == unit
