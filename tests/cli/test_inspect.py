"""`sde-grpo inspect`: what is printed, what is written as JSON, and what reaches the terminal."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.cli.commands import DATA, invoke, words
from tests.runs.writing import curve, rows, write_csv, write_jsonl, write_state


def test_one_log(tmp_path):
    (tmp_path / "config.json").write_text('{"num_generations": 8, "gradient_accumulation_steps": 1}')
    table = [row | {"epoch": row["step"] / 10, "note": 1} for row in rows()]
    write_state(tmp_path / "trainer_state.json", table, logging_steps=1)
    result = invoke("inspect", tmp_path / "trainer_state.json")
    assert result.exit_code == 0, result.stderr
    said = words(result.stdout)
    for phrase in (
        "trainer_state.json: trainer_state.json, 1 run.",
        "30 points, optimizer steps 1 to 30; no gaps, no restarts.",
        "config.json beside the log (num_generations)",
        "Not known: learning_rate, momentum, kl_weight.",
        "warning: The data was passed more than once",
        "Columns: reward: reward; step: step; 2 others.",
        "Next: sde-grpo fit",
    ):
        assert phrase in said
    assert any(0x2800 < ord(char) < 0x2900 for char in result.stdout)  # the picture


def test_json_of_one_log(tmp_path):
    result = invoke("inspect", write_csv(tmp_path / "log.csv", rows(group_size=8)), "--json")
    assert result.exit_code == 0, result.stderr
    record = json.loads(result.stdout)
    assert record["format"] == "CSV"
    (run,) = record["runs"]
    assert {"points", "first_step", "last_step", "reward_column", "reward_range", "config", "warnings"} <= run.keys()
    assert (run["points"], run["config"]["group_size"]) == (30, 8)


def test_many_runs_and_how_to_choose_one(tmp_path):
    path = write_csv(tmp_path / "log.csv", [*rows(seed=1), *rows(seed=2)])
    said = words(invoke("inspect", path).stdout)
    assert "log.csv: CSV, 2 runs." in said
    assert "Next: choose one run, for example sde-grpo fit" in said
    assert said.endswith("--select seed=1")
    said = words(invoke("inspect", path, "--select", "seed=2").stdout)
    assert "1 run." in said


def test_a_folder():
    result = invoke("inspect", DATA)
    assert result.exit_code == 0, result.stderr
    files = len(list(DATA.glob("*.csv")))
    assert f"{files} runs in {files} logs below" in words(result.stdout)
    assert len(json.loads(invoke("inspect", DATA, "--json").stdout)["runs"]) == files


def test_what_a_folder_holds_besides(tmp_path):
    write_csv(tmp_path / "a.csv", rows())
    write_jsonl(tmp_path / "b.jsonl", rows())
    write_csv(tmp_path / "ends.csv", [{"run_name": n, "num_rollouts": 4, "final_train_accuracy": 0.5} for n in "xyz"])
    (tmp_path / "c.jsonl").write_text('{"step": 1}\n{"step": \n{"step": 3}\n')
    said = words(invoke("inspect", tmp_path).stdout)
    assert "ends.csv: 3 runs with one value each, end points and no curves." in said
    assert "not read: c.jsonl, line 2: the JSON is broken" in said
    assert "a.csv and b.jsonl hold the same rewards, step for step" in said


def test_a_refused_log_says_why_and_is_fitted_only_when_forced(tmp_path, monkeypatch):
    smooth = np.convolve(np.tile(curve(), 8), np.ones(9) / 9, "valid")
    path = write_csv(tmp_path / "log.csv", [{"step": k, "reward": y} for k, y in enumerate(smooth)])
    said = words(invoke("inspect", path).stdout)
    assert "cannot be fitted: The rewards look smoothed" in said
    assert "Next: sde-grpo fit" not in said
    refused = invoke("fit", path)
    assert refused.exit_code == 2
    assert "a fit needs --anyway" in words(refused.stderr)

    class Fitted(Exception):
        pass

    def fitted(*_: object, **__: object) -> None:
        raise Fitted

    monkeypatch.setattr("sde_grpo.fit.fit.sample", fitted)
    assert isinstance(invoke("fit", path, "--anyway").exception, Fitted)


def test_columns_and_folders_do_not_go_together(tmp_path):
    result = invoke("inspect", tmp_path, "--reward-column", "x")
    assert result.exit_code == 2
    assert "is a folder" in words(result.stderr)


@pytest.mark.parametrize("path", ["absent.csv", "."])
def test_nothing_there(tmp_path, path):
    result = invoke("inspect", tmp_path / path)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_hostile_names_and_values_reach_no_terminal(tmp_path):
    nasty = "x\x1b]0;owned\x07[red]\u202e"
    table = [
        {"step": row["step"], "reward": row["reward"], "run": nasty + str(k), nasty: 1}
        for k in (1, 2)
        for row in rows()
    ]
    path = write_jsonl(tmp_path / f"{nasty}.jsonl", table)
    for arguments in ((path,), (path, "--json"), (tmp_path,), (path, "--select", "run=1")):
        result = invoke("inspect", *arguments)
        for text in (result.stdout, result.stderr):
            assert not {"\x1b", "\x07", "\u202e"} & set(text)
