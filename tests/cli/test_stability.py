"""`sde-grpo stability`: verdict, table, JSON, picture, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sde_grpo.oscillator import UpdateRule
from sde_grpo.stability import critical_stiffness, curvature_of_fit, ringing_stiffness
from tests.cli.commands import invoke, words
from tests.stability.fits import SETTINGS, fit_with

KNOWN = ("--learning-rate", "0.02", "--momentum", "0.9", "--refresh-interval", "4", "--curvature", "0.4")
KEYS = {
    "regime",
    "critical_stiffness",
    "critical_stiffness_paper",
    "ringing_stiffness",
    "margin",
    "settings",
    "verdict",
}
KEYS |= {"critical_learning_rate", "critical_refresh_interval", "critical_stiffness_average"}


@pytest.fixture(scope="module")
def fit(tmp_path_factory) -> Path:
    """A saved fit, whose curvature is about 2.4, or 10 times that in one draw of 20."""
    tau = np.exp(np.random.default_rng(5).normal(np.log(40), 0.2, 200))
    tau[::20] /= 10
    path = tmp_path_factory.mktemp("stability") / "fit.nc"
    fit_with(tau, **SETTINGS).save(path)
    return path


def report(*arguments: str | Path) -> dict:
    """The JSON that the command prints."""
    result = invoke("stability", *arguments, "--json")
    assert result.exit_code == 0, (result.stderr, result.exception)
    assert result.stderr == ""
    return json.loads(result.stdout)


def refused(*arguments: str | Path) -> str:
    result = invoke("stability", *arguments)
    assert result.exit_code == 2, (result.stdout, result.stderr, result.exception)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_json_of_a_known_curvature():
    found, rule = report(*KNOWN), UpdateRule(0.02, 0.9, "heavy_ball", 4)
    assert found.keys() >= KEYS
    assert found["regime"] == "oscillatory"
    assert found["critical_stiffness"] == critical_stiffness(rule)
    assert found["critical_stiffness_paper"] == pytest.approx(0.1 / 4)
    assert found["ringing_stiffness"] == ringing_stiffness(rule)
    assert found["margin"] == pytest.approx(critical_stiffness(rule) / 0.008)
    assert found["settings"]["momentum_kind"] == "heavy_ball"


def test_every_setting_is_heard():
    options = ("--momentum-kind", "ema", "--lag-schedule", "constant", "--stale-fraction", "-0.3")
    found, rule = report(*KNOWN, *options), UpdateRule(0.02, 0.9, "ema", 4, "constant", -0.3)
    assert found["critical_stiffness"] == critical_stiffness(rule)
    assert found["stiffness_per_step"] == pytest.approx(0.0008)
    assert found["critical_stiffness_paper"] is None


def test_verdict_and_table():
    result = invoke("stability", *KNOWN)
    assert result.exit_code == 0, (result.stderr, result.exception)
    assert words(result.stdout).startswith(
        "Stable, but rings: the reward overshoots its plateau by about 16.2 % of the"
    )
    assert "The learning rate could rise 9.13 times before the run is unstable" in words(result.stdout)
    for name in ("critical_stiffness_paper", "ringing_margin", "critical_refresh_interval"):
        assert name in result.stdout
    assert words(invoke("stability", *KNOWN, "--learning-rate", "0.4").stdout).startswith(
        "Unstable: the learning rate 0.4 is 2.19 times the largest that these settings bear. Go below 0.183, or allow "
    )
    assert invoke("stability", *KNOWN, "--learning-rate", "0.001").stdout.startswith("Safe: stable and without")


def test_a_fit_gives_settings_and_intervals(fit):
    found = report("--fit", fit)
    assert {name: found["settings"][name] for name in SETTINGS} == SETTINGS
    assert found.keys() >= KEYS
    for name in ("margin", "ringing_margin", "critical_learning_rate", "curvature"):
        assert found[name]["q05"] < found[name]["q50"] < found[name]["q95"], name
    assert found["probability_unstable"] == 0


def test_a_proposed_setting_is_judged_with_the_curvature_of_the_fit(fit):
    from sde_grpo.fit import Fit

    critical = critical_stiffness(UpdateRule(**SETTINGS))
    rate = 10 * critical / float(np.median(curvature_of_fit(Fit.load(fit)))) / 2
    found = report("--fit", fit, "--learning-rate", str(rate))
    assert found["settings"]["learning_rate"] == rate
    assert found["probability_unstable"] == pytest.approx(0.05, abs=0.03)
    result = invoke("stability", "--fit", fit, "--learning-rate", str(rate), "--refresh-interval", "64")
    assert result.exit_code == 0, (result.stderr, result.exception)
    assert words(result.stdout).startswith("Unstable: the learning rate")
    assert "Probability of instability" in words(result.stdout)


def test_a_fit_that_has_not_converged_says_so(tmp_path):
    fit_with(np.linspace(30, 50, 20), converged=False, **SETTINGS).save(tmp_path / "fit.nc")
    assert report("--fit", tmp_path / "fit.nc")["verdict"][0] == "NOT CONVERGED: this fit must not be used."


def test_the_picture_is_written_and_not_overwritten(fit, tmp_path):
    picture = tmp_path / "region.png"
    for arguments in (KNOWN, ("--fit", fit)):
        picture.unlink(missing_ok=True)
        result = invoke("stability", *arguments, "--out", picture)
        assert result.exit_code == 0, (result.stderr, result.exception)
        assert f"Written to {picture}" in result.stdout
        assert picture.read_bytes().startswith(b"\x89PNG")
    picture.write_text("kept")
    message = refused(*KNOWN, "--out", picture)
    assert "exists; add --force to replace it, or name another file" in message
    assert picture.read_text() == "kept"
    assert invoke("stability", *KNOWN, "--out", picture, "--force", "--json").exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [picture]


def test_a_picture_that_cannot_be_written(tmp_path, monkeypatch):
    assert "must end in .png" in refused(*KNOWN, "--out", tmp_path / "region.txt")
    assert "is no folder; make it, or name another file" in refused(*KNOWN, "--out", tmp_path / "none" / "a.png")
    (tmp_path / "folder.png").mkdir()
    assert "is a folder; name a file" in refused(*KNOWN, "--out", tmp_path / "folder.png", "--force")
    monkeypatch.setattr("sde_grpo.cli.stability.os.access", lambda *_: False)
    assert "no permission to write in" in refused(*KNOWN, "--out", tmp_path / "a.png")


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sde_grpo.plots.stability.plot_stability", full)
    assert "cannot be written (No space left on device)" in refused(*KNOWN, "--out", tmp_path / "a.png", "--json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        ((), "Give either --curvature X, where it is known, or --fit fit.nc"),
        ((*KNOWN, "--fit", "fit.nc"), "Give either --curvature X"),
        (("--curvature", "1"), "needs --learning-rate, --momentum, --refresh-interval too"),
        ((*KNOWN, "--curvature", "-1"), "curvature is -1.0; it must be positive and finite"),
        ((*KNOWN, "--curvature", "nan"), "curvature is nan; it must be positive and finite"),
        ((*KNOWN, "--learning-rate", "0"), "learning_rate is 0.0; it must be positive and finite"),
        ((*KNOWN, "--learning-rate", "nan"), "learning_rate is nan; it must be positive and finite"),
        ((*KNOWN, "--momentum", "1"), "momentum is 1.0; it must lie in [0, 1)"),
        (
            (*KNOWN, "--refresh-interval", "0"),
            "refresh_interval is 0; under the periodic schedule it must be at least 1",
        ),
        ((*KNOWN, "--stale-fraction", "inf"), "stale_fraction is inf; it must be finite"),
        (("--fit", "nowhere.nc"), "nowhere.nc does not exist. Give the fit.nc"),
    ],
)
def test_bad_input(arguments, phrase):
    for json_ in ((), ("--json",)):
        assert phrase in refused(*arguments, *json_)


def test_a_fit_without_learning_rate_is_refused(tmp_path):
    fit_with(np.linspace(30, 50, 20), momentum=0.9).save(tmp_path / "fit.nc")
    message = refused("--fit", tmp_path / "fit.nc", "--learning-rate", "0.1")
    assert "no curvature: it was made without learning_rate, refresh_interval" in message
    assert "Fit the log again with --learning-rate ..., or give the curvature itself" in message


def test_help():
    result = invoke("stability", "--help")
    assert result.exit_code == 0
    for option in ("--curvature", "--fit", "--stale-fraction", "--json", "--force"):
        assert option in result.stdout
