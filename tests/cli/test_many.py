"""Several logs in one call: a folder each, refusals named, finished fits kept, nothing done twice."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sde_grpo.cli.many import fit_many, folder_names
from sde_grpo.errors import InputError
from sde_grpo.runs import Run, read_runs
from tests.cli.commands import DATA, invoke, words
from tests.runs.writing import rows, write_csv

LOGS = [DATA / "near-G8-s0.csv", DATA / "near-G8-s1.csv"]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Path:
    """A first call that is as good as killed after one log: it is given only that one and another it cannot read."""
    out = tmp_path_factory.mktemp("many") / "fits"
    (out.parent / "empty.csv").write_text("")
    result = invoke("fit", LOGS[0], out.parent / "empty.csv", "--out", out)
    assert result.exit_code == 0, (result.stdout, result.stderr, result.exception)
    assert "refused" in result.stdout
    assert "empty.csv" in words(result.stdout)
    return out


def test_the_rest_is_fitted_and_what_is_there_is_kept(fitted: Path) -> None:
    before = {file: file.read_bytes() for file in (fitted / "near-G8-s0").iterdir()}
    assert {file.name for file in before} == {"fit.nc", "summary.json", "bands.png", "checks.png"}
    result = invoke("fit", *LOGS, "--out", fitted, "--json")
    assert result.exit_code == 0, (result.stdout, result.stderr, result.exception)
    runs = json.loads(result.stdout)["runs"]
    assert list(runs) == ["near-G8-s0", "near-G8-s1"]
    assert all(file.read_bytes() == content for file, content in before.items())
    with (fitted / "runs.csv").open(encoding="utf-8") as file:
        assert [row["status"] for row in csv.DictReader(file)] == ["kept", "fitted"]
    assert sorted(p.name for p in fitted.iterdir()) == ["near-G8-s0", "near-G8-s1", "runs.csv"]


def test_other_options_are_another_fit(fitted: Path) -> None:
    result = invoke("fit", LOGS[0], fitted.parent / "empty.csv", "--out", fitted, "--seed", "1")
    assert result.exit_code == 2
    assert "holds a fit of another log or with other options; add --force" in words(result.stdout)
    assert "None of the logs could be fitted" in words(result.stderr)


def test_several_logs_need_a_folder() -> None:
    result = invoke("fit", *LOGS)
    assert result.exit_code == 2
    assert "2 logs are given; name a folder for their fits with --out" in words(result.stderr)


def test_names_tell_logs_apart() -> None:
    assert folder_names([Path("a/x.csv"), Path("a/y.csv")]) == ["x", "y"]
    assert folder_names([Path("a/log.csv"), Path("b/log.csv")]) == ["a-log", "b-log"]
    with pytest.raises(InputError, match=r"a/log\.csv, a/log\.jsonl would share one folder"):
        folder_names([Path("a/x.csv"), Path("a/log.csv"), Path("a/log.jsonl")])


def test_what_cannot_work_is_said_before_any_fit(fitted: Path) -> None:
    in_the_way = fitted.parent / "empty.csv"
    result = invoke("fit", *LOGS, "--out", in_the_way)
    assert result.exit_code == 2
    assert "is a file; name a folder" in words(result.stderr)
    result = invoke("fit", *LOGS, "--out", fitted.parent / "none", "--config", "absent.toml")
    assert result.exit_code == 2
    assert "absent.toml" in words(result.stdout)
    assert not (fitted.parent / "none").exists()


def test_a_folder_that_is_not_ours_is_left_alone(fitted: Path) -> None:
    other = fitted.parent / "other" / "near-G8-s0"
    other.mkdir(parents=True)
    (other / "summary.json").write_text("{")
    result = invoke("fit", LOGS[0], fitted.parent / "empty.csv", "--out", other.parent)
    assert result.exit_code == 2
    assert "holds a fit of another log" in words(result.stdout)
    assert (other / "summary.json").read_text() == "{"


def test_every_run_of_a_file_is_fitted_into_its_own_folder(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the fit itself left out: which runs are fitted, under which names, and which are refused."""
    stacked = [*rows(seed=1), *rows(seed=2), *rows(seed=3)[:10]]
    logs = [write_csv(tmp_path / "sweep.csv", stacked), write_csv(tmp_path / "one.csv", rows())]
    fitted: list[str] = []

    def not_here(run: Run, *_: Any) -> dict[str, bytes]:
        fitted.append(run.label)
        raise InputError("not here")

    monkeypatch.setattr("sde_grpo.cli.many._fitted", not_here)

    results: dict[str, Any] = {}
    with pytest.raises(InputError, match="None of the logs could be fitted"):
        results = fit_many(
            logs,
            tmp_path / "out",
            read_runs,
            {},
            {},
            dask=None,
            force=False,
            anyway=False,
            console=Console(quiet=True),
        )
    assert results == {}
    assert fitted == ["seed=1", "seed=2", ""]
