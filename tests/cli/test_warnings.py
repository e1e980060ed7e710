"""What the command line reads although something is odd, and says so."""

from __future__ import annotations

import numpy as np

from sde_grpo.cli.options import LagSchedule, MomentumKind, load_run
from tests.runs.writing import curve, rows, write_csv, write_jsonl


def _load(path, config=None, select=None, **options):
    columns = {"reward_column": None, "step_column": None, "select": select}
    return load_run(path, options, columns, config)


def test_several_reward_columns(tmp_path):
    table = [
        {"step": row["step"], "critic/score/mean": 0.5, "critic/rewards/mean": row["reward"], "reward_mean": 0.1}
        for row in rows()
    ]
    run = _load(write_jsonl(tmp_path / "log.jsonl", table))
    assert run.reward_column == "critic/rewards/mean"
    np.testing.assert_array_equal(run.reward, curve())
    (warning,) = run.warnings
    assert "The reward is read from critic/rewards/mean" in warning
    assert "critic/score/mean, reward_mean could also be meant (--reward-column)" in warning


def test_rewards_that_are_no_numbers_are_counted(tmp_path):
    table = rows(33)
    for place, cell in ((2, "NaN"), (9, "inf"), (20, "-inf")):
        table[place]["reward"] = cell
    run = _load(write_csv(tmp_path / "log.csv", table))
    assert len(run.reward) == 30
    assert np.isfinite(run.reward).all()
    (warning,) = run.warnings
    assert warning.startswith("3 of 33 rows were dropped")
    assert "column reward" in warning


def test_a_step_logged_twice(tmp_path):
    table = [{"step": step, "reward": reward} for step, reward in zip(np.arange(60) // 2, curve(60), strict=True)]
    run = _load(write_csv(tmp_path / "log.csv", table))
    np.testing.assert_array_equal(run.steps, np.arange(30))
    np.testing.assert_allclose(run.reward, curve(60).reshape(30, 2).mean(axis=1))
    assert any(warning.startswith("60 rows were averaged to 30") for warning in run.warnings)


def test_steps_that_go_back(tmp_path):
    again = [{"step": step, "reward": 0.5 + step / 100} for step in range(21, 41)]
    run = _load(write_csv(tmp_path / "log.csv", rows(30) + again))
    np.testing.assert_array_equal(run.steps, np.arange(1, 41))
    (warning,) = run.warnings
    assert "The steps go back from 30 to 21" in warning
    assert "10 earlier rows" in warning


def test_an_option_against_the_log(tmp_path):
    run = _load(write_csv(tmp_path / "log.csv", rows(group_size=8)), group_size=4)
    assert run.configuration.group_size == 4
    assert run.provenance["group_size"] == "--group-size"
    (warning,) = run.warnings
    assert "group_size is 4 by --group-size, but 8 by log" in warning


def test_log_file_and_options_in_turn(tmp_path):
    config = tmp_path / "run.toml"
    config.write_text("[run]\nlearning_rate = 0.02\nmomentum = 0.5\n")
    run = _load(
        write_csv(tmp_path / "log.csv", rows(group_size=8)),
        config,
        momentum=0.9,
        momentum_kind=MomentumKind.ema,
        lag_schedule=LagSchedule.constant,
        reward_range=(0.0, 2.0),
        kl_weight=None,
    )
    known = run.configuration
    assert (known.group_size, known.learning_rate, known.momentum) == (8, 0.02, 0.9)
    assert (known.momentum_kind, known.lag_schedule, known.reward_range) == ("ema", "constant", (0.0, 2.0))
    assert run.provenance["learning_rate"] == "run.toml"
    assert run.provenance["momentum"] == "--momentum"
    assert known.kl_weight is None
    assert all(type(value) is not MomentumKind for value in known.known().values())


def test_select(tmp_path):
    table = [*rows(seed=1), *[row | {"reward": row["reward"] / 2} for row in rows(seed=2)]]
    path = write_csv(tmp_path / "log.csv", table)
    np.testing.assert_array_equal(_load(path, select=["seed=2"]).reward, curve() / 2)
    np.testing.assert_array_equal(_load(path, select=["seed=1"]).reward, curve())
