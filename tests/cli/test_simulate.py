"""`sde-grpo simulate`: what it writes is read back with its settings; what it refuses, it refuses before writing."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from sde_grpo import read_run
from tests.cli.commands import invoke, words

OSCILLATOR = (
    "--curvature",
    "0.5",
    "--learning-rate",
    "0.05",
    "--fixed-point",
    "0.7",
    "--start",
    "0.3",
    "--steps",
    "80",
)


def test_a_table_is_read_back_with_its_settings(tmp_path: Path) -> None:
    out = tmp_path / "new" / "run.csv"
    options = ("--momentum", "0.5", "--momentum-kind", "ema", "--refresh-interval", "4", "--group-size", "16")
    result = invoke("simulate", *OSCILLATOR, *options, "--prompts-per-step", "8", "--out", out)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert "Truth: plateau 0.7, relaxation time" in words(result.stdout)
    assert [file.name for file in out.parent.iterdir()] == ["run.csv"]
    run = read_run(out)
    assert run.steps.tolist() == list(range(1, 81, 4))
    assert not run.warnings
    known = run.configuration.known()
    assert known == {
        "group_size": 16,
        "prompts_per_step": 8,
        "learning_rate": 0.05,
        "momentum": 0.5,
        "momentum_kind": "ema",
        "refresh_interval": 4,
        "lag_schedule": "periodic",
        "step_unit": "optimizer",
        "reward_range": (0.0, 1.0),
    }


def test_a_folder_of_runs_and_its_truth_in_json(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    options = ("--model", "kl-anchored", "--kl-weight", "2.5", "--learning-rate", "0.1", "--steps", "30", "--out", out)
    result = invoke("simulate", *options, "--runs", "3", "--json")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert [Path(file).name for file in record["files"]] == ["run-0.csv", "run-1.csv", "run-2.csv"]
    assert record["truth"]["fixed_point"] == pytest.approx(0.68544, abs=1e-5)
    assert record["settings"]["seed"] == 0
    assert read_run(out / "run-2.csv").configuration.kl_weight == 2.5
    assert len({(out / f"run-{i}.csv").read_text() for i in range(3)}) == 3

    again = invoke("simulate", *options, "--runs", "3")
    assert again.exit_code == 2
    assert "exists; add --force to replace it" in words(again.stderr)
    assert invoke("simulate", *options, "--force").exit_code == 0
    assert [file.name for file in out.iterdir()] == ["run-0.csv"]  # none is left of the three


def test_standard_output_is_one_table_the_same_for_the_same_seed(tmp_path: Path) -> None:
    result = invoke("simulate", *OSCILLATOR, "--runs", "2", "--seed", "7")
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [row["run"] for row in rows] == ["0"] * 80 + ["1"] * 80
    assert "Truth: plateau 0.7" in words(result.stderr)
    assert invoke("simulate", *OSCILLATOR, "--runs", "2", "--seed", "7").stdout == result.stdout
    table = tmp_path / "both.csv"
    table.write_text(result.stdout)
    assert len(read_run(table, select={"run": "1"}).steps) == 80


REFUSED = {
    "learning_rate is missing; give --learning-rate.": ("--curvature", "0.5", "--fixed-point", "0.7"),
    "curvature is missing; the oscillator model needs it.": ("--learning-rate", "0.05", "--fixed-point", "0.7"),
    "momentum is 1.0; it must lie in [0, 1).": (*OSCILLATOR, "--momentum", "1"),
    "group_size is 1; it must be a whole number of at least 2.": (*OSCILLATOR, "--group-size", "1"),
    "--json prints where the trace goes without --out; add --out.": (*OSCILLATOR, "--json"),
    "a stationary state needs it positive. Give a start": (*OSCILLATOR[:6], "--refresh-interval", "100"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message: str) -> None:
    result = invoke("simulate", *REFUSED[message])
    assert result.exit_code == 2
    assert message in words(result.stderr)
    assert result.stdout == ""


def test_places_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out, message in (("file", "is a file; name a file ending in .csv, or a folder"), ("file/x.csv", "cannot be")):
        result = invoke("simulate", *OSCILLATOR, "--out", tmp_path / out)
        assert result.exit_code == 2
        assert message in words(result.stderr)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
