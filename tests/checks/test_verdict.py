"""Each planted effect is flagged and named; with the effect removed, the same seeds raise no flag."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from sde_grpo.checks import check_fit, rows_as_records
from sde_grpo.checks.messages import (
    ALTERNATES,
    CALM,
    FALLS,
    GRID,
    REPRODUCED,
    STRAYS,
    TAILS,
    WANDERS,
    changing_noise,
    prediction_message,
    verdict_messages,
)
from sde_grpo.checks.verdict import CheckReport, check_arrays, two_sided
from sde_grpo.errors import InputError
from tests.checks.simulated import (
    DRAWS,
    SD,
    STEPS,
    TRAJECTORY,
    Vector,
    autoregressive,
    model_arrays,
    report_on,
    stand_in,
)

SEEDS = range(10, 15)  # none raises a flag without an effect: checked by test_effect_removed
LAST = np.arange(STEPS) >= 2 * STEPS // 3

Plant = Callable[[np.random.Generator], Vector]


def flagged(report: CheckReport) -> set[str]:
    return {row.statistic for row in report.rows if row.flagged}


def white(rng: np.random.Generator) -> Vector:
    return autoregressive(rng, (STEPS,))


def wandering(rng: np.random.Generator) -> Vector:
    return autoregressive(rng, (STEPS,), 0.7)


def alternating(rng: np.random.Generator) -> Vector:
    return autoregressive(rng, (STEPS,), -0.7)


def collapsing(rng: np.random.Generator) -> Vector:
    return white(rng) - 0.5 * ((np.arange(STEPS) >= 100) & (np.arange(STEPS) < 106))


def louder_at_the_end(rng: np.random.Generator) -> Vector:
    return white(rng) * np.where(LAST, 3.0, 1.0)


def quieter_at_the_end(rng: np.random.Generator) -> Vector:
    return white(rng) * np.where(LAST, 1 / 3, 1.0)


def with_outlier(rng: np.random.Generator) -> Vector:
    return white(rng) + 7 * SD * (np.arange(STEPS) == 40)


def heavy_tailed(rng: np.random.Generator) -> Vector:
    return white(rng) * np.where(rng.random(STEPS) < 0.15, 5.0, 1.0)


def smoothed(rng: np.random.Generator) -> Vector:
    return white(rng) / 2


def wrong_mean(rng: np.random.Generator) -> Vector:
    return white(rng) + 1.5 * SD * np.sin(2 * np.pi * np.arange(STEPS) / STEPS)


def biased(rng: np.random.Generator) -> Vector:
    return white(rng) + 0.6 * SD


PLANTED = [
    (wandering, {"autocorrelation"}, STRAYS),
    (alternating, {"autocorrelation"}, ALTERNATES),
    (collapsing, {"drawdown", "largest_residual"}, FALLS),
    (louder_at_the_end, {"spread_last"}, changing_noise(["last"], [])),
    (quieter_at_the_end, {"spread_last"}, changing_noise([], ["last"])),
    (with_outlier, {"largest_residual"}, TAILS),
    (heavy_tailed, {"largest_residual"}, TAILS),
    (smoothed, {"band_share", "spread_first", "spread_middle", "spread_last", "pit"}, CALM),
    (wrong_mean, {"autocorrelation", "longest_run"}, STRAYS),
    (biased, {"pit"}, STRAYS),
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("plant", "expected", "message"), PLANTED, ids=lambda v: getattr(v, "__name__", ""))
def test_effect_planted(plant: Plant, expected: set[str], message: str, seed: int) -> None:
    report = report_on(plant(np.random.default_rng(seed)), seed + 1000)
    assert expected <= flagged(report)
    assert message in report.messages
    assert REPRODUCED not in report.messages


@pytest.mark.parametrize("seed", SEEDS)
def test_effect_removed(seed: int) -> None:
    report = report_on(white(np.random.default_rng(seed)), seed + 1000)
    assert flagged(report) == set()
    assert report.messages == (REPRODUCED,)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_model_that_wanders_too_is_not_flagged(seed: int) -> None:
    """The replicated traces, not a fixed law of the residuals, set the standard."""
    report = report_on(wandering(np.random.default_rng(seed)), seed + 1000, correlation=0.7)
    assert not flagged(report) & {"autocorrelation", "longest_run"}
    assert STRAYS not in report.messages


@pytest.mark.parametrize("seed", SEEDS)
def test_fluctuation_that_is_in_the_model_is_still_named(seed: int) -> None:
    """What the fluctuation absorbs, nothing else notices: `wander` does, and stays quiet about white noise."""
    report = report_on(wandering(np.random.default_rng(seed)), seed + 1000, correlation=0.7)
    assert "wander" in flagged(report)
    assert WANDERS in report.messages
    quiet = report_on(white(np.random.default_rng(seed)), seed + 1000, correlation=0.0)
    assert "wander" not in flagged(quiet)


def test_side_and_ties() -> None:
    replicated = np.array([1.0, 2.0, 2.0, 3.0, 4.0])
    assert two_sided(np.full(5, 2.0), replicated) == (1.0, "below")  # P(>=) 4/5, P(<=) 3/5
    assert two_sided(np.full(5, 4.0), replicated) == (2 / 5, "above")
    assert two_sided(np.full(5, 0.0), replicated) == (0.0, "below")


def test_observed_varies_with_the_draw() -> None:
    """Realised discrepancies: T(y, θ) is compared with T(y_rep, θ) draw by draw, not with pooled quantiles."""
    observed = np.arange(10.0)
    assert two_sided(observed, observed + 0.1)[0] == 0.0
    assert two_sided(observed, observed + 0.1 * (-1) ** np.arange(10))[0] == 1.0


def test_messages_are_merged() -> None:
    assert verdict_messages({"autocorrelation": "above", "longest_run": "above"}, (0, 0)) == (STRAYS,)
    both = verdict_messages({"spread_first": "below", "spread_last": "above"}, (0, 0))
    assert both == (changing_noise(["last"], ["first"]),)
    assert "more in the last third and less in the first third" in both[0]
    assert verdict_messages({f"spread_{p}": "above" for p in ("first", "middle", "last")}, (0, 0)) == (TAILS,)
    assert verdict_messages({f"spread_{p}": "below" for p in ("first", "middle", "last")}, (0, 0)) == (CALM,)
    assert verdict_messages({}, (9, 9)) == (REPRODUCED,)


def test_prediction_message() -> None:
    assert [prediction_message(*v) for v in ((5, 1), (-5, 1), (1, 5), (1, -5), (1, 1))] == [
        STRAYS,
        STRAYS,
        TAILS,
        CALM,
        GRID,
    ]


def test_every_statistic_has_a_message_on_both_sides() -> None:
    names = [row.statistic for row in report_on(white(np.random.default_rng(0)), 0).rows]
    assert len(names) == 10
    for name in names:
        assert REPRODUCED not in verdict_messages({name: "above"}, (0, 0))
        if name != "wander":  # one-sided: residuals that alternate are flagged as autocorrelation
            assert REPRODUCED not in verdict_messages({name: "below"}, (0, 0))


def test_fit_is_its_arrays() -> None:
    noise = collapsing(np.random.default_rng(1))
    arrays = model_arrays(noise, 2)
    report = check_fit(stand_in(TRAJECTORY + noise, arrays))
    direct = check_arrays(TRAJECTORY + noise, *arrays)
    assert (report.rows, report.messages) == (direct.rows, direct.messages)
    assert report.pit.shape == (STEPS,)
    assert report.pit_p_value == next(row.p_value for row in report.rows if row.statistic == "pit")


def test_records_are_plain_data() -> None:
    report = report_on(collapsing(np.random.default_rng(1)), 2)
    records = json.loads(json.dumps(rows_as_records(report)))
    assert all(set(r) == {"statistic", "observed", "p_value", "q05", "q95", "flagged"} for r in records)
    by_name = {r["statistic"]: r for r in records}
    assert by_name["drawdown"]["flagged"] is True
    assert by_name["drawdown"]["observed"] > by_name["drawdown"]["q95"] > by_name["drawdown"]["q05"]


@pytest.mark.parametrize(
    ("position", "change", "message"),
    [
        (0, lambda v: v[0, :2], "at least 3 steps"),
        (0, lambda v: np.where(np.arange(STEPS) == 3, np.nan, v[0]), "reward holds values that are not finite"),
        (1, lambda v: v[:, 1:], rf"replicated has shape .* allowed is \(draw, {STEPS}\)"),
        (2, lambda v: v[0], "mean has shape"),
        (3, lambda v: 0 * v, "sd must be positive; its smallest value is 0"),
        (5, lambda v: v[:3], rf"ahead_sd has shape .* the same draws as mean \(\({DRAWS}"),
        (4, lambda v: v * np.inf, "ahead_mean holds values that are not finite; the fit has failed"),
    ],
)
def test_refused(position: int, change: Callable[[Vector], Vector], message: str) -> None:
    noise = white(np.random.default_rng(3))
    given = [TRAJECTORY + noise, *model_arrays(noise, 4)]
    given[position] = change(np.atleast_2d(given[position]))
    with pytest.raises(InputError, match=message):
        check_arrays(*given)
