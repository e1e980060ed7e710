"""One small log per trainer, written as that trainer writes it: reward, steps, settings and their origin."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sde_grpo.errors import InputError
from sde_grpo.runs import read_run, read_runs
from tests.runs.writing import curve, rows, write_csv, write_jsonl, write_state

GRPO_CONFIG = {
    "num_generations": 8,
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 2,
    "steps_per_generation": 4,
    "generation_batch_size": 128,
    "num_iterations": 2,
    "learning_rate": 1e-6,
    "lr_scheduler_type": "constant",
    "optim": "adamw_torch",
    "adam_beta1": 0.85,
    "beta": 0.04,
    "logging_steps": 1,
}


def steps_and_rewards(**names: str) -> list[dict[str, Any]]:
    return [{names["step"]: row["step"], names["reward"]: row["reward"]} for row in rows()]


def assert_reads(path: Path, column: str, **known: Any) -> None:
    run = read_run(path)
    np.testing.assert_allclose(run.reward, curve(), atol=1e-9)
    np.testing.assert_array_equal(run.steps, np.arange(1, 31))
    assert run.reward_column == column
    assert {name: getattr(run.configuration, name) for name in known} == known
    assert set(run.provenance) == set(run.configuration.known())


def test_trl_with_its_configuration_beside(tmp_path):
    (tmp_path / "args.json").write_text(json.dumps(GRPO_CONFIG))
    path = write_state(tmp_path / "trainer_state.json", rows(learning_rate=1e-6), logging_steps=1)
    assert_reads(
        path,
        "reward",
        group_size=8,
        prompts_per_step=16,
        refresh_interval=4,
        momentum=0.85,
        momentum_kind="ema",
        kl_weight=0.04,
        step_unit="optimizer",
    )
    assert read_run(path).provenance["kl_weight"] == "args.json beside the log (beta)"


def test_trl_in_a_checkpoint_finds_the_configuration_above(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"grpo_config": GRPO_CONFIG}))
    (tmp_path / "checkpoint-30").mkdir()
    (tmp_path / "checkpoint-30" / "config.json").write_text(json.dumps({"model_type": "llama", "hidden_size": 64}))
    path = write_state(tmp_path / "checkpoint-30" / "trainer_state.json", rows())
    assert read_run(path).configuration.group_size == 8


def test_trl_keys_of_older_versions_and_unsloth(tmp_path):
    table = [row | {"completion_length": 50.0, "rewards/f": row["reward"], "kl": 0.1} for row in rows()]
    path = write_state(tmp_path / "trainer_state.json", table, logging_steps=1)
    assert_reads(path, "reward", rows_averaged=None)
    assert read_run(path).series["length"].values[0] == 50


def test_ms_swift(tmp_path):
    table = [
        {
            "reward": row["reward"],
            "frac_reward_zero_std": 0.25,
            "global_step/max_steps": f"{row['step']}/30",
            "memory(GiB)": 9,
        }
        for row in rows()
    ]
    (tmp_path / "args.json").write_text(json.dumps(GRPO_CONFIG | {"async_generate": False}))
    assert_reads(write_jsonl(tmp_path / "logging.jsonl", table), "reward", group_size=8, refresh_interval=4)


def test_ms_swift_closes_its_log_with_all_rows_again(tmp_path):
    table = [{"reward": row["reward"], "global_step/max_steps": f"{row['step']}/30"} for row in rows()]
    last = {"best_metric": None, "global_step": 30, "log_history": rows(), "memory": 9.0}
    assert_reads(write_jsonl(tmp_path / "logging.jsonl", [*table, last]), "reward", step_unit="optimizer")


def test_the_step_of_a_wandb_history_is_the_trainer_s(tmp_path):
    """Its own _step counts the calls of log, of which one may fall between two rows."""
    table = [
        {"_step": 3 * row["step"], "train/global_step": row["step"], "train/reward": row["reward"]} for row in rows()
    ]
    assert_reads(write_jsonl(tmp_path / "history.jsonl", table), "train/reward")
    alone = [{"_step": row["step"], "_timestamp": 1.7e9, "train/reward": row["reward"]} for row in rows()]
    assert_reads(write_jsonl(tmp_path / "alone.jsonl", alone), "train/reward")


VERL = {"critic/score/mean": 0.0, "actor/lr": 1e-6, "training/global_step": 0, "actor/entropy": 0.5}


def verl_rows() -> list[dict[str, Any]]:
    return [
        VERL
        | {
            "critic/rewards/mean": row["reward"],
            "critic/score/mean": row["reward"],
            "training/global_step": row["step"],
        }
        for row in rows()
    ]


def test_verl_file_logger(tmp_path):
    table = [{"step": row["training/global_step"], "data": row} for row in verl_rows()]
    path = write_jsonl(tmp_path / "experiment.jsonl", table)
    assert_reads(path, "critic/rewards/mean", learning_rate=1e-6, step_unit="rollout")
    assert read_run(path).series["entropy"].values[0] == 0.5


def test_verl_console(tmp_path):
    lines = [
        "\x1b[36m(TaskRunner pid=1)\x1b[0m Training from scratch: data.train_batch_size=64 actor.ppo_mini_batch_size=16"
    ]
    for row in verl_rows():
        cells = " - ".join(f"{name}:{value}" for name, value in row.items() if name != "critic/rewards/mean")
        reward = f"critic/rewards/mean:np.float64({row['critic/rewards/mean']})"
        lines += [f"\x1b[36m(TaskRunner pid=1)\x1b[0m step:{row['training/global_step']} - {reward} - {cells}", "noise"]
    (tmp_path / "out.log").write_text("\n".join(lines))
    assert_reads(tmp_path / "out.log", "critic/rewards/mean", learning_rate=1e-6, step_unit="rollout")


@pytest.mark.parametrize("rename", [lambda name: name.replace("/", "_"), lambda name: name.replace("@", "_at_")])
def test_verl_exports(tmp_path, rename):
    table = [
        {rename(name): value for name, value in (row | {"val-core/gsm8k/acc/mean@8": ""}).items()}
        for row in verl_rows()
    ]
    table[9][rename("val-core/gsm8k/acc/mean@8")] = 0.5
    path = write_csv(tmp_path / "export.csv", table)
    assert_reads(path, rename("critic/rewards/mean"), learning_rate=1e-6)
    assert read_run(path).series["eval_reward"].steps.tolist() == [10]


def test_one_row_per_step_and_metric(tmp_path):
    table = [
        {"step": row["step"], "tag": tag, "value": value}
        for row in rows()
        for tag, value in (("train/reward", row["reward"]), ("train/learning_rate", 1e-6), ("train/loss", 0.1))
    ]
    assert_reads(write_csv(tmp_path / "scalars.csv", table), "train/reward", learning_rate=1e-6)


def test_easyr1_with_its_configuration_beside(tmp_path):
    table = [
        {
            "step": row["step"],
            "reward": {"overall": row["reward"]},
            "critic": {"score": {"mean": 0.5}},
            "actor": {"lr": 1e-6},
        }
        for row in rows()
    ]
    config = {
        "data": {"rollout_batch_size": 512},
        "worker": {
            "rollout": {"n": 5},
            "actor": {"global_batch_size": 128, "ppo_epochs": 1, "optim": {"lr": 1e-6, "betas": [0.9, 0.999]}},
        },
        "algorithm": {"kl_coef": 0.01, "disable_kl": False, "online_filtering": True},
    }
    (tmp_path / "experiment_config.json").write_text(json.dumps(config))
    path = write_jsonl(tmp_path / "experiment_log.jsonl", table)
    assert_reads(
        path,
        "reward/overall",
        group_size=5,
        prompts_per_step=512,
        refresh_interval=4,
        momentum=0.9,
        kl_weight=0.01,
        step_unit="rollout",
    )
    assert not any("filtered" in sentence for sentence in read_run(path).warnings)  # taken before the filter


@pytest.mark.parametrize(
    ("step", "reward", "column"),
    [
        ("step", "rollout/reward_mean", "rollout/reward_mean"),
        ("train/global_step", "train/rollout/reward_mean", "train/rollout/reward_mean"),
        ("step", "train/reward", "train/reward"),
        ("training_step", "scores", "scores"),
        ("step", "reward/all/mean", "reward/all/mean"),
        ("step", "train/agg/all/agent/reward/mean", "train/agg/all/agent/reward/mean"),
        ("step", "env/all/reward/total", "env/all/reward/total"),
        ("progress/batch", "env/gsm8k/reward/total", "env/gsm8k/reward/total"),
    ],
)
def test_names_of_the_other_trainers(tmp_path, step, reward, column):
    assert_reads(write_jsonl(tmp_path / "log.jsonl", steps_and_rewards(step=step, reward=reward)), column)


def test_prime_rl_writes_several_rows_a_step_into_several_files(tmp_path):
    output = tmp_path / "output"
    for place in ("orchestrator", "trainer"):
        (output / place).mkdir(parents=True)
    told = [
        part
        for row in rows()
        for part in (
            {"step": row["step"], "time": 1.0, "train/agg/all/math/reward/mean": row["reward"]},
            {"step": row["step"], "time": 2.0, "off_policy/mean": 0.5},
        )
    ]
    write_jsonl(output / "orchestrator" / "metrics.jsonl", told)
    trained = [{"step": row["step"], "optim/lr": 1e-6, "entropy/all/mean": 0.4} for row in rows()]
    write_jsonl(output / "trainer" / "metrics.jsonl", trained)
    assert_reads(output, "train/agg/all/math/reward/mean", learning_rate=1e-6, step_unit="rollout")
    assert len(read_run(output).series["entropy"].steps) == 30
    assert len(read_run(output / "orchestrator" / "metrics.jsonl").reward) == 30
    assert len(read_run(tmp_path).reward) == 30  # the folder above it holds one log, not three


def test_tinker_cookbook_with_its_configuration_beside(tmp_path):
    config = {"learning_rate": 1e-4, "dataset_builder": {"group_size": 4, "groups_per_batch": 100}, "num_substeps": 1}
    (tmp_path / "config.json").write_text(json.dumps(config))
    path = write_jsonl(tmp_path / "metrics.jsonl", steps_and_rewards(step="step", reward="env/all/reward/total"))
    assert_reads(path, "env/all/reward/total", group_size=4, prompts_per_step=100, refresh_interval=1)


PRINTED = "{{'loss': {loss}, 'learning_rate': {rate}, 'reward': {reward}, 'epoch': {epoch}}}"


def printed(table: list[dict[str, Any]], per_epoch: int, quote: str = "", every: int = 1) -> str:
    """What the trainer prints: a bar that overwrites itself, then the dict on the same line."""
    whole = table[-1]["step"] * every
    lines = [f"\r  0%|          | 0/{whole} [00:00<?, ?it/s]"]
    for row in table:
        step = row["step"] * every
        cells = {"loss": -0.01, "rate": 1e-6, "reward": row["reward"], "epoch": float(f"{step / per_epoch:.4g}")}
        line = PRINTED.format(**{name: f"{quote}{value}{quote}" for name, value in cells.items()})
        lines.append(f"\r                \r{line}\n\r {step}%|#   | {step}/{whole} [00:0{step % 10}<00:09, 1.1it/s]")
    return "\n".join([*lines, f"\r{{'train_runtime': {quote}9.5{quote}, 'train_loss': {quote}0.1{quote}, 'epoch': 1}}"])


@pytest.mark.parametrize("quote", ["", "'"])
def test_console_without_steps(tmp_path, quote):
    (tmp_path / "train.log").write_text("***** Running training *****\n" + printed(rows(), 12, quote))
    assert_reads(tmp_path / "train.log", "reward", learning_rate=1e-6, step_unit="optimizer", rows_averaged=None)
    assert any("have no step" in sentence for sentence in read_run(tmp_path / "train.log").warnings)


def test_console_of_averaged_rows(tmp_path):
    (tmp_path / "train.log").write_text(printed(rows(), 500, every=10))
    run = read_run(tmp_path / "train.log")
    np.testing.assert_array_equal(run.steps, 10 * np.arange(1, 31))
    np.testing.assert_array_equal(run.times, run.steps - 4.5)
    assert run.configuration.rows_averaged == 10


def test_console_of_a_resumed_run(tmp_path):
    after = [{"step": step, "reward": 0.5 + step / 100} for step in range(21, 41)]
    (tmp_path / "train.log").write_text(printed(rows(), 12) + "\n" + printed(after, 12))
    run = read_run(tmp_path / "train.log")
    np.testing.assert_array_equal(run.steps, np.arange(1, 41))
    np.testing.assert_allclose(run.reward[20:], [row["reward"] for row in after])
    assert run.restarts == 1


def test_console_of_evaluations_and_steps_without_a_reward(tmp_path):
    lines = []
    for row in rows():
        lines.append(f"{{'loss': 0.1, 'reward': {row['reward']}, 'epoch': {row['step'] / 5}}}")
        lines.append(f"{{'loss': 0.1, 'grad_norm': 1.0, 'epoch': {row['step'] / 5 + 0.1}}}")
    lines.append("{'eval_loss': 0.1, 'eval_reward': 0.75, 'epoch': 6.1}")
    (tmp_path / "train.log").write_text("\n".join(lines))
    run = read_run(tmp_path / "train.log")
    np.testing.assert_array_equal(run.steps, 2 * np.arange(1, 31) - 1)
    assert run.series["eval_reward"].steps.tolist() == [60]
    assert run.configuration.refresh_interval == 2
    assert run.provenance["refresh_interval"] == "log (a reward in one row of 2 only)"


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("[12:00:01] step {step} | loss 0.1 | reward {reward} | lr 1e-6", "reward"),
        ("INFO Step: {step}/30, Mean Reward = {reward}", "mean_reward"),
        ('INFO {{"step": {step}, "reward": {reward}}}', "reward"),
        ("===== Step {step}/30 =====\n  • Loss: 0.01\n  • Avg Reward: {reward}", "avg_reward"),
    ],
)
def test_console_of_any_loop(tmp_path, line, column):
    (tmp_path / "train.log").write_text("\n".join(["starting", *(line.format(**row) for row in rows())]))
    assert_reads(tmp_path / "train.log", column)


def test_console_with_arguments_and_numbers_as_python_shows_them(tmp_path):
    lines = ["{'num_generations': 8, 'learning_rate': 1e-06, 'beta': 0.04}", "gradient_accumulation_steps: 1"]
    lines += [f"{{'loss': tensor(0.1, device='cuda:0'), 'reward': np.float64({row['reward']})}}" for row in rows()]
    (tmp_path / "train.log").write_text("\n".join(lines))
    assert_reads(tmp_path / "train.log", "reward", group_size=8, refresh_interval=1)


def test_console_evaluates_nothing(tmp_path):
    trap = tmp_path / "trap"
    (tmp_path / "train.log").write_text(
        "\n".join(f"{{'reward': __import__('pathlib').Path({str(trap)!r}).touch(), 'loss': {k}}}" for k in range(30))
    )
    with pytest.raises(InputError):
        read_run(tmp_path / "train.log")
    assert not trap.exists()


def test_console_without_metrics(tmp_path):
    (tmp_path / "train.log").write_text("***** Running training *****\n  Num examples = 7\n")
    with pytest.raises(InputError, match="has no line with metrics"):
        read_run(tmp_path / "train.log")


@pytest.mark.parametrize("name", ["log.csv.gz", "log.jsonl.gz", "trainer_state.json.gz", "train.log.gz"])
def test_gzip_of_any(tmp_path, name):
    plain = tmp_path / "plain"
    write = {"log.csv.gz": write_csv, "log.jsonl.gz": write_jsonl, "trainer_state.json.gz": write_state}.get(name)
    text = printed(rows(), 12) if write is None else write(plain, rows()).read_text()
    (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    assert_reads(tmp_path / name, "reward")


def test_whole_curves_in_json(tmp_path):
    reward = curve().tolist()
    forms = {
        "trace": [
            {"tag": "a", "seed": 1, "group_size": 4, "reward_trace": reward},
            {"tag": "b", "seed": 2, "status": "failed"},
        ],
        "pairs": {"runs": {"a": {"lr": 1e-5, "reward_curve": [[k, y] for k, y in enumerate(reward, start=1)]}}},
        "rows": {"metadata": {"group_size": 4}, "runs": [{"name": "a", "step_log": rows()}]},
        "columns": {"config": {"group_size": 4}, "step": list(range(1, 31)), "reward": reward, "entropy": reward},
    }
    for name, bare in {"list": reward, "list of pairs": [[k, y] for k, y in enumerate(reward, start=1)]}.items():
        (tmp_path / name).write_text(json.dumps(bare))
        assert_reads(tmp_path / name, "reward")
    for name, document in forms.items():
        (tmp_path / name).write_text(json.dumps(document, indent=1))
        (run,) = read_runs(tmp_path / name)
        np.testing.assert_array_equal(run.reward, reward)
        np.testing.assert_array_equal(run.steps, np.arange(1, 31))
        assert run.configuration.group_size == (None if name == "pairs" else 4)


def test_a_curve_a_line_and_a_curve_twice(tmp_path):
    lines = [{"seed": seed, "reward_curve": [[4 * k, y] for k, y in enumerate(curve(seed=seed))]} for seed in (1, 2)]
    found = read_runs(write_jsonl(tmp_path / "log.jsonl", lines))
    assert [run.label for run in found] == ["seed=1", "seed=2"]
    assert found[0].steps[-1] == 116
    twice = {
        "runs": [{"tag": "a", "reward_trace": curve().tolist()}],
        "sweep": [{"tag": "a", "reward_trace": curve().tolist()}],
    }
    (tmp_path / "twice.json").write_text(json.dumps(twice))
    assert len(read_runs(tmp_path / "twice.json")) == 1


def test_stacked_runs_are_all_read_with_their_own_settings(tmp_path):
    table = [
        {"group_size": size, "seed": seed, "step": row["step"], "reward": row["reward"]}
        for size in (4, 8)
        for seed in (0, 1)
        for row in rows()
    ]
    found = read_runs(write_csv(tmp_path / "runs.csv", table))
    assert [run.key for run in found] == [{"group_size": str(g), "seed": str(s)} for g in (4, 8) for s in (0, 1)]
    assert [run.configuration.group_size for run in found] == [4, 4, 8, 8]
    assert [run.configuration.prompts_per_step for run in found] == [16, 16, 8, 8]
    assert "multiples of 1/64" in found[0].provenance["prompts_per_step"]
