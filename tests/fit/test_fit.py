"""One fit of a simulated run, used by every test of this file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import arviz
import jax
import numpy as np
import pytest
import xarray as xr

from sde_grpo import Configuration, Fit, InputError, fit_run, plot_bands, plot_checks, run_from_arrays
from sde_grpo.answers import mean_at, share_done, steps_to_share
from sde_grpo.fit import storage
from sde_grpo.intervals import interval

TRUE = {"start": 0.2, "fixed_point": 0.75, "relaxation_time": 25.0}


@pytest.fixture(scope="module")
def fit() -> Fit:
    """120 steps of a single exponential in the logit, 32 prompts x 8 completions, independent."""
    rng = np.random.default_rng(7)
    logit = lambda p: np.log(p / (1 - p))  # noqa: E731
    steps = np.arange(1, 121)
    z = logit(0.75) + (logit(0.2) - logit(0.75)) * np.exp(-(steps - 1) / TRUE["relaxation_time"])
    reward = rng.binomial(256, 1 / (1 + np.exp(-z))) / 256
    known = Configuration(group_size=8, prompts_per_step=32)
    return fit_run(run_from_arrays(steps, reward, configuration=known), seed=1)


def test_it_converges_and_recovers_the_truth(fit: Fit) -> None:
    sampler = fit.record["sampler"]
    assert sampler["converged"], sampler
    assert sampler["divergences"] == 0
    for name in ("start", "fixed_point"):
        low, high = np.quantile(fit.draws(name), [0.005, 0.995])
        assert low < TRUE[name] < high
    np.testing.assert_allclose(np.median(fit.draws("fixed_point")), 0.75, atol=0.03)
    assert np.median(fit.draws("prompt_correlation")) < 0.15


def test_saved_and_loaded_it_is_the_same(fit: Fit, tmp_path: Path) -> None:
    fit.save(tmp_path / "fit.nc")
    again = Fit.load(tmp_path / "fit.nc")
    xr.testing.assert_identical(again.posterior, fit.posterior)
    np.testing.assert_array_equal(again.run.reward, fit.run.reward)
    assert again.run.configuration == fit.run.configuration
    assert again.summary() == fit.summary()


def test_a_failed_save_leaves_the_old_file_whole(fit: Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "fit.nc"
    fit.save(path)
    before = path.read_bytes()

    def broken(source, target) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        fit.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["fit.nc"]


def test_loading_what_is_no_fit_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        Fit.load(tmp_path / "none.nc")
    (tmp_path / "text.nc").write_text("not netCDF")
    with pytest.raises(InputError, match="not a netCDF file"):
        Fit.load(tmp_path / "text.nc")
    storage.save_tree(xr.DataTree.from_dict({"a": xr.Dataset({"x": ("i", [1.0])})}), tmp_path / "other.nc")
    with pytest.raises(InputError, match="not a fit of sde_grpo"):
        Fit.load(tmp_path / "other.nc")


def test_summary_is_strict_json_with_every_key(fit: Fit) -> None:
    summary = json.loads(json.dumps(fit.summary(), allow_nan=False))
    assert {"run", "model", "parameters", "forecast", "fit", "sampler", "checks", "verdict", "warnings"} <= set(summary)
    assert set(summary["parameters"]["fixed_point"]) == {"mean", "sd", "q05", "q50", "q95"}
    assert summary["run"]["points"] == 120
    assert 0 <= summary["forecast"]["p_still_rising"] <= 1
    assert abs(summary["fit"]["r2"] - summary["fit"]["r2_ceiling"]) < 0.05


def test_forecast_agrees_with_the_trajectory_and_refuses_the_past(fit: Fit) -> None:
    ahead = fit.forecast(np.arange(121, 161))
    now = mean_at(fit, np.array([159.0]))[:, 0]
    np.testing.assert_allclose(ahead["mean"].to_numpy()[:, -1].mean(), now.mean(), atol=0.005)
    assert ahead["reward"].std() > ahead["expected_reward"].std()
    with pytest.raises(InputError, match="after the last logged step, 120"):
        fit.forecast([100, 130])


def test_answers_hang_together(fit: Fit) -> None:
    done = steps_to_share(fit)
    mean = mean_at(fit, (done - 1)[:, None])[:, 0]
    away = np.abs(mean - fit.draws("fixed_point"))
    rise = np.abs(fit.draws("fixed_point") - fit.draws("start"))
    assert np.quantile(away / rise, 0.99) < 0.051
    low, high = interval(share_done(fit))
    assert low < 1 < high + 0.2


def test_arviz_reads_the_tree(fit: Fit) -> None:
    assert float(arviz.rhat(fit.tree["posterior"].to_dataset())["fixed_point"]) < 1.02
    assert fit.tree["log_likelihood"]["reward"].dims == ("chain", "draw", "step")
    total = fit.tree["log_likelihood"]["reward"].sum("step")
    assert np.isfinite(total).all()


def test_pictures_are_drawn(fit: Fit, tmp_path: Path) -> None:
    for name, plot in (("bands", plot_bands), ("checks", plot_checks)):
        plot(fit).savefig(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000


def test_float32_is_refused(fit: Fit) -> None:
    with jax.enable_x64(False), pytest.raises(InputError, match="jax_enable_x64"):
        fit_run(fit.run)
