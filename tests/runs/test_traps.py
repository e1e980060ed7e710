"""Each trap is named where it is planted, and not where it is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sde_grpo.errors import NothingToFitError
from sde_grpo.runs import Configuration, read_run, read_runs
from sde_grpo.runs.grid import grid_of
from sde_grpo.runs.readers import read_log
from tests.runs.writing import rows, write_csv, write_jsonl, write_state


def sentences(path: Path, phrase: str) -> list[str]:
    return [sentence for sentence in read_runs(path)[0].warnings if phrase in sentence]


def noisy(count: int = 200, seed: int = 0, sd: float = 0.06) -> np.ndarray:
    """A rise with independent noise that lies on no grid."""
    rise = 0.8 - 0.5 * np.exp(-np.arange(count) / 30)
    return np.clip(rise + np.random.default_rng(seed).normal(0, sd, count), 0, 1)


def table_of(reward: np.ndarray, **names: str) -> list[dict[str, Any]]:
    column = names.get("column", "reward")
    return [{"step": step, column: float(value)} for step, value in enumerate(reward, start=1)]


def averaged(reward: np.ndarray, weight: float) -> np.ndarray:
    """Exponential smoothing from the first value on."""
    smooth = [reward[0]]
    for value in reward[1:]:
        smooth.append(weight * smooth[-1] + (1 - weight) * value)
    return np.array(smooth)


@pytest.mark.parametrize("seed", range(10))
def test_raw_noise_is_not_taken_for_smoothed(tmp_path, seed):
    (run,) = read_runs(write_csv(tmp_path / "log.csv", table_of(noisy(seed=seed))))
    assert run.refusals == ()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("smooth", [lambda y: averaged(y, 0.8), lambda y: averaged(y, 0.95), lambda y: moving(y, 5)])
def test_smoothed_curves_are_refused_unless_forced(tmp_path, seed, smooth):
    path = write_csv(tmp_path / "log.csv", table_of(smooth(noisy(seed=seed))))
    with pytest.raises(NothingToFitError, match=r"look smoothed: .*destroys the noise.*a fit needs --anyway"):
        read_run(path)
    assert len(read_run(path, anyway=True).reward) > 190


def moving(reward: np.ndarray, width: int) -> np.ndarray:
    return np.convolve(reward, np.ones(width) / width, "valid")


def test_smoothing_survives_rounding(tmp_path):
    path = write_csv(tmp_path / "log.csv", table_of(np.round(averaged(noisy(), 0.9), 4)))
    assert read_runs(path)[0].refusals


@pytest.mark.parametrize(
    "column", ["reward_smoothed", "reward_ema", "ema_reward", "rolling_mean_reward", "running_avg"]
)
def test_columns_named_as_smoothed_are_refused(tmp_path, column):
    path = write_csv(tmp_path / "log.csv", table_of(noisy(), column=column))
    with pytest.raises(NothingToFitError, match="is named as smoothed"):
        read_run(path, reward_column=column)


def test_a_curve_on_the_grid_of_its_batch_is_raw_however_smooth(tmp_path):
    """A large batch has little noise beside its drift, but it has that of its 8192 coin flips."""
    drift = 0.5 + 0.4 * np.sin(np.arange(200) / 3)
    sampled = np.random.default_rng(0).binomial(8192, drift) / 8192
    assert read_runs(write_csv(tmp_path / "log.csv", table_of(sampled)))[0].refusals == ()


def test_a_window_over_values_on_a_grid_is_smoothed(tmp_path):
    reward = np.random.default_rng(0).binomial(64, 0.8 - 0.5 * np.exp(-np.arange(200) / 30)) / 64
    assert grid_of(moving(reward, 9)) == 576
    assert read_runs(write_csv(tmp_path / "log.csv", table_of(moving(reward, 9))))[0].refusals


def test_grid():
    draw = np.random.default_rng(0)
    assert grid_of(draw.binomial(64, 0.6, 50) / 64) == 64
    assert grid_of(np.float32(draw.binomial(384, 0.6, 50) / 384).astype(float)) == 384
    assert grid_of(draw.random(50)) is None
    assert grid_of(np.round(draw.random(50), 3)) is None  # printed with three decimals
    assert grid_of(np.array([0.0, 1.0] * 20)) is None
    assert grid_of(2 * draw.binomial(64, 0.6, 50) / 64) is None
    assert grid_of(np.array([0.5] * 9 + [0.0] * 30)) is None


def test_heavy_tails_of_batches_and_of_single_rewards(tmp_path):
    reward = noisy()
    path = write_csv(tmp_path / "log.csv", table_of(reward))
    assert not sentences(path, "heavy tails")
    reward[[50, 120]] = [0.0, 0.05]
    path = write_csv(tmp_path / "log.csv", table_of(reward))
    (sentence,) = sentences(path, "heavy tails")
    assert "of 200 rewards are outliers, which lie more than 6 standard deviations from their neighbours" in sentence
    extremes = [row | {"critic/score/max": 1.0, "critic/score/min": 0.0} for row in rows()]
    assert not sentences(write_csv(tmp_path / "log.csv", extremes), "heavy tails")
    extremes[7]["critic/score/max"] = 9.5
    assert sentences(write_csv(tmp_path / "log.csv", extremes), "Single rewards reach from 0 to 9.5")


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ({"dynamic_filtering_pass_rate": 0.4}, "dynamic_filtering_pass_rate"),
        ({"training/filter_groups/evicted_samples": 12}, "evicted_samples"),
        ({"batch/filtered_prompts": 3, "scores": 0.5}, "filtered_prompts"),
    ],
)
def test_filtered_rewards(tmp_path, cells, why):
    (sentence,) = sentences(write_jsonl(tmp_path / "log", rows(**cells)), "Prompts are filtered")
    assert why in sentence
    assert "no success rate" in sentence


def test_filtering_by_the_name_or_the_configuration(tmp_path):
    scores = [{"step": row["step"], "scores": row["reward"]} for row in rows()]
    assert sentences(write_jsonl(tmp_path / "a.jsonl", scores), "scores is of the prompts that are left")
    unfiltered = rows(30, **{"filtered_reward": 0.4})  # NeMo-RL's reward is taken before the filter
    assert not sentences(write_jsonl(tmp_path / "b.jsonl", unfiltered), "Prompts are filtered")
    config = {"actor_rollout_ref": {"rollout": {"n": 8}}, "algorithm": {"filter_groups": {"enable": True}}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    verl = [{"step": row["step"], "critic/score/mean": row["reward"]} for row in rows()]
    assert sentences(write_jsonl(tmp_path / "c.jsonl", verl), "algorithm.filter_groups.enable")


def test_thinned_history(tmp_path):
    table = [{"_step": 7 * k + 3, "_timestamp": k, "train/reward": y} for k, y in enumerate(noisy(500))]
    assert sentences(write_jsonl(tmp_path / "log", table), "W&B's sampled history")
    for k, row in enumerate(table):
        row["_step"] = k
    assert not sentences(write_jsonl(tmp_path / "log", table), "W&B's sampled history")


def test_rows_that_may_be_averages(tmp_path):
    table = [row | {"step": 5 * row["step"]} for row in rows()]
    path = write_csv(tmp_path / "log.csv", table)
    (sentence,) = sentences(path, "does not say whether a value averages")
    assert "rows_averaged = 5" in sentence
    run = read_run(path, options=Configuration(rows_averaged=5))
    assert any("middle of its window" in warning for warning in run.warnings)
    np.testing.assert_array_equal(run.times, run.steps - 2)


def test_exactly_the_rows_of_a_sampled_history(tmp_path):
    table = [{"step": 7 * k + 3, "reward": y} for k, y in enumerate(noisy(500))]
    assert sentences(write_csv(tmp_path / "log.csv", table), "W&B's sampled history, a thinned log")
    assert not sentences(write_csv(tmp_path / "log.csv", table[1:]), "W&B's sampled history")


def test_a_log_that_begins_late(tmp_path):
    table = [row | {"step": row["step"] + 1000} for row in rows()]
    assert sentences(
        write_csv(tmp_path / "log.csv", table), "The log begins at step 1001: what came before is not in it"
    )
    assert not sentences(
        write_csv(tmp_path / "log.csv", [row | {"step": 10 * row["step"]} for row in rows()]), "begins"
    )


@pytest.mark.parametrize("length", [119, 120])
def test_rows_filled_at_an_even_interval(tmp_path, length):
    table = table_of(np.repeat(noisy(60), 2)[:length])
    assert sentences(write_csv(tmp_path / "log.csv", table), "forward-filled")
    assert not sentences(write_csv(tmp_path / "log.csv", table_of(noisy(length))), "forward-filled")


def test_a_step_logged_twice_unchanged_is_no_micro_batch(tmp_path):
    twice = [row for row in rows() for _ in range(2)]
    assert sentences(
        write_csv(tmp_path / "log.csv", twice), "60 rows were reduced to 30: some steps were logged more than"
    )
    twice[1] = twice[1] | {"reward": 0.9}
    assert sentences(write_csv(tmp_path / "log.csv", twice), "60 rows were averaged to 30: consecutive rows")


def test_epochs(tmp_path):
    table = [row | {"epoch": row["step"] / 10} for row in rows()]
    assert sentences(write_state(tmp_path / "log", table), "passed more than once (epoch reaches 3)")
    assert not sentences(write_state(tmp_path / "log", table[:10]), "passed more than once")


def test_a_schedule_in_the_configuration_alone(tmp_path):
    config = {"num_generations": 8, "learning_rate": 1e-6, "lr_scheduler_type": "SchedulerType.COSINE"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    run = read_run(write_state(tmp_path / "trainer_state.json", rows()))
    assert run.configuration.learning_rate is None
    assert any("follows a schedule (SchedulerType.COSINE" in sentence for sentence in run.warnings)


def test_scale(tmp_path):
    table = [row | {"reward": 4 * row["reward"] - 1} for row in rows()]
    (sentence,) = sentences(write_csv(tmp_path / "log.csv", table), "not on the scale [0, 1]")
    assert "--reward-range" in sentence
    assert not sentences(write_csv(tmp_path / "log.csv", rows()), "not on the scale")


def spreads(kind: str) -> list[dict[str, Any]]:
    """TRL rows with `reward_std` in its old or its new meaning, for 8 groups of 8."""
    draw = np.random.default_rng(0)
    table = []
    for step, p in enumerate(np.linspace(0.2, 0.8, 40), start=1):
        groups = draw.random((8, 8)) < np.clip(draw.normal(p, 0.2, (8, 1)), 0, 1)
        within, whole = groups.std(axis=1, ddof=1).mean(), groups.std(ddof=1)
        spread = {"within": within, "whole": whole, "neither": 2.0}[kind]
        table.append({"step": step, "reward": groups.mean(), "reward_std": spread, "rewards/f/mean": groups.mean()})
    return table


@pytest.mark.parametrize(
    ("kind", "phrase", "kept"),
    [("within", "mean spread within groups", True), ("whole", "spread of the whole batch", False)],
)
@pytest.mark.parametrize("own", [True, False])
def test_reward_std_in_both_meanings(tmp_path, kind, phrase, kept, own):
    table = spreads(kind)
    for row, whole in zip(table, spreads("whole"), strict=True):
        row |= {"rewards/f/std": whole["reward_std"]} if own else {}
    path = write_state(tmp_path / "log", table)
    assert len(sentences(path, phrase)) == 1
    assert ("within_group_std" in read_run(path).series) is kept


@pytest.mark.parametrize(
    ("config", "names", "phrase"),
    [
        ({"versions": {"trl": "1.16.0"}}, ("rewards/a/mean", "rewards/b/mean"), "spread of the whole batch"),
        ({"trl_version": "0.26.2"}, ("rewards/a/mean", "rewards/b/mean"), "for the version is 0.26.2"),
        ({"scale_rewards": "batch"}, ("rewards/a/mean", "rewards/b/mean"), "spread of the whole batch"),
        ({}, ("rewards/a", "rewards/b"), "of TRL 0.16 or older"),
        ({}, ("rewards/a/mean", "rewards/b/mean"), "the log does not tell"),
        ({}, ("rewards/a/mean", "global_step/max_steps"), "for the log is of ms-swift"),
    ],
)
def test_reward_std_by_version_and_keys(tmp_path, config, names, phrase):
    (tmp_path / "config.json").write_text(json.dumps({"num_generations": 8, **config}))
    table = [row | {"reward_std": 0.3} | dict.fromkeys(names, row["reward"] / 2) for row in rows()]
    path = write_state(tmp_path / "trainer_state.json", table)
    assert len(sentences(path, phrase)) == 1
    assert ("within_group_std" in read_run(path).series) is ("read as" in sentences(path, "reward_std")[0])


def test_a_graded_reward_is_no_proof_of_the_spread_within_groups(tmp_path):
    """Its batch spread is smaller than that of 0/1 rewards of the same mean, too."""
    table = [row | {"reward_std": 0.1} for row in table_of(noisy())]
    assert sentences(write_state(tmp_path / "log", table), "the log does not tell")


def weighted(weights: tuple[float, float], logged: tuple[float, float]) -> list[dict[str, Any]]:
    draw = np.random.default_rng(1).random((30, 2))
    return [
        {"step": k, "reward": float(row @ logged), "rewards/a/mean": row[0], "rewards/b/mean": row[1]}
        for k, row in enumerate(draw, start=1)
    ]


@pytest.mark.parametrize(
    ("config", "logged", "phrase"),
    [
        ({"reward_weights": [1.0, 0.2]}, (1, 1), "although their weights are [1.0, 0.2]"),
        ({"reward_weights": [1.0, 0.2]}, (1, 0.2), None),
        ({"reward_weights": [1.0, 1.0]}, (1, 1), None),
        ({"versions": {"trl": "0.28.0"}}, (1, 1), "without reward_weights"),
        ({"versions": {"trl": "1.0.0"}}, (1, 1), None),
        ({}, (1, 1), "without reward_weights"),
    ],
)
def test_reward_without_its_weights(tmp_path, config, logged, phrase):
    (tmp_path / "config.json").write_text(json.dumps({"num_generations": 8, **config}))
    path = write_state(tmp_path / "trainer_state.json", weighted((1.0, 0.2), logged))
    found = sentences(path, "plain sum")
    assert bool(found) is (phrase is not None)
    assert phrase is None or phrase in found[0]


def test_zero_share_that_is_a_flag(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"num_generations": 8, "scale_rewards": "batch"}))
    path = write_state(
        tmp_path / "trainer_state.json", rows(30, **{"frac_reward_zero_std": 0.0, "rewards/f/mean": 0.5})
    )
    assert sentences(path, "flag of the whole batch here")
    assert "zero_variance_share" not in read_run(path).series
    (tmp_path / "config.json").unlink()
    assert "zero_variance_share" in read_run(path).series


def test_batches_without_any_reward(tmp_path):
    table = rows(30, **{"frac_reward_zero_std": 0.25, "reward_std": 0.3})
    table[4] |= {"reward": None, "frac_reward_zero_std": 0.0}
    assert sentences(write_state(tmp_path / "log", table), "In 1 row no completion had a reward")


def test_a_name_cannot_reach_the_terminal(tmp_path):
    nasty = "reward\x1b[31m[bold]\u202e"
    path = write_csv(tmp_path / "log.csv", [{"step": row["step"], nasty: row["reward"]} for row in rows()])
    shown = list(read_log(path).table.names)[1]
    run = read_run(path, reward_column=shown)
    for text in (run.reward_column, *run.warnings, *run.provenance.values()):
        assert text.isprintable()


def test_lag_by_the_log_or_the_configuration(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", rows(30, **{"off_policy/mean": 1.5}))
    (sentence,) = sentences(path, "sampled by an older policy")
    assert "reports 1.5 on average" in sentence
    assert "lag" in read_run(path).series
    assert not any("older policy" in w for w in read_run(path, options=Configuration(lag_schedule="constant")).warnings)
    (tmp_path / "args.json").write_text(json.dumps({"num_generations": 8, "async_generate": True}))
    assert sentences(write_jsonl(tmp_path / "b.jsonl", rows()), "async_generate True by args.json")
    (tmp_path / "args.json").write_text(json.dumps({"num_generations": 8, "async_generate": False}))
    assert not sentences(tmp_path / "b.jsonl", "older policy")
