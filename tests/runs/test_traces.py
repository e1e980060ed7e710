"""The real traces, where they are present: each is read to what its description states, and its traps are named."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from sde_grpo.errors import NothingToFitError
from sde_grpo.runs import read_run, read_runs
from sde_grpo.runs.inspection import Inspection, inspect_folder, same_curves
from tests.runs.writing import write_csv

TRACES = Path(__file__).parents[3] / "shared" / "traces"
TINY = TRACES / "trl-tiny"
CS336 = {"group_size": 8, "prompts_per_step": 32, "step_unit": "rollout", "reward_range": (0, 1), "kl_weight": 0.0}
FAST, SLOW = {"learning_rate": 4e-5}, {"learning_rate": 1e-5}
VERL = {"group_size": 8, "learning_rate": 5e-6, "step_unit": "rollout"}
CONSOLE = {"step_unit": "optimizer", "learning_rate": None}
EVENTS = {"group_size": 2, "prompts_per_step": 1, "kl_weight": 0.03, "refresh_interval": 1, "momentum": 0.9}
EVALUATIONS, SCHEDULE, SCALE, TAILS = "evaluation rows", "learning rate varies", "not on the scale", "heavy tails"
COUNTED, WINDOW, PASSES = "have no step", "middle of its window", "passed more than once"

# file, points, first and last step, reward column, least and greatest reward, settings, words of the warnings
ONE_RUN = [
    (
        "cs336-refresh1/on_policy_e1_tb256.metrics.jsonl",
        200,
        1,
        200,
        "reward",
        0.0156,
        0.902,
        CS336 | FAST | {"refresh_interval": 1},
        [EVALUATIONS],
    ),
    (
        "cs336-refresh4-e2tb128/focused_e2_tb128.metrics.jsonl",
        200,
        1,
        200,
        "reward",
        0.0156,
        0.898,
        CS336 | FAST | {"refresh_interval": 4},
        [EVALUATIONS],
    ),
    (
        "cs336-refresh4-e4tb256/focused_e4_tb256.metrics.jsonl",
        200,
        1,
        200,
        "reward",
        0.0156,
        0.887,
        CS336 | FAST | {"refresh_interval": 4},
        [EVALUATIONS],
    ),
    (
        "cs336-refresh16-collapse/broad_e16_tb256.metrics.jsonl",
        40,
        1,
        40,
        "reward",
        0,
        0.0781,
        CS336 | FAST | {"refresh_interval": 16},
        [EVALUATIONS],
    ),
    (
        "cs336-lr1e-5/grpo_on_policy_lr1e-5.metrics.jsonl",
        200,
        1,
        200,
        "reward",
        0.0156,
        0.727,
        CS336 | SLOW | {"refresh_interval": 1},
        [EVALUATIONS],
    ),
    (
        "rho-g2-console/gate2_rho3.00_seed42.log",
        200,
        1,
        200,
        "reward",
        0,
        1,
        CONSOLE,
        [COUNTED, SCHEDULE, "mean spread within groups"],
    ),
    (
        "rho-g3-console/w6_G3_rho3.00_seed42.log",
        100,
        1,
        100,
        "reward",
        0,
        0.333,
        CONSOLE | {"group_size": 3},
        [COUNTED, SCHEDULE],
    ),
    # Its description counts the 40 rows; they are the means of five optimizer steps each, up to step 200.
    (
        "trl-console-7b-collapse/rho0.30_seed43.log",
        40,
        5,
        200,
        "reward",
        0,
        1,
        CONSOLE | {"rows_averaged": 5},
        [COUNTED, SCHEDULE, WINDOW, "spread of the whole batch"],
    ),
    (
        "verl-babyai-dapo/training_metrics_dapo.csv",
        2000,
        1,
        2000,
        "critic_rewards_mean",
        0.187,
        0.965,
        VERL,
        [TAILS, PASSES],
    ),
    (
        "verl-babyai-resumed/training_metrics_grpo_base.csv",
        1450,
        1001,
        2450,
        "critic_rewards_mean",
        0.413,
        1.01,
        VERL | {"reward_range": None},
        [TAILS, SCALE],
    ),
    (
        "verl-babyai-replay/training_metrics_replay_grpo.csv",
        1031,
        1,
        1031,
        "critic_rewards_mean",
        -0.171,
        0.94,
        VERL | {"reward_range": None},
        [TAILS, SCALE],
    ),
    (
        "verl-textcraft-val/training_metrics_main-clip-gp4.csv",
        1530,
        1,
        1530,
        "critic_rewards_mean",
        0.281,
        1,
        VERL | {"prompts_per_step": 16},
        [],
    ),
    (
        "trl-wordle/trainer_state.json",
        400,
        1,
        400,
        "reward",
        -1.39,
        1.42,
        {"learning_rate": None, "reward_range": None, "rows_averaged": None},
        [SCHEDULE, SCALE, PASSES],
    ),
    (
        "trl-verilog-8b/trainer_state.json",
        300,
        2,
        600,
        "reward",
        0.721,
        8.75,
        {"learning_rate": None, "reward_range": None, "rows_averaged": 2},
        [SCHEDULE, SCALE, WINDOW, "mean spread within groups"],
    ),
    (
        "tinker-cookbook/arithmetic_metrics.jsonl",
        100,
        0,
        99,
        "env/all/reward/total",
        0.676,
        1,
        {"learning_rate": 1e-4},
        [],
    ),
    (
        "tinker-restarts-1b/metrics.jsonl",
        45,
        0,
        44,
        "reward/mean",
        0.208,
        0.744,
        SLOW,
        ["go back from 5 to 0: a restarted run was appended. Its rows were kept, and 7 earlier rows"],
    ),
    (
        "fair-forward-filled/step_logs.json",
        990,
        11,
        1000,
        "reward_mean",
        0.402,
        0.492,
        {"learning_rate": None},
        [SCHEDULE, "forward-filled"],
    ),
]
# file, runs, points of each, first and last step, reward column, settings that all of them share
MANY_RUNS = [
    ("tinker-gsize-sweep/groupsize_zvf_sweep.csv", 12, {40}, 0, 39, "mean_reward", {"prompts_per_step": 16}),
    (
        "tinker-gsize-qwen8b/campaign_v2_20260419_111623.json",
        15,
        {30},
        1,
        30,
        "reward_trace",
        SLOW | {"prompts_per_step": 2},
    ),
    ("tinker-prompts-per-step/wave6_ablations.json", 12, {30}, 1, 30, "reward", SLOW | {"group_size": 8}),
    ("flat-null-runs/pt11c_per_seed_metrics.jsonl", 8, {25}, 4, 100, "reward_curve", {}),
    ("cs336-lr-sweep-eval/grpo_learning_rate_eval_points.csv", 9, {11, 41}, 0, 200, "reward", {"step_unit": "rollout"}),
    # One row a run, 142 of them; one is incomplete, and stands there again in full.
    ("rollout-count-summary/batch32_metrics.csv", 141, {1}, 1, 2, "final_train_accuracy", {}),
    ("tinker-gsize-sweep/groupsize_zvf_sweep_runs.json", 12, {1}, 1, 1, "heldout_acc", {"prompts_per_step": 16}),
]


def present(name: str) -> Path:
    path = TRACES / name
    if not path.exists():
        pytest.skip(f"the real trace {name} is not in shared/traces beside the repository")
    return path


@pytest.mark.parametrize(
    ("name", "points", "first", "last", "column", "low", "high", "known", "words"), ONE_RUN, ids=lambda x: str(x)[:30]
)
def test_real_trace(name, points, first, last, column, low, high, known, words):
    run = read_run(present(name))
    assert (len(run.reward), run.steps[0], run.steps[-1], run.reward_column) == (points, first, last, column)
    assert abs(run.reward.min() - low) < 0.006
    assert abs(run.reward.max() - high) < 0.006
    assert {key: getattr(run.configuration, key) for key in known} == known
    assert set(run.provenance) == set(run.configuration.known())
    assert np.isfinite(run.reward).all()
    assert (np.diff(run.steps) > 0).all()
    for phrase in words:
        assert any(phrase in sentence for sentence in run.warnings), (phrase, run.warnings)


@pytest.mark.parametrize(
    ("name", "runs", "points", "first", "last", "column", "known"), MANY_RUNS, ids=lambda x: str(x)[:30]
)
def test_real_file_of_many_runs(name, runs, points, first, last, column, known):
    found = read_runs(present(name))
    assert len(found) == len({run.label for run in found}) == runs
    assert {len(run.reward) for run in found} == points
    assert {run.reward_column for run in found} == {column}
    assert (min(run.steps[0] for run in found), max(run.steps[-1] for run in found)) == (first, last)
    for run in found:
        assert {key: getattr(run.configuration, key) for key in known} == known
        assert bool(run.refusals) is (len(run.reward) < 20)


def test_settings_of_each_run_of_a_file():
    sizes = [run.configuration.group_size for run in read_runs(present("tinker-gsize-sweep/groupsize_zvf_sweep.csv"))]
    assert sizes == [2] * 3 + [4] * 3 + [8] * 3 + [16] * 3
    runs = read_runs(present("tinker-prompts-per-step/wave6_ablations.json"))
    prompts = {run.key["run"]: run.configuration.prompts_per_step for run in runs}
    assert [prompts[f"w6_batch{p}_r32_t0.8"] for p in (1, 4, 8)] == [1, 4, 8]
    assert prompts["w6_base_r32_t0.8_b2"] == 2
    summary = read_runs(present("rollout-count-summary/batch32_metrics.csv"))
    assert {run.configuration.group_size for run in summary} == {4, 8, 16, 32, 64}
    assert sum("1 of 2 rows were dropped" in sentence for run in summary for sentence in run.warnings) == 1


def test_event_file_with_its_configuration():
    (run,) = read_runs(present("trl-tensorboard/events.out.tfevents.1766301063.stage2"))
    assert (len(run.reward), run.steps[0], run.steps[-1], run.reward_column) == (17, 1, 17, "train/reward")
    assert {key: getattr(run.configuration, key) for key in EVENTS} == EVENTS
    assert "args/text_summary" in run.provenance["momentum"]
    assert any(SCHEDULE in sentence for sentence in run.warnings)
    assert any("17 reward points" in sentence for sentence in run.refusals)


def test_zero_variance_failure():
    with pytest.raises(NothingToFitError, match=r"reward is 0 on all but 2 of 49 steps.*zero variance"):
        read_run(present("verl-alfworld-zero/training_metrics_grpo.csv"))


def test_held_out_series_of_real_runs():
    assert len(read_run(present(ONE_RUN[0][0])).series["eval_reward"].steps) == 41
    textcraft = read_run(present("verl-textcraft-val/training_metrics_main-clip-gp4.csv"))
    assert textcraft.series["eval_reward"].steps.tolist() == [500, 1000, 1500, 1530]
    evaluated = read_run(present("trl-tiny/f-eval/trainer_state.json")).series["eval_reward"]
    assert evaluated.steps.tolist() == [0, *range(10, 151, 10)]


def test_window_midpoints_of_a_real_run():
    run = read_run(present("trl-verilog-8b/trainer_state.json"))
    np.testing.assert_array_equal(run.times, run.steps - 0.5)


def tiny_table() -> list[list[str]]:
    """The rows of the table of runs that lies beside the tiny runs, for those that are there."""
    if not TINY.exists():
        return []
    cells = [
        [cell.strip(" `") for cell in line.strip("|").split("|")]
        for line in (TINY / "README.md").read_text(encoding="utf-8").splitlines()
        if re.match(r"\| `[a-z]-", line)
    ]
    return [row for row in cells if (TINY / row[0]).is_dir()]


TRAPS = {
    "f-console": [SCHEDULE],
    "f-eval": ["16 evaluation rows"],
    "f-eval-log4": ["20 evaluation rows", WINDOW],
    "f-log10": [SCHEDULE, WINDOW],
    "f-log3-K4": [WINDOW],
    "f-none-2prompts": ["28 of 200 rows were dropped", "no completion had a reward"],
    "f-normalize-then-sum": ["flag of the whole batch", SCALE],
    "f-scale-batch": ["flag of the whole batch"],
    "f-two-rewards": [SCALE],
}


@pytest.mark.parametrize("row", tiny_table(), ids=lambda row: row[0])
def test_tiny_run(row):
    name, _, group, prompts, refresh, rate, _, points, first, last, most, *_ = row
    path = TINY / name / "trainer_state.json"
    (run,) = read_runs(path)
    known = run.configuration
    assert len(run.reward) == int(points.split()[0])
    assert (known.group_size, known.prompts_per_step, known.refresh_interval) == (
        int(group),
        int(prompts),
        int(refresh),
    )
    scheduled = any(SCHEDULE in sentence for sentence in run.warnings)
    assert known.learning_rate == (None if scheduled else float(rate))
    assert scheduled is (name in ("f-console", "f-log10"))
    tenth = max(1, round(len(run.reward) / 10))
    assert abs(run.reward[:tenth].mean() - float(first)) < 0.002
    assert abs(run.reward[-tenth:].mean() - float(last)) < 0.002
    assert abs(run.reward.max() - float(most)) < 0.001
    assert known.momentum_kind == ("heavy_ball" if "sgd" in name else "ema")
    stated = re.search(r"(?:mu|beta1-)(\d\.\d+)", name)
    assert known.momentum == (float(stated[1]) if stated else 0.9)
    kl = re.match(r"e-beta([\d.]+)", name)
    assert known.kl_weight == (float(kl[1]) if kl else 0.0)
    for phrase in TRAPS.get(name, []):
        assert any(phrase in sentence for sentence in run.warnings), (phrase, run.warnings)
    assert bool(run.refusals) is (len(run.reward) < 20)
    assert ("zero_variance_share" in run.series) is (name not in ("f-scale-batch", "f-normalize-then-sum"))


@pytest.mark.parametrize("name", ["f-console", "f-resume"])
def test_console_and_state_agree(name):
    """Four printed digits: the rewards agree to half of the last one."""
    state, printed = (read_run(present(f"trl-tiny/{name}/{file}")) for file in ("trainer_state.json", "console.log"))
    np.testing.assert_array_equal(printed.steps, state.steps)
    assert np.abs(printed.reward - state.reward).max() < 5.1e-5
    assert printed.restarts == (name == "f-resume")


@pytest.mark.parametrize("name", ["a-G8-s1", "b-K4-s1", "f-log10", "f-log3-K4", "f-eval-log4", "f-none-2prompts"])
def test_events_and_state_agree(name):
    folder = present(f"trl-tiny/{name}")
    events = list(folder.glob("*tfevents*"))
    if not events or not (folder / "trainer_state.json").exists():
        pytest.skip(f"{name} is not complete")
    (state,), (told,) = read_runs(folder / "trainer_state.json"), read_runs(events[0])
    np.testing.assert_array_equal(told.steps, state.steps)
    np.testing.assert_array_equal(told.times, state.times)
    assert np.abs(told.reward - state.reward).max() < 1e-6
    assert told.configuration.refresh_interval == state.configuration.refresh_interval
    assert "args/text_summary" in told.provenance["group_size"]


def test_a_resumed_run_in_two_event_files():
    state = read_run(present("trl-tiny/f-resume/trainer_state.json"))
    events = read_run(present("trl-tiny/f-resume/runs"))
    np.testing.assert_array_equal(events.steps, state.steps)
    assert np.abs(events.reward - state.reward).max() < 1e-6
    assert any("go back from 85 to 61" in sentence for sentence in events.warnings)


def test_every_run_below_the_folder_is_found_once():
    found = inspect_folder(present("trl-tiny"))
    assert all(isinstance(one, Inspection) for one in found)
    paths = [one.path for one in found]
    assert len(paths) == len(set(paths)) == sum((folder / "trainer_state.json").exists() for folder in TINY.iterdir())
    named = [(one.path.parent.name, run) for one in found if isinstance(one, Inspection) for run in one.runs]
    assert same_curves(named) == [("f-none-two-domains", "p-P4-s1")]


@pytest.mark.parametrize(("weight", "missed"), [(0.6, 1), (0.9, 0), (0.97, 0)])
def test_every_long_trace_is_refused_once_it_is_smoothed(tmp_path, weight, missed):
    """Exponential smoothing as the dashboards do it; the traces themselves are not refused (`test_real_trace`)."""
    passed = []
    for name, points, *_ in ONE_RUN:
        if points < 100 or "forward-filled" in name:
            continue
        run = read_run(present(name))
        smooth, total, bias = [], 0.0, 1.0
        for reward in run.reward:
            total, bias = weight * total + (1 - weight) * reward, bias * weight
            smooth.append(total / (1 - bias))
        table = [{"step": step, "reward": reward} for step, reward in zip(run.steps, smooth, strict=True)]
        (again,) = read_runs(write_csv(tmp_path / "log.csv", table))
        if not any("look smoothed" in sentence for sentence in again.refusals):
            passed.append(name)
    assert len(passed) <= missed, passed


def test_group_statistics_from_the_completions_beside_the_log():
    (run,) = read_runs(present("trl-tiny/f-completions/trainer_state.json"))
    spread = run.series["within_group_std"]
    np.testing.assert_array_equal(spread.steps, run.steps)
    assert (spread.values > 0.05).all()
    assert (spread.values < 0.5).all()
    (alone,) = read_runs(present("trl-tiny/f-completions/completions"))
    assert (alone.configuration.group_size, alone.configuration.prompts_per_step) == (8, 16)
    assert alone.configuration.rows_averaged is None  # the file holds the last batch alone
