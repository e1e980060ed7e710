"""The series in 1/G: order of convergence, the terms written out, where they fail, and the tables of the README."""

from pathlib import Path

import jax
import numpy as np
import pytest
from scipy.special import expit, logit

import sde_grpo.groups
from sde_grpo.errors import InputError
from sde_grpo.groups import GroupRule, group_signal, leading_order, learning_rate_factor, signal_ratio
from sde_grpo.groups.tables import factor_table, validity_table
from tests.groups.enumeration import NAMES, RULES
from tests.tolerance import assert_close

P = np.array([0.2, 0.35, 0.5, 0.7])
THETA = logit(P)
W = P * (1 - P)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
@pytest.mark.parametrize("order", [1, 2])
def test_error_falls_with_the_next_power_of_the_group_size(rule, order):
    few, many = (
        np.abs(np.stack(leading_order(THETA, size, rule, order)) - np.stack(group_signal(THETA, size, rule)))
        for size in (256, 1024)
    )
    if rule.scale == "none":  # the mean has no further terms
        assert_close(few[0], np.zeros(4), 1e-14, scale=1.0)
        few, many = few[1:], many[1:]
    assert_close(np.log(few / many) / np.log(4), np.full(few.shape, order + 1.0), 0.05)


def test_terms_of_the_default_rule_are_those_of_the_note():
    series = leading_order(THETA, 8)
    assert_close(series.mean, np.sqrt(W) * (1 - 1 / (64 * W)), 1e-14)
    assert_close(series.variance, (1 - 2 * P) ** 2 / 32, 1e-14)


def test_first_correction_of_each_variant():
    for rule, correction in {
        GroupRule(scale="sample"): (1 + 4 * W) / (8 * W),
        GroupRule(baseline="leave_one_out"): (1 - 8 * W) / (8 * W),
        GroupRule(scale="sample", baseline="leave_one_out"): (1 - 2 * P) ** 2 / (8 * W),
    }.items():
        assert_close(leading_order(THETA, 8, rule).mean, np.sqrt(W) * (1 - correction / 8), 1e-14)
    mean_only = leading_order(THETA, 8, GroupRule(scale="none"))
    assert_close(mean_only.mean, W * (1 - 1 / 8), 1e-14)
    assert_close(mean_only.variance, (1 - 2 * P) ** 2 * W / 8, 1e-14)
    assert_close(leading_order(THETA, 8, GroupRule(scale="none", baseline="leave_one_out")).mean, W, 1e-14)


def test_noise_at_even_odds_is_of_second_order():
    """At p = 1/2 the 1/G law gives no noise at all; G^2 Var s tends to 1/8 under every rule."""
    for rule in RULES:
        assert leading_order(THETA, 64, rule).variance[2] == 0
        assert_close(1024**2 * group_signal(THETA, 1024, rule).variance[2], 1 / 8, 0.01)


def test_mean_only_variance_in_closed_form():
    """Var = (w/G) [(1 - 4w) - (2 - 10w)/G + (1 - 6w)/G^2], exactly: a polynomial in k has finitely many terms."""
    expected = W / 7 * ((1 - 4 * W) - (2 - 10 * W) / 7 + (1 - 6 * W) / 49)
    assert_close(group_signal(THETA, 7, GroupRule(scale="none")).variance, expected, 1e-13)


@pytest.mark.parametrize("order", [0, 3, None])
def test_unknown_order_is_refused(order):
    with pytest.raises(InputError, match=f"order is {order}; the expansion is known to orders 1 and 2"):
        leading_order(0.0, 8, order=order)


def test_input_of_the_expansion_is_checked():
    with pytest.raises(InputError, match="group_size is 1"):
        leading_order(0.0, 1)
    with pytest.raises(InputError, match="a logit must be finite"):
        leading_order(np.nan, 8)


def test_readme_shows_the_tables_as_computed():
    readme = (Path(sde_grpo.groups.__file__).parent / "README.md").read_text(encoding="utf-8")
    assert factor_table() in readme
    assert validity_table() in readme


NOTE = {  # G: p*, exact spread of theta; theory note section 5, p_ref 0.5, beta 2.5, P = 4, eta 0.02, mu 0
    2: (0.5987, 0.01612, 0.01121),
    4: (0.6572, 0.01246, 0.00792),
    8: (0.6854, 0.00793, 0.00560),
    16: (0.6975, 0.00453, 0.00396),
    32: (0.7022, 0.00293, 0.00280),
    64: (0.7044, 0.00202, 0.00198),
}


def test_finite_group_table_of_the_note():
    """drift = w [R - beta theta] has its zero at p*; the spread there is sqrt(eta Var s/(2 kappa P))."""
    beta, prompts, eta = 2.5, 4, 0.02

    @jax.jit
    def ratios_and_variances(grids):
        pairs = zip(NOTE, grids, strict=True)
        return [(signal_ratio(theta, size), group_signal(theta, size).variance) for size, theta in pairs]

    grids = [np.linspace(logit(p - 1e-3), logit(p + 1e-3), 21) for p, _, _ in NOTE.values()]
    for (group_size, row), theta, (ratio, variance) in zip(
        NOTE.items(), grids, ratios_and_variances(grids), strict=True
    ):
        fixed_point, spread, leading = row
        excess = np.asarray(ratio) - beta * theta
        root = float(np.interp(0.0, -excess, theta))  # linear over so short a stretch, to 1e-7
        p = expit(root)
        kappa = -p * (1 - p) * np.polyfit(theta, excess, 1)[0]
        here = np.interp(root, theta, variance)
        law = (1 - 2 * 0.70649) ** 2 / (4 * group_size)  # many completions: p* = 0.70649, kappa = 0.42437
        assert round(float(p), 4) == fixed_point
        assert round(float(np.sqrt(eta * here / (2 * kappa * prompts))), 5) == spread
        assert round(float(np.sqrt(eta * law / (2 * 0.42437 * prompts))), 5) == leading


def test_relaxation_times_of_the_note_scale_with_the_factor():
    """ddof 1 at p = 0.5: times at G = 4 and 16 stand in the ratio of the factors, 1.34."""
    factors = [float(learning_rate_factor(THETA, size, GroupRule(scale="sample"))[2]) for size in (4, 16)]
    assert round(factors[1] / factors[0], 2) == 1.34
