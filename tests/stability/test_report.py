"""Reports of a known curvature and of the draws of a fit: margins, regimes, probabilities, and the words for them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from sde_grpo.errors import InputError
from sde_grpo.oscillator import UpdateRule
from sde_grpo.plots.stability import plot_stability
from sde_grpo.stability import (
    as_record,
    assess_stability,
    critical_stiffness,
    curvature_of_fit,
    ringing_stiffness,
    rule_of_fit,
    verdict,
)
from tests.stability.fits import SETTINGS, fit_with
from tests.stability.simulation import paths
from tests.tolerance import assert_close

RULE = UpdateRule(0.01, 0.9, "heavy_ball", 4)
CRITICAL, RINGING = critical_stiffness(RULE), ringing_stiffness(RULE)
TAU = np.exp(np.random.default_rng(3).normal(np.log(40), 0.3, 400))


def kappa_at(stiffness: float) -> float:
    return stiffness / 0.01


@pytest.mark.parametrize(
    ("stiffness", "regime", "says"),
    [
        (0.5 * RINGING, "overdamped", "Safe: stable and without overshoot"),
        (2.0 * RINGING, "oscillatory", "Stable, but rings"),
        (0.9 * CRITICAL, "oscillatory", "Stable, but rings"),
        (1.1 * CRITICAL, "unstable", "Unstable: the learning rate 0.01 is 1.1 times the largest"),
    ],
)
def test_regime_margins_and_words(stiffness: float, regime: str, says: str) -> None:
    report = assess_stability(RULE, kappa_at(stiffness))
    assert report.regime == regime
    assert_close(report.stiffness_per_step, stiffness, 1e-12)
    assert_close(report.margin, CRITICAL / stiffness, 1e-12)
    assert_close(report.ringing_margin, RINGING / stiffness, 1e-12)
    assert_close(report.critical_learning_rate, 0.01 * CRITICAL / stiffness, 1e-12)
    assert (report.probability_unstable, report.probability_ringing) == (regime == "unstable", regime == "oscillatory")
    assert verdict(report)[0].startswith(says)


def test_raised_by_its_margin_the_learning_rate_is_critical() -> None:
    report = assess_stability(RULE, 0.7)
    raised = dataclasses.replace(RULE, learning_rate=0.01 * float(report.margin))
    assert_close(assess_stability(raised, 0.7).spectral_radius, 1.0, 1e-12)


@pytest.mark.parametrize("rule", [RULE, UpdateRule(0.01, 0.5, "heavy_ball", 6, "constant")], ids=str)
def test_period_and_decay_are_those_of_the_update(rule: UpdateRule) -> None:
    a = 0.5 * critical_stiffness(rule)
    report = assess_stability(rule, a / 0.01)
    blocks = list(paths(rule, np.array([a]), 60))
    x = np.concatenate([values[:, 0] * np.exp(unit[0] - blocks[30][1][0]) for values, unit in blocks[30:]])
    changes = np.flatnonzero(np.sign(x[1:]) != np.sign(x[:-1]))
    period = 2 * (changes[-1] - changes[0]) / (len(changes) - 1)
    assert_close(report.period, period, 2e-2)
    middle = len(blocks[30:]) // 2
    energy = [np.log(np.sum(values**2)) + 2 * unit[0] for values, unit in blocks[30:]]
    per_step = (np.mean(energy[middle:]) - np.mean(energy[:middle])) / (200 * middle)
    assert_close(np.log(report.decay_per_cycle), per_step * float(report.period), 1e-2)


def test_a_stable_window_is_called_one() -> None:
    report = assess_stability(UpdateRule(0.02, 0.95, "heavy_ball", 16, "periodic", 0.2), 4.0)
    assert report.margin < 1
    assert report.spectral_radius < 1
    assert verdict(report)[0].startswith("Stable only within a window: lower learning rates are unstable")


def test_record_is_strict_json_with_none_for_what_does_not_exist() -> None:
    record = json.loads(json.dumps(as_record(assess_stability(RULE, kappa_at(0.9 * RINGING))), allow_nan=False))
    assert record["period"] is None
    assert record["regime"] == "overdamped"
    assert record["critical_stiffness"] == CRITICAL
    assert isinstance(record["critical_refresh_interval"], int)
    assert record["settings"] == {
        "learning_rate": 0.01,
        "momentum": 0.9,
        "momentum_kind": "heavy_ball",
        "refresh_interval": 4,
        "lag_schedule": "periodic",
        "stale_fraction": 1.0,
        "lag_weights": None,
    }
    assert "probability_unstable" not in record
    far = as_record(assess_stability(UpdateRule(1e-6, stale_fraction=-0.5), 1.0))
    assert far["critical_refresh_interval"] is far["critical_stiffness_paper"] is None


def test_a_mixed_lag_is_reported_without_interval_or_picture() -> None:
    rule = UpdateRule(0.01, 0.9, "heavy_ball", 2, "constant", 1.0, (0.5, 0.25, 0.25))
    report = assess_stability(rule, 1.0)
    assert report.critical_refresh_interval is None
    assert as_record(report)["settings"]["lag_weights"] == [0.5, 0.25, 0.25]
    assert verdict(report)
    with pytest.raises(InputError, match="one refresh interval per row"):
        plot_stability(report)


def test_probabilities_are_shares_of_the_draws() -> None:
    planted = np.repeat([0.5 * RINGING, 0.5 * CRITICAL, 2 * CRITICAL], [20, 70, 10])
    report = assess_stability(RULE, kappa_at(1.0) * planted)
    assert (report.probability_unstable, report.probability_ringing) == (0.1, 0.7)
    assert report.regime == "oscillatory"
    assert "probability 10%" in verdict(report)[1]
    calm = assess_stability(RULE, kappa_at(1.0) * planted[:90])
    assert calm.probability_unstable == 0
    assert not any("rule instability out" in line for line in verdict(calm))


def test_a_fit_brings_its_settings_and_its_curvature() -> None:
    fit = fit_with(TAU, **SETTINGS)
    assert rule_of_fit(fit) == UpdateRule(**SETTINGS)
    assert rule_of_fit(fit, learning_rate=0.5).learning_rate == 0.5
    assert_close(curvature_of_fit(fit), fit.draws("curvature"), 1e-12)
    assert_close(curvature_of_fit(fit), 0.1 / (0.001 * (TAU + 1.5)), 1e-12)
    assert_close(curvature_of_fit(fit, -0.5), 0.1 / (0.001 * (TAU - 0.75)), 1e-12)


def test_margins_of_a_fit_have_intervals() -> None:
    record = as_record(assess_stability(RULE, curvature_of_fit(fit_with(TAU, **SETTINGS))))
    margin = CRITICAL / (0.01 * 0.1 / (0.001 * (TAU + 1.5)))
    assert_close([record["margin"][q] for q in ("q05", "q50", "q95")], np.quantile(margin, [0.05, 0.5, 0.95]), 1e-10)
    for name in ("critical_learning_rate", "ringing_margin", "stiffness_per_step", "spectral_radius"):
        assert record[name]["q05"] < record[name]["q50"] < record[name]["q95"], name
    assert record["critical_refresh_interval"].keys() == {"q05", "q50", "q95"}


def test_the_time_scale_of_a_log_by_rollout_is_in_rollouts() -> None:
    fit = fit_with(TAU / 4, **SETTINGS, step_unit="rollout")
    assert_close(curvature_of_fit(fit), 0.1 / (0.001 * (TAU + 1.5)), 1e-12)


def test_a_fit_without_settings_says_nothing_of_stability() -> None:
    fit = fit_with(TAU, momentum=0.9)
    with pytest.raises(
        InputError, match=r"no curvature: it was made without learning_rate, refresh_interval\. Fit the"
    ):
        curvature_of_fit(fit)
    with pytest.raises(InputError, match=r"does not say its learning_rate, refresh_interval; give the setting"):
        rule_of_fit(fit)


def test_another_optimizer_has_another_curvature() -> None:
    with pytest.raises(InputError, match=r"momentum_kind is 'heavy_ball', but the run was fitted with 'ema'"):
        rule_of_fit(fit_with(TAU, **SETTINGS), momentum_kind="heavy_ball")
    with pytest.raises(InputError, match=r"momentum_kind is 'ema', but the run was fitted with 'heavy_ball'"):
        rule_of_fit(fit_with(TAU, learning_rate=0.1, momentum=0.5, refresh_interval=1), momentum_kind="ema")


def test_a_stale_fraction_that_the_time_scale_excludes_is_refused() -> None:
    with pytest.raises(InputError, match=r"stale_fraction is -50\.0; .* belong to no positive curvature"):
        curvature_of_fit(fit_with(TAU, **SETTINGS), -50.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": float("inf")}, "learning_rate is inf; it must be positive and finite"),
        ({"momentum": float("nan")}, r"momentum is nan; it must lie in \[0, 1\)"),
        ({"stale_fraction": float("nan")}, "stale_fraction is nan; it must be finite"),
        ({"stale_fraction": float("-inf")}, "stale_fraction is -inf; it must be finite"),
        (
            {"refresh_interval": 2.5},
            "refresh_interval is 2.5; under the periodic schedule it must be at least 1, and a",
        ),
        ({"lag_weights": (0.5, 0.5)}, "lag_weights are given under the periodic schedule"),
        (
            {"lag_schedule": "constant", "lag_weights": (0.5, 0.5)},
            "has 2 entries, but the lags 0 ... refresh_interval = 4",
        ),
        (
            {"lag_schedule": "constant", "lag_weights": (0.5, -0.5, 1.0, 0.0, 0.0)},
            "they are shares of a batch: none negative, and summing to 1",
        ),
        (
            {"lag_schedule": "constant", "lag_weights": (0.5, float("nan"), 0.5, 0.0, 0.0)},
            "they are shares of a batch",
        ),
    ],
)
def test_settings_out_of_range_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        UpdateRule(**(SETTINGS | change))


def test_moments_of_a_mixed_lag() -> None:
    rule = UpdateRule(0.01, 0.9, "heavy_ball", 3, "constant", 1.0, (0.4, 0.3, 0.2, 0.1))
    assert_close(rule.lag_moments, [1.0, 2.0], 1e-14)


@pytest.mark.parametrize("curvature", [0.0, -1.0, float("nan")])
def test_a_curvature_that_is_not_positive_is_refused(curvature: float) -> None:
    with pytest.raises(InputError, match=rf"curvature is {curvature}; it must be positive and finite"):
        assess_stability(RULE, curvature)


@pytest.mark.parametrize("schedule", ["periodic", "constant"])
def test_the_picture_shows_limits_bands_and_the_setting(schedule) -> None:
    rule = dataclasses.replace(RULE, lag_schedule=schedule)
    figure = plot_stability(
        assess_stability(rule, kappa_at(RINGING) * np.exp(0.3 * np.random.default_rng(1).normal(size=50)))
    )
    (axes,) = figure.axes
    labels = axes.get_legend_handles_labels()[1]
    assert labels.count("90 %") == 2
    assert {"ringing begins", "instability begins", "the paper's limit", "this setting"} <= set(labels)
    point = next(line for line in axes.lines if line.get_label() == "this setting")
    assert_close(np.ravel(point.get_xydata()), [0.01, 4.0], 1e-12)
    limit = next(line for line in axes.lines if line.get_label() == "instability begins")
    x, y = np.asarray(limit.get_xydata()).T
    kappa = float(np.median(assess_stability(rule, kappa_at(RINGING)).curvature))
    assert np.all(np.diff(x) < 0)
    assert 0.3 < x[y == 4.0][0] * kappa / critical_stiffness(rule) < 3
