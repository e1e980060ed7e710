"""Runs below a folder: each once, whatever else lies there; and what is said of each."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sde_grpo.errors import InputError
from sde_grpo.runs import read_run
from sde_grpo.runs.discover import find_logs
from sde_grpo.runs.inspection import Unreadable, folder_record, inspect_folder, inspect_log, log_record
from tests.runs.writing import rows, write_csv, write_jsonl, write_state


def below(folder: Path, *names: str) -> bool:
    return [str(path.relative_to(folder)) for path in find_logs(folder)] == sorted(names)


def test_logs_are_told_from_the_rest(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    write_csv(tmp_path / "a.csv", rows())
    write_jsonl(tmp_path / "deep" / "er" / "metrics.jsonl", rows())
    (tmp_path / "notes.txt").write_text("nothing to see")
    (tmp_path / "weights.bin").write_bytes(os.urandom(100))
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "config.json").write_text('{"group_size": 8}')
    (tmp_path / ".hidden.csv").write_text("step,reward\n1,2\n")
    assert below(tmp_path, "a.csv", "deep/er/metrics.jsonl")


def test_what_lies_beside_a_model_is_no_log(tmp_path):
    write_state(tmp_path / "trainer_state.json", rows())
    for name, document in {
        "adapter_config.json": {"r": 16, "peft_type": "LORA"},
        "train_results.json": {"train_loss": 0.1},
        "special_tokens_map.json": {"eos_token": "</s>"},
        "tokenizer.json": {"model": {"vocab": {f"reward{k}": k for k in range(9000)}}},
        "model.safetensors.index.json": {"weight_map": {f"layer.{k}": "a" for k in range(9000)}},
        "preferences.json": [1, 2],
    }.items():
        (tmp_path / name).write_text(json.dumps(document))
    write_jsonl(tmp_path / "prompts.jsonl", [{"prompt": "1+1=", "answer": "2"}] * 9)
    assert below(tmp_path, "trainer_state.json")
    assert len(read_run(tmp_path).reward) == 30


def test_a_run_of_the_trainer_is_found_once(tmp_path):
    for number in (20, 100):
        (tmp_path / "run" / f"checkpoint-{number}").mkdir(parents=True)
        write_state(tmp_path / "run" / f"checkpoint-{number}" / "trainer_state.json", rows())
    (tmp_path / "run" / "train.log").write_text("".join(f"{{'loss': 0.1, 'reward': 0.{k}}}\n" for k in range(1, 30)))
    assert below(tmp_path, "run/checkpoint-100/trainer_state.json")
    write_state(tmp_path / "run" / "trainer_state.json", rows())
    write_csv(tmp_path / "run" / "other.csv", rows())
    assert below(tmp_path, "run/trainer_state.json", "run/other.csv")


def test_console_logs_of_one_folder_are_several_runs(tmp_path):
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text("".join(f"{{'loss': 0.1, 'reward': 0.{k}}}\n" for k in range(1, 30)))
    assert below(tmp_path, "a.log", "b.log")


def test_links_and_loops_are_not_followed(tmp_path):
    write_csv(tmp_path / "a.csv", rows())
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "b.csv").symlink_to(tmp_path / "a.csv")
    assert below(tmp_path, "a.csv")


def test_a_folder_with_one_log_is_read_as_it(tmp_path):
    (tmp_path / "run" / "checkpoint-5").mkdir(parents=True)
    write_state(tmp_path / "run" / "checkpoint-5" / "trainer_state.json", rows())
    assert len(read_run(tmp_path).reward) == 30
    write_csv(tmp_path / "a.csv", rows())
    with pytest.raises(InputError, match=r"is a directory with 2 logs \(a.csv, trainer_state.json\); name one of them"):
        read_run(tmp_path)


def test_folder_record(tmp_path):
    write_csv(tmp_path / "a.csv", [*rows(seed=1), *rows(seed=2)])
    (tmp_path / "broken.jsonl").write_text('{"step": 1}\n{"step": \n{"step": 3}\n')
    found = inspect_folder(tmp_path)
    assert any(isinstance(one, Unreadable) for one in found)
    record = json.loads(json.dumps(folder_record(tmp_path, found), allow_nan=False))
    assert record["format"] == "folder"
    assert [(run["path"], run["label"], run["points"]) for run in record["runs"]] == [
        ("a.csv", "seed=1", 30),
        ("a.csv", "seed=2", 30),
    ]
    assert "the JSON is broken" in record["not_read"]["broken.jsonl"]


def test_a_folder_without_a_log(tmp_path):
    with pytest.raises(InputError, match="no log with a reward curve was found below this folder"):
        inspect_folder(tmp_path)


def test_log_record(tmp_path):
    table = [row for row in rows(lr=1e-5, group_size=8, note="x") if row["step"] not in (11, 12, 13)]
    record = log_record(inspect_log(write_csv(tmp_path / "log.csv", table + table[20:])))
    (run,) = json.loads(json.dumps(record, allow_nan=False))["runs"]
    assert record["format"] == "CSV"
    assert record["columns"] == {
        "step": "step",
        "reward": "reward",
        "lr": "learning_rate",
        "group_size": "group_size",
        "note": None,
    }
    assert (run["points"], run["first_step"], run["last_step"], run["reward_column"]) == (27, 1, 30, "reward")
    assert run["config"]["group_size"] == 8
    assert run["provenance"]["group_size"] == "log (group_size column)"
    assert run["gaps"] == [[10.0, 14.0]]
    assert run["restarts"] == 1
    assert run["reward_range"][0] < run["reward_start"] < run["reward_end"] <= run["reward_range"][1]
    assert run["refusals"] == []
    assert any("restarted run" in warning for warning in run["warnings"])
