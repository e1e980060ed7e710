"""The slowest mode: radius, phase and root against the characteristic equation and against each other."""

from __future__ import annotations

import numpy as np
import pytest

from sde_grpo.discrete_map import cycle_matrix, dominant_root, phase_per_step, spectral_radius
from sde_grpo.oscillator import UpdateRule, reduce_update
from tests.discrete_map.test_matrices import RULES
from tests.tolerance import assert_close


@pytest.mark.parametrize("lag", [1, 2, 7])
@pytest.mark.parametrize("phi", [1.0, 0.3, -0.5])
def test_the_root_solves_the_characteristic_equation(lag: int, phi: float) -> None:
    a, mu = np.array([0.01, 0.1, 0.4]), 0.6
    z = dominant_root(UpdateRule(1.0, mu, "heavy_ball", lag, "constant", phi), a)
    residual = z ** (lag + 1) - (1 + mu - a * (1 - phi)) * z**lag + mu * z ** (lag - 1) + a * phi
    assert_close(np.abs(residual), np.zeros(3), 1e-12, scale=1.0)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_radius_and_phase_are_those_of_the_root(rule: UpdateRule) -> None:
    kappas = np.array([[0.5, 5.0], [20.0, 60.0]])
    steps = rule.refresh_interval if rule.lag_schedule == "periodic" else 1
    root = dominant_root(rule, kappas)
    assert root.shape == spectral_radius(rule, kappas).shape == phase_per_step(rule, kappas).shape == (2, 2)
    assert np.all(np.imag(root) >= 0)
    assert_close(np.max(np.abs(np.linalg.eigvals(cycle_matrix(rule, kappas))), axis=-1), np.abs(root), 1e-12)
    assert_close(spectral_radius(rule, kappas) ** steps, np.abs(root), 1e-12)
    turned = np.exp(1j * steps * phase_per_step(rule, kappas))
    assert_close(np.real(turned), np.real(root / np.abs(root)), 1e-9, scale=1.0)


def test_an_overdamped_mode_decays_as_the_oscillator_says_and_an_underdamped_one_turns() -> None:
    rule = UpdateRule(1.0, 0.5, "heavy_ball", 4)
    slow, fast = 0.002, 0.02
    assert_close(-np.log(spectral_radius(rule, slow)), 1 / float(reduce_update(rule, slow).relaxation_time), 2e-2)
    assert phase_per_step(rule, slow) == 0
    oscillator = reduce_update(UpdateRule(1.0, 0.9, "heavy_ball", 4), fast)
    b, k = float(oscillator.damping / oscillator.mass) / 2, float(oscillator.stiffness / oscillator.mass)
    found = phase_per_step(UpdateRule(1.0, 0.9, "heavy_ball", 4), fast)
    assert_close(found, np.sqrt(k - b * b), 2e-2)
