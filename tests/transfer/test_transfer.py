"""One curvature across settings: recovered, predicted, and its scatter found, from draws of known runs."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from sde_grpo import Configuration, InputError, run_from_arrays
from sde_grpo.inference import convergence
from sde_grpo.transfer import Setting, parse_setting
from sde_grpo.transfer.design import build_lanes, setting_of, settings_of
from sde_grpo.transfer.left_out import compare_left_out
from sde_grpo.transfer.modes import motion
from sde_grpo.transfer.one_run import KEPT, OwnDraws
from sde_grpo.transfer.population import build_kernels, sample_population
from sde_grpo.transfer.predict import Batches, predict_setting

SETTINGS = (
    Setting(0.02, 0.0, "heavy_ball", 1),
    Setting(0.04, 0.0, "heavy_ball", 4),
    Setting(0.003, 0.9, "heavy_ball", 1),
    Setting(0.002, 0.9, "heavy_ball", 8),
)
LOG_CURVATURE, START, FIXED_POINT = 0.0, -1.0, 1.0


def own_draws(shift: float) -> OwnDraws:
    """Normal draws about the truth, the last setting's curvature being exp(shift) times that of the others."""
    rng = np.random.default_rng(5)

    def draws(truth: np.ndarray) -> np.ndarray:
        return truth[:, None] + 0.1 * rng.standard_normal((4, 1)) + 0.1 * rng.standard_normal((4, KEPT))

    log_curvature = draws(LOG_CURVATURE + np.array([0, 0, 0, shift]))
    start, fixed_point = draws(np.full(4, START)), draws(np.full(4, FIXED_POINT))
    lanes = zip(SETTINGS, log_curvature, strict=True)
    tau = np.array([motion(settings_of(s), np.exp(own), longest=8).relaxation_time for s, own in lanes])
    zeros = np.zeros((4, KEPT))
    return OwnDraws(log_curvature, start, fixed_point, tau, zeros, zeros + 1, zeros, np.ones(4, bool))


@cache
def population(shift: float):
    own = own_draws(shift)
    weights = np.array([np.ones(4), [1.0, 1.0, 1.0, 0.0]])
    return own, sample_population(build_kernels(own, np.arange(4), 0.0, True), weights)


def test_common_curvature_is_found_and_scatter_only_where_there_is_some() -> None:
    _, alike = population(0.0)
    reached = convergence({n: alike[n][0] for n in ("log_curvature", "scatter_of_settings", "start", "fixed_point")})
    assert reached.rhat_max < 1.02
    for name, truth in (("log_curvature", LOG_CURVATURE), ("start", START), ("fixed_point", FIXED_POINT)):
        low, high = np.quantile(alike[name][0], [0.05, 0.95])
        assert low < truth < high
    apart = population(1.5)[1]
    assert np.median(alike["scatter_of_settings"][0]) < 0.25
    assert np.median(apart["scatter_of_settings"][0]) > 0.45
    assert abs(np.median(apart["log_curvature"][1])) < 0.2  # the setting that differs was left out


@pytest.mark.parametrize("shift", [0.0, 1.5])
def test_setting_left_out_is_covered_or_named(shift: float) -> None:
    own, sites = population(shift)
    setting = SETTINGS[-1]
    tau = float(motion(settings_of(setting), np.exp(LOG_CURVATURE), longest=8).relaxation_time)
    rng = np.random.default_rng(0)
    steps = np.arange(1.0, 241.0, 8.0)
    unit = 1 / (1 + np.exp(-(FIXED_POINT + (START - FIXED_POINT) * np.exp(-(steps - 1) / tau))))
    reward = unit + np.sqrt(unit * (1 - unit) / 128) * rng.standard_normal(len(steps))
    run = run_from_arrays(steps, reward, configuration=Configuration(reward_range=(0.0, 1.0)))
    flat = {n: v[1].reshape(-1, *v.shape[3:]) for n, v in sites.items()}
    counted = np.array([True, True, True, False])
    prediction = predict_setting(flat, setting, own, counted, steps - 1, Batches(128.0, 1.0, 0.0, 1.0), "logit")
    mine = {n: getattr(own, n)[3] for n in OwnDraws._fields if n != "converged"}
    found = compare_left_out(run, prediction, mine)
    assert found.fails == (shift > 0)
    assert found.covered == (shift == 0)
    assert found.rewards_inside > 0.8
    assert ("fails here" if shift else "holds") in found.sentence
    assert abs(found.log_ratio["mean"] - np.log(np.median(mine["relaxation_time"]) / tau)) < 0.3


def run_of(setting: Setting | None, **more: object):
    known = (
        {} if setting is None else {n: getattr(setting, n) for n in ("learning_rate", "momentum", "refresh_interval")}
    )
    return run_from_arrays(np.arange(30), np.linspace(0.2, 0.6, 30), configuration=Configuration(**known, **more))  # pyright: ignore[reportArgumentType]


def test_runs_that_cannot_share_a_curvature_are_refused() -> None:
    bounded = {"reward_range": (0.0, 1.0)}
    with pytest.raises(InputError, match="learning_rate, momentum, refresh_interval is not known"):
        build_lanes([run_of(None, **bounded)])
    with pytest.raises(InputError, match=r"All 2 runs have the setting learning_rate=0\.02"):
        build_lanes([run_of(SETTINGS[0], **bounded)] * 2)
    with pytest.raises(InputError, match=r"reward ranges.*--reward-range"):
        build_lanes([run_of(SETTINGS[0], **bounded), run_of(SETTINGS[1], reward_range=(0.0, 2.0))])
    with pytest.raises(InputError, match="lag_schedule is 'constant'"):
        setting_of(Configuration(learning_rate=0.1, momentum=0.0, refresh_interval=2, lag_schedule="constant"), "x")


def test_setting_from_text() -> None:
    assert parse_setting("learning_rate=0.02, momentum=0,refresh_interval=1", SETTINGS) == SETTINGS[0]
    with pytest.raises(InputError, match=r"--predict has 'lr=1'; write learning_rate="):
        parse_setting("lr=1", SETTINGS)
    with pytest.raises(InputError, match="refresh_interval must be a number"):
        parse_setting("refresh_interval=often", SETTINGS)
    with pytest.raises(InputError, match="refresh_interval is not known"):
        parse_setting("learning_rate=0.02,momentum=0", SETTINGS)
