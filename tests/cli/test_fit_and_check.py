"""One real fit of a simulated run, about a minute, and everything that the commands print and write of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from sde_grpo import Fit
from tests.cli.commands import DATA, invoke, words

LOG = DATA / "far-G8-s0.csv"
FILES = ["bands.png", "checks.png", "fit.nc", "summary.json"]


@dataclass(frozen=True)
class Fitted:
    """What the command printed, the folder it wrote, and the summary in it."""

    result: Result
    folder: Path

    @property
    def summary(self) -> dict[str, Any]:
        return json.loads((self.folder / "summary.json").read_text())


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Fitted:
    folder = tmp_path_factory.mktemp("cli") / "new" / "fit"
    options = ("--refresh-interval", "1", "--momentum-kind", "heavy_ball", "--seed", "3")
    result = invoke("fit", LOG, "--out", folder, "--json", *options)
    assert result.exit_code == 0, (result.stderr, result.exception)
    return Fitted(result, folder)


def test_standard_output_is_the_summary(fitted):
    assert fitted.result.stdout == (fitted.folder / "summary.json").read_text()
    assert "far-G8-s0.csv: 300 points, steps 1 to 300." in words(fitted.result.stderr)
    assert f"Written to {fitted.folder}: fit.nc, summary.json, bands.png, checks.png." in fitted.result.stderr


def test_files(fitted):
    assert sorted(file.name for file in fitted.folder.iterdir()) == FILES
    assert list(fitted.folder.parent.iterdir()) == [fitted.folder]
    for name in ("bands.png", "checks.png"):
        assert (fitted.folder / name).read_bytes().startswith(b"\x89PNG")


def test_summary_of_run_and_model(fitted):
    run, model = fitted.summary["run"], fitted.summary["model"]
    assert {name: run[name] for name in ("source", "points", "first_step", "last_step")} == {
        "source": "far-G8-s0.csv",
        "points": 300,
        "first_step": 1.0,
        "last_step": 300.0,
    }
    known = {"group_size": 8, "prompts_per_step": 32, "learning_rate": 0.0045, "momentum": 0.9, "kl_weight": 2.5}
    known |= {"momentum_kind": "heavy_ball", "refresh_interval": 1, "reward_range": [0.0, 1.0]}
    assert {name: run["config"][name] for name in known} == known
    assert run["provenance"]["refresh_interval"] == "--refresh-interval"
    assert (model["link"], model["dynamics"], model["seed"]) == ("logit", "mechanistic", 3)
    assert {"noise", "priors", "versions"} <= model.keys()


def test_summary_of_the_posterior(fitted):
    parameters = fitted.summary["parameters"]
    assert {"fixed_point", "relaxation_time", "inertia_ratio", "curvature"} <= parameters.keys()
    for name, values in parameters.items():
        assert {"mean", "sd", "q05", "q50", "q95"} <= values.keys(), name
        assert values["q05"] <= values["q50"] <= values["q95"], name
        assert values["sd"] >= 0, name
    truth = json.loads((DATA / "true_parameters.json").read_text())["far-G8-s0.csv"]
    assert parameters["fixed_point"]["mean"] == pytest.approx(truth["fixed_point"], abs=0.1)


def test_summary_of_forecast_fit_and_checks(fitted):
    forecast, explained = fitted.summary["forecast"], fitted.summary["fit"]
    assert {"q05", "q50", "q95"} <= forecast["plateau"].keys()
    assert forecast["rise_visible"]
    assert {"q05", "q50", "q95"} <= forecast["steps_to_95"].keys()
    assert 0 <= forecast["p_still_rising"] <= 1
    assert 0 < explained["r2"] <= 1
    assert 0 < explained["r2_ceiling"] <= 1
    for row in fitted.summary["checks"]:
        assert {"statistic", "observed", "p_value"} <= row.keys()
        assert 0 <= row["p_value"] <= 1
    assert fitted.summary["verdict"]
    assert isinstance(fitted.summary["warnings"], list)


def test_summary_of_the_sampler(fitted):
    sampler = fitted.summary["sampler"]
    assert isinstance(sampler["engine"], str)
    assert isinstance(sampler["divergences"], int)
    assert sampler["rhat_max"] < 1.1
    assert sampler["ess_bulk_min"] > 0
    assert 0 < sampler["seconds"] < 3600
    assert 50 < sampler["peak_memory_mb"] < 1e5


def test_nothing_of_this_machine_is_recorded(fitted):
    text = (fitted.folder / "summary.json").read_text()
    record = json.dumps(Fit.load(fitted.folder / "fit.nc").record)
    for folder in (fitted.folder.parent.parent, DATA.parent.parent, Path.home(), Path.cwd()):
        assert str(folder) not in text
        assert str(folder) not in record


def test_check(fitted):
    result = invoke("check", fitted.folder / "fit.nc")
    assert result.exit_code == 0, (result.stderr, result.exception)
    for message in fitted.summary["verdict"]:
        assert words(message) in words(result.stdout)
    for row in fitted.summary["checks"]:
        assert row["statistic"] in result.stdout
    assert result.stderr == ""


def test_check_as_json(fitted):
    result = invoke("check", fitted.folder / "fit.nc", "--json")
    assert result.exit_code == 0, (result.stderr, result.exception)
    summary = fitted.summary
    assert json.loads(result.stdout) == {"checks": summary["checks"], "verdict": summary["verdict"]}


def test_a_fit_is_not_overwritten(fitted):
    before = {file.name: file.read_bytes() for file in fitted.folder.iterdir()}
    result = invoke("fit", LOG, "--out", fitted.folder)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "add --force" in result.stderr
    assert {file.name: file.read_bytes() for file in fitted.folder.iterdir()} == before


@pytest.fixture
def refit(fitted, monkeypatch):
    """`sde-grpo fit` that takes the fit from the file instead of sampling again."""
    monkeypatch.setattr("sde_grpo.fit.fit_run", lambda *_, **__: Fit.load(fitted.folder / "fit.nc"))


@pytest.mark.usefixtures("refit")
def test_force_replaces_the_fit_and_nothing_else(fitted, tmp_path):
    (tmp_path / "fit.nc").write_text("an earlier fit")
    (tmp_path / "notes.txt").write_text("kept")
    result = invoke("fit", LOG, "--out", tmp_path, "--force")
    assert result.exit_code == 0, (result.stderr, result.exception)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([*FILES, "notes.txt"])
    assert (tmp_path / "summary.json").read_bytes() == (fitted.folder / "summary.json").read_bytes()
    assert (tmp_path / "notes.txt").read_text() == "kept"
    assert Fit.load(tmp_path / "fit.nc").record == Fit.load(fitted.folder / "fit.nc").record
    assert "R^2" in result.stdout
    assert "fixed_point" in result.stdout
    assert result.stderr == ""


@pytest.mark.usefixtures("refit")
def test_without_a_folder_nothing_is_written(fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke("fit", LOG, "--json")
    assert result.exit_code == 0, (result.stderr, result.exception)
    assert json.loads(result.stdout) == fitted.summary
    assert "Written to" not in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("refit")
def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    result = invoke("fit", LOG, "--out", tmp_path / "out", "--json")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "cannot be written (No space left on device); name another folder" in words(result.stderr)
    assert list(tmp_path.iterdir()) == []
