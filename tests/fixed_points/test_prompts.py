"""Averages over prompts: quadrature, plateau, spectrum, and what a single exponential makes of the mean curve."""

import math

import numpy as np
import pytest

from sde_grpo.errors import InputError
from sde_grpo.fixed_points import (
    Prompts,
    anchored,
    apparent_exponential,
    beta_prompts,
    fixed_point,
    mean_curve,
    mixture_plateau,
    plateau,
    stretching_exponent,
)
from tests.tolerance import assert_close

T = np.arange(0.0, 300.0, 3.0)
RATE, BETA, G = 0.05, 2.5, 8


@pytest.mark.parametrize(("mean", "concentration"), [(0.3, 2.0), (0.6, 1.0), (0.5, 20.0)])
def test_beta_prompts_have_the_moments_of_the_distribution(mean, concentration):
    prompts = beta_prompts(mean, concentration)
    variance = mean * (1 - mean) / (concentration + 1)
    assert prompts.weights @ prompts.p_ref == pytest.approx(mean, rel=1e-12)
    assert prompts.weights @ (prompts.p_ref - mean) ** 2 == pytest.approx(variance, rel=1e-12)
    assert prompts.weights.sum() == pytest.approx(1)


def test_the_quadrature_of_the_mean_curve_has_converged():
    few, many = (mean_curve(T, beta_prompts(0.3, 2.0, n), RATE, BETA, G) for n in (24, 40))
    assert_close(few, many, 1e-5)


def test_the_mean_is_the_weighted_sum_of_the_prompts():
    prompts = Prompts(np.array([0.1, 0.6]), np.array([3.0, 1.0]))
    expected = 0.75 * anchored(T, 0.1, RATE, 0.1, BETA, G) + 0.25 * anchored(T, 0.6, RATE, 0.6, BETA, G)
    assert_close(mean_curve(T, prompts, RATE, BETA, G), expected, 1e-12)
    assert mixture_plateau(prompts, BETA, G).p == pytest.approx(
        0.75 * fixed_point(0.1, BETA, G) + 0.25 * fixed_point(0.6, BETA, G)
    )


def test_the_end_of_the_curve_is_the_sum_of_exponentials_of_its_spectrum():
    prompts = Prompts(np.array([0.3, 0.5, 0.7]), np.ones(3))
    end = mixture_plateau(prompts, BETA, G)
    assert end.amplitudes.sum() == pytest.approx(1)
    assert np.all(np.diff(end.curvatures) > 0)
    late = np.linspace(600, 900, 20)
    gap = end.p - np.asarray(mean_curve(late, prompts, RATE, BETA, G))
    ratio = np.log(gap[:-1] / gap[1:]) / np.diff(late)
    assert ratio[-1] == pytest.approx(RATE * end.curvatures[0], rel=0.02)  # the slowest prompt is left
    assert np.all(np.diff(ratio) < 0)


def test_averaging_stretches_the_curve_and_hides_part_of_the_plateau_behind_a_better_fit():
    """The effect is the spread of prompts: one prompt has neither, and its own bend is the larger misfit."""
    found = {}
    for name, prompts in {"one": Prompts(np.array([0.3]), np.ones(1)), "many": beta_prompts(0.3, 1.0)}.items():
        curve = np.asarray(mean_curve(T, prompts, RATE, BETA, G))
        end = mixture_plateau(prompts, BETA, G).p
        short = apparent_exponential(T[:34], curve[:34])
        hidden = (end - short.plateau) / (end - curve[0])
        found[name] = (stretching_exponent(T, curve, end), hidden, short.largest_error)
    assert found["one"][0] > 1.03
    assert found["many"][0] < 0.83
    assert -0.03 < found["one"][1] < 0
    assert 0.07 < found["many"][1] < 0.09
    assert found["many"][2] < 0.0005 < 0.002 < found["one"][2]


def test_unheld_prompts_escape():
    prompts = Prompts(np.array([0.2, 0.5]), np.array([1.0, 3.0]))
    end = mixture_plateau(prompts, 1.2)  # the fold is at 0.96 for p_ref 0.2 and at 1.509 for p_ref 0.5
    assert end.escaping == pytest.approx(0.75)
    assert end.p == pytest.approx(0.25 * fixed_point(0.2, 1.2) + 0.75)
    assert_close(end.curvatures, [plateau(0.2, 1.2).curvature], 1e-12)
    nothing = mixture_plateau(Prompts(np.array([0.5]), np.ones(1)), 0.1)
    assert (nothing.p, nothing.escaping, len(nothing.amplitudes)) == (1.0, 1.0, 0)


def test_an_exponential_is_recovered():
    fit = apparent_exponential(T, 0.7 - 0.5 * np.exp(-T / 37))
    assert (fit.plateau, fit.start, fit.relaxation_time) == pytest.approx((0.7, 0.2, 37), rel=1e-6)
    assert fit.largest_error < 1e-8
    assert stretching_exponent(T, 0.7 - 0.5 * np.exp(-T / 37), 0.7) == pytest.approx(1, rel=1e-9)
    stretched = 0.7 - 0.5 * np.exp(-np.sqrt(T / 37))
    assert stretching_exponent(T, stretched, 0.7) == pytest.approx(0.5, rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.array([0.5, 1.0]), np.ones(2)), r"p_ref is \[0\.5 1\. \]; every value must lie strictly between 0 and 1"),
        ((np.array([[0.5]]), np.ones((1, 1))), r"p_ref has shape \(1, 1\); it must have one axis|f64\[1,1\]"),
        ((np.array([0.5]), np.array([1.0, 1.0])), r"weights has shape \(2,\) and p_ref \(1,\); they|f64\[2\]"),
        ((np.array([0.5]), np.array([0.0])), r"weights is \[0\.\]; every value must be positive and finite"),
    ],
)
def test_prompts_errors(arguments, message):
    # TypeError: what a run under the jaxtyping hook sees first
    with pytest.raises((InputError, TypeError), match=message):
        Prompts(*arguments)


def test_other_errors():
    with pytest.raises(InputError, match=r"mean is 1\.0; it must lie strictly between 0 and 1"):
        beta_prompts(1.0, 2.0)
    with pytest.raises(InputError, match="concentration is inf; it must be positive and finite"):
        beta_prompts(0.5, math.inf)
    with pytest.raises(InputError, match="nodes is 0; it must be a whole number of at least 1"):
        beta_prompts(0.5, 2.0, 0)
    with pytest.raises(InputError, match=r"t has shape \(3,\) and curve \(3,\); both must have one axis .* at least 4"):
        apparent_exponential(T[:3], T[:3])
    with pytest.raises(InputError, match="t must be finite and increasing"):
        apparent_exponential(T[::-1], T)
    with pytest.raises(InputError, match="curve must be finite and not constant"):
        apparent_exponential(T, np.ones_like(T))
    with pytest.raises(InputError, match="0 rows have between 1 % and 99 % of the way to go"):
        stretching_exponent(T, np.where(T > 0, 1.0, 0.0), 1.0)
