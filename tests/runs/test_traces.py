"""The real traces, where they are present."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sde_grpo.errors import NothingToFitError
from sde_grpo.runs import read_run

TRACES = Path(__file__).parents[3] / "shared" / "traces"
CS336 = {"group_size": 8, "prompts_per_step": 32, "step_unit": "rollout", "reward_range": (0, 1)}
CS336_SLOW = CS336 | {"learning_rate": 1e-5}
TRL = {"step_unit": "optimizer", "rows_averaged": None}

# file, selection, points, first step, last step, reward column, settings, words of a warning
TABLE = [
    ("cs336-refresh1/on_policy_e1_tb256.metrics.jsonl", {}, 200, 1, 200, "reward", CS336 | {"learning_rate": 4e-5}, ""),
    ("cs336-refresh4-e2tb128/focused_e2_tb128.metrics.jsonl", {}, 200, 1, 200, "reward", CS336, ""),
    ("cs336-refresh4-e4tb256/focused_e4_tb256.metrics.jsonl", {}, 200, 1, 200, "reward", CS336, ""),
    (
        "cs336-lr1e-5/grpo_on_policy_lr1e-5.metrics.jsonl",
        {},
        200,
        1,
        200,
        "reward",
        CS336_SLOW,
        "",
    ),
    (
        "tinker-gsize-sweep/groupsize_zvf_sweep.csv",
        {"group_size": "4", "seed": "42"},
        40,
        0,
        39,
        "mean_reward",
        {"group_size": 4},
        "",
    ),
    (
        "verl-babyai-dapo/training_metrics_dapo.csv",
        {},
        2000,
        1,
        2000,
        "critic_rewards_mean",
        {"group_size": 8, "learning_rate": 5e-6, "step_unit": "rollout"},
        "critic_score_mean",
    ),
    (
        "trl-verilog-8b/trainer_state.json",
        {},
        300,
        2,
        600,
        "reward",
        {"rows_averaged": 2, "learning_rate": None, "reward_range": None},
        "schedule",
    ),
    ("trl-wordle/trainer_state.json", {}, 400, 1, 400, "reward", TRL | {"learning_rate": None}, "schedule"),
    ("trl-tiny/a-G8-s1/trainer_state.json", {}, 200, 1, 200, "reward", TRL | {"learning_rate": 5e-4}, ""),
    ("trl-tiny/b-K4-s1/trainer_state.json", {}, 80, 1, 317, "reward", TRL | {"learning_rate": 1e-3}, ""),
    ("trl-tiny/d-sgd-lr0.01-mu0.9-s1/trainer_state.json", {}, 200, 1, 200, "reward", TRL, ""),
    ("trl-tiny/c-lr0.01-s1/trainer_state.json", {}, 150, 1, 150, "reward", TRL | {"learning_rate": 1e-2}, ""),
    ("tinker-restarts-1b/metrics.jsonl", {}, 45, 0, 44, "reward/mean", {"learning_rate": 1e-5}, "go back from 5 to 0"),
    ("fair-forward-filled/step_logs.json", {}, 990, 11, 1000, "reward_mean", {}, "forward-filled"),
    ("tinker-cookbook/arithmetic_metrics.jsonl", {}, 100, 0, 99, "env/all/reward/total", {"learning_rate": 1e-4}, ""),
]


def present(name: str) -> Path:
    path = TRACES / name
    if not path.exists():
        pytest.skip(f"the real trace {name} is not in shared/traces beside the repository")
    return path


@pytest.mark.parametrize(("name", "select", "points", "first", "last", "column", "known", "warning"), TABLE)
def test_real_trace(name, select, points, first, last, column, known, warning):
    run = read_run(present(name), select=select)
    assert (len(run.reward), run.steps[0], run.steps[-1], run.reward_column) == (points, first, last, column)
    assert {key: getattr(run.configuration, key) for key in known} == known
    assert np.isfinite(run.reward).all()
    assert (np.diff(run.steps) > 0).all()
    assert any(warning in sentence for sentence in run.warnings) or not warning


def test_zero_variance_failure():
    with pytest.raises(NothingToFitError, match=r"reward is 0 on all but 2 of 49 steps.*zero variance"):
        read_run(present("verl-alfworld-zero/training_metrics_grpo.csv"))


def test_held_out_series_and_grid_of_a_real_run():
    run = read_run(present("cs336-refresh1/on_policy_e1_tb256.metrics.jsonl"))
    assert run.binary
    assert len(run.series["eval_reward"].steps) == 41


def test_window_midpoints_of_a_real_run():
    run = read_run(present("trl-verilog-8b/trainer_state.json"))
    np.testing.assert_array_equal(run.times, run.steps - 0.5)
