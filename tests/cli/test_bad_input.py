"""Whatever is wrong with the input: exit code 2, one message that says what was found and what to do, no output."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.commands import invoke
from tests.runs.writing import rows, write_csv, write_jsonl


@pytest.fixture(autouse=True)
def _no_fit(monkeypatch):
    """Input that slips through must fail the test at once, not after a fit."""

    def sampled(*_: object, **__: object) -> None:
        raise AssertionError("the input was accepted and a fit began")

    monkeypatch.setattr("sde_grpo.fit.fit.sample", sampled)


@dataclass(frozen=True)
class Case:
    """What is wrong, the log, the options, and what the message must say: `found`, then what to `do`."""

    name: str
    log: Callable[[Path], object]
    options: tuple[str, ...]
    found: tuple[str, ...]
    do: str


def _good(path: Path) -> None:
    write_csv(path, rows())


def _text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


def _table(count: int = 30, **constant: object) -> Callable[[Path], object]:
    return lambda path: write_csv(path, rows(count, **constant))


def _without_reward(path: Path) -> None:
    write_csv(path, [{"step": row["step"], "my_score": row["reward"], "loss": 0.5} for row in rows()])


def _with_a_word(path: Path) -> None:
    table = rows()
    table[4]["reward"] = "high"
    write_csv(path, table)


def _stacked(path: Path) -> None:
    write_jsonl(path, [*rows(seed=1), *rows(seed=2)])


def _up_to_five(path: Path) -> None:
    write_csv(path, [row | {"reward": 5 * row["reward"]} for row in rows()])


CASES = (
    Case("empty file", _text(""), (), ("log.csv is empty",), "has the run logged anything yet?"),
    Case(
        "truncated JSON",
        _text('{"log_history": [{"step": 1, "reward": 0.25},\n {"step": 2, "rew'),
        (),
        ("log.csv", "the JSON is cut off at line 2"),
        "Copy the file again",
    ),
    Case(
        "no reward column",
        _without_reward,
        (),
        ("no reward column was recognised", "my_score"),
        "Name the right one with --reward-column",
    ),
    Case(
        "a reward column that is not there",
        _good,
        ("--reward-column", "accuracy"),
        ("there is no column 'accuracy'", "the columns are step, reward"),
        "--reward-column",
    ),
    Case(
        "a word for a number",
        _with_a_word,
        (),
        ("log.csv, line 6", "column reward is 'high', not a number"),
        "Correct it",
    ),
    Case(
        "constant",
        lambda path: write_csv(path, [row | {"reward": 0.25} for row in rows()]),
        (),
        ("the reward is 0.25 on all 30 steps",),
        "there is no trajectory to fit",
    ),
    Case(
        "too short", _table(19), (), ("19 reward points", "at least 20 are needed"), "Log more often, or train longer"
    ),
    Case(
        "outside the declared range",
        _good,
        ("--reward-range", "0", "0.5"),
        ("the reward at step", "outside the given reward range [0, 0.5]", "of 30 values"),
        "Correct --reward-range or leave it out",
    ),
    Case("group size 0", _good, ("--group-size", "0"), ("group_size is 0",), "must be a whole number, at least 1"),
    Case(
        "negative number of prompts",
        _good,
        ("--prompts-per-step", "-1"),
        ("prompts_per_step is -1",),
        "must be a whole number, at least 1",
    ),
    Case("momentum 1.5", _good, ("--momentum", "1.5"), ("momentum is 1.5",), "must be a number in [0, 1)"),
    Case(
        "no configuration file",
        _good,
        ("--config", "nowhere.toml"),
        ("nowhere.toml", "cannot be read", "No such file"),
        "check --config",
    ),
    Case(
        "--select without a value",
        _good,
        ("--select", "seed"),
        ("--select is 'seed'",),
        "must read NAME=VALUE, for example seed=42",
    ),
    Case(
        "--select of a column that is not there",
        _good,
        ("--select", "seed=1"),
        ("there is no column 'seed'", "--select seed=1"),
        "the columns are step, reward",
    ),
    Case(
        "logit without a range",
        _up_to_five,
        ("--link", "logit"),
        ("logit link needs a reward range", "outside [0, 1]"),
        "Declare it with --reward-range LOW HIGH, or use --link identity",
    ),
    Case(
        "mechanistic without settings",
        _good,
        ("--dynamics", "mechanistic", "--momentum", "0.9"),
        ("Mechanistic dynamics need", "this run lacks learning_rate, refresh_interval"),
        "Give them as options (--learning-rate ...) or use --dynamics free",
    ),
    Case("no log", lambda path: None, (), ("log.csv: there is no such file",), "check the path"),
    Case("a folder", lambda path: path.mkdir(), (), ("log.csv is a directory",), "name the log file inside it"),
    Case("stacked runs", _stacked, (), ("stacks 2 runs", "seed"), "Choose one, for example with --select seed"),
)


def _refused(log: Path, *options: str | Path) -> str:
    """The message of a `fit` that must be refused."""
    before = sorted(log.parent.rglob("*"))
    result = invoke("fit", log, *options)
    assert result.exit_code == 2, (result.stderr, result.exception)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    assert sorted(log.parent.rglob("*")) == before
    return result.stderr


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("json", [(), ("--json",)], ids=["plain", "json"])
def test_bad_log_or_option(case, json, tmp_path):
    log = tmp_path / "log.csv"
    case.log(log)
    message = _refused(log, "--out", tmp_path / "out", *case.options, *json)
    for phrase in (*case.found, case.do):
        assert phrase in message
    assert not (tmp_path / "out").exists()


def test_unknown_key_of_the_configuration_file(tmp_path):
    _good(tmp_path / "log.csv")
    config = tmp_path / "run.toml"
    config.write_text("group_sise = 8\n")
    message = _refused(tmp_path / "log.csv", "--config", config, "--out", tmp_path / "out")
    assert "run.toml: unknown key group_sise; allowed are group_size, prompts_per_step" in message


def test_an_existing_folder_is_kept(tmp_path):
    _good(tmp_path / "log.csv")
    (tmp_path / "out").mkdir()
    message = _refused(tmp_path / "log.csv", "--out", tmp_path / "out")
    assert "exists; add --force to replace its fit, or name another folder" in message
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("below", [".", "out", "deeper/out"])
@pytest.mark.parametrize("force", [(), ("--force",)], ids=["plain", "force"])
def test_a_folder_inside_a_file_cannot_be_written(below, force, tmp_path):
    _good(tmp_path / "log.csv")
    (tmp_path / "notes").write_text("kept")
    message = _refused(tmp_path / "log.csv", "--out", tmp_path / "notes" / below, *force)
    assert "is a file" in message
    assert "name a folder" in message if below == "." else "name another folder" in message
    assert (tmp_path / "notes").read_text() == "kept"


def test_a_folder_without_permission(tmp_path, monkeypatch):
    _good(tmp_path / "log.csv")
    # Not chmod, for root may write anywhere.
    monkeypatch.setattr("sde_grpo.cli.output.os.access", lambda path, mode: not mode & os.W_OK)
    message = _refused(tmp_path / "log.csv", "--out", tmp_path / "out")
    assert f"no permission to write in {tmp_path}" in message
    assert "name another folder" in message


def test_a_folder_is_refused_before_the_log_is_read(tmp_path):
    (tmp_path / "out").mkdir()
    assert "add --force" in _refused(tmp_path / "no log", "--out", tmp_path / "out")


@pytest.mark.parametrize(
    ("options", "phrase"),
    [(("--link", "probit"), "--link"), (("--group-size", "eight"), "--group-size"), (("--seeds", "3"), "--seeds")],
)
def test_options_that_typer_refuses(options, phrase, tmp_path):
    _good(tmp_path / "log.csv")
    result = invoke("fit", tmp_path / "log.csv", "--out", tmp_path / "out", *options)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert phrase in result.stderr
    assert not (tmp_path / "out").exists()


def test_check_of_what_is_no_fit(tmp_path):
    text, missing = tmp_path / "text.nc", tmp_path / "missing.nc"
    text.write_text("step,reward\n")
    for file, found, do in (
        (text, "is not a netCDF file that can be read", "Fit the log again"),
        (missing, "does not exist", "Give the fit.nc that `sde-grpo fit LOG --out DIR` wrote"),
        (tmp_path, str(tmp_path), "Give the fit.nc"),
    ):
        for json in ((), ("--json",)):
            result = invoke("check", file, *json)
            assert result.exit_code == 2, (result.stderr, result.exception)
            assert result.stdout == ""
            assert found in result.stderr
            assert do in result.stderr
    assert list(tmp_path.iterdir()) == [text]


def test_check_of_another_netcdf_file(tmp_path):
    import xarray as xr

    other = tmp_path / "other.nc"
    xr.Dataset({"x": ("n", [1.0, 2.0])}).to_netcdf(other, engine="h5netcdf")
    result = invoke("check", other)
    assert result.exit_code == 2, (result.stderr, result.exception)
    assert result.stdout == ""
    assert "not a fit of sde_grpo. Fit the log with `sde-grpo fit`" in result.stderr
