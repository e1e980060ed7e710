"""The exact stationary process against the plain loop: its unit responses added up, and its simulation."""

from __future__ import annotations

import numpy as np
import pytest

from sde_grpo.discrete_map import step_matrices
from sde_grpo.errors import InputError
from sde_grpo.fluctuation import DiscreteFluctuation, discrete_fluctuation
from sde_grpo.oscillator import UpdateRule
from tests.fluctuation.plain_loop import run_loop, step_noises, unit_responses
from tests.fluctuation.settings import SETTINGS
from tests.tolerance import assert_close

CASES = pytest.mark.parametrize(("rule", "epochs"), list(SETTINGS.values()), ids=list(SETTINGS))
LAGS = np.arange(40)


def steps_per_block(rule: UpdateRule) -> int:
    return rule.refresh_interval if rule.lag_schedule == "periodic" else 1


def averaged_autocovariance(x: np.ndarray, phases: int, lag: int) -> float:
    """Mean over the phases of one block of the covariance across lanes; x is (step, lane) of zero mean."""
    return float(np.mean(x[:phases] * x[lag : lag + phases]))


@CASES
def test_variance_and_autocovariance_are_sums_over_unit_responses(rule: UpdateRule, epochs: int) -> None:
    """Cov(x_k, x_{k+h}) = sum over all past unit noises of response(k) response(k + h)."""
    phases, blocks = steps_per_block(rule), 600
    response = unit_responses(rule, 1.0, epochs, blocks)
    exact = discrete_fluctuation(rule, 1.0, epochs=epochs)
    assert_close(exact.phase_variance, np.sum(response.reshape(-1, blocks, phases) ** 2, axis=(0, 1)), 1e-10)
    assert exact.variance == pytest.approx(np.mean(exact.phase_variance))
    sums = [np.sum(response[:, : response.shape[1] - h] * response[:, h:]) / phases for h in LAGS]
    assert_close(exact.autocovariance(LAGS), sums, 1e-10)
    assert_close(exact.autocovariance(-LAGS), sums, 1e-10)
    assert_close(exact.autocorrelation(LAGS.reshape(2, 20)), np.reshape(sums, (2, 20)) / exact.variance, 1e-10)


@CASES
def test_simulation_of_the_plain_loop(rule: UpdateRule, epochs: int) -> None:
    """20,000 independent lanes; a sample variance has the relative error sqrt(2/n), a covariance less than that."""
    lanes, phases = 20_000, steps_per_block(rule)
    lags = [0, 1, 3, 8]
    warm_up, measured = -(-160 // phases), -(-8 // phases) + 1
    noise = 0.1 * step_noises(rule, epochs, warm_up + measured, lanes, np.random.default_rng(11))
    x = run_loop(rule, 1.0, noise)[warm_up * phases :]
    exact = discrete_fluctuation(rule, 1.0, 0.01, epochs=epochs)
    error = 4.5 * np.sqrt(2 / lanes)
    assert_close(np.mean(x[:phases] ** 2, axis=1) / exact.phase_variance, np.ones(phases), error)
    simulated = [averaged_autocovariance(x, phases, lag) for lag in lags]
    assert_close(simulated, exact.autocovariance(lags), error)


@CASES
def test_spectrum_and_autocovariance_are_a_fourier_pair(rule: UpdateRule, epochs: int) -> None:
    """Wiener and Khinchin: the inverse transform over 4096 frequencies; Parseval: its mean is the variance."""
    exact = discrete_fluctuation(rule, 1.0, epochs=epochs)
    frequency = 2 * np.pi * np.arange(4096) / 4096
    spectrum = exact.power_spectrum(frequency)
    assert np.all(spectrum > 0)
    assert_close(np.real(np.fft.ifft(spectrum))[LAGS], exact.autocovariance(LAGS), 1e-10)
    assert np.mean(spectrum) == pytest.approx(exact.variance, rel=1e-10)
    assert_close(exact.power_spectrum(-frequency + 4 * np.pi), spectrum, 1e-9)
    assert exact.power_spectrum(0.3).shape == ()


@pytest.mark.parametrize("mu", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("share", [1e-6, 1e-3, 0.3, 0.999])
def test_without_lag_it_is_the_ar2_process(mu: float, share: float) -> None:
    """Var x = s^2 (1 + mu) / ((1 - mu) a (2 (1 + mu) - a)), for a up to 2 (1 + mu); phi has no part in it."""
    a = 2 * (1 + mu) * share
    variance = discrete_fluctuation(UpdateRule(a, mu, stale_fraction=0.4), 1.0).variance
    assert variance == pytest.approx((1 + mu) / ((1 - mu) * a * (2 * (1 + mu) - a)), rel=1e-8)


def test_covariance_is_carried_from_step_to_step_by_the_lyapunov_equation() -> None:
    """Sigma_{j+1} = A_j Sigma_j A_j' + s^2 e e' around the whole cycle, and back to where it began."""
    rule = UpdateRule(0.12, 0.3, "heavy_ball", 6)
    exact = discrete_fluctuation(rule, 1.0, 0.25)
    covariance, noise = exact.start_covariance, np.diag([0.25, 0.0, 0.0])
    for phase, step in enumerate(step_matrices(rule, 1.0)):
        assert exact.phase_variance[phase] == pytest.approx(covariance[0, 0], rel=1e-12)
        covariance = step @ covariance @ step.T + noise
    assert_close(covariance, exact.start_covariance, 1e-12)


def test_spectrum_under_a_constant_lag_is_the_rational_form_of_the_note() -> None:
    a, mu, phi, lag, w = 0.05, 0.4, 0.7, 3, np.linspace(0, np.pi, 50)
    rule = UpdateRule(a, mu, "heavy_ball", lag, "constant", phi)
    z = np.exp(1j * w)
    expected = 2.0 / np.abs(z - (1 + mu - a * (1 - phi)) + mu / z + a * phi / z**lag) ** 2
    assert_close(discrete_fluctuation(rule, 1.0, 2.0).power_spectrum(w), expected, 1e-12)


def test_rules_that_are_the_same_map_fluctuate_alike() -> None:
    def variance(*rule) -> float:
        return discrete_fluctuation(UpdateRule(*rule), 1.0).variance

    assert variance(0.5, 0.8, "ema", 4) == pytest.approx(variance(0.1, 0.8, "heavy_ball", 4), rel=1e-12)
    assert variance(0.1, 0.5, "heavy_ball", 1) == pytest.approx(
        variance(0.1, 0.5, "heavy_ball", 0, "constant"), rel=1e-12
    )
    assert variance(0.1, 0.5, "heavy_ball", 2, "constant", 1.0, (0.0, 0.0, 1.0)) == pytest.approx(
        variance(0.1, 0.5, "heavy_ball", 2, "constant"), rel=1e-12
    )


def test_periodic_refresh_is_not_a_constant_lag() -> None:
    """The simulated spread of periodic refresh rules out the constant lag K_ref, and the mean lag (K_ref - 1)/2."""
    rule = UpdateRule(0.12, 0.3, "heavy_ball", 7)
    noise = step_noises(rule, 1, 40, 20_000, np.random.default_rng(3))
    simulated = float(np.mean(run_loop(rule, 1.0, noise)[-7:] ** 2))
    assert simulated == pytest.approx(discrete_fluctuation(rule, 1.0).variance, rel=0.03)
    for lag, least in ((7, 1.5), (3, 0.03)):
        constant = discrete_fluctuation(UpdateRule(0.12, 0.3, "heavy_ball", lag, "constant"), 1.0).variance
        assert abs(constant / simulated - 1) > least


def test_phases_differ_and_the_reuse_of_a_batch_spreads_further() -> None:
    """Where the stiffness of a block is small, one noise that acts K_ref times gives K_ref times the variance."""
    rule = UpdateRule(1e-4, 0.0, "heavy_ball", 8)
    fresh, twice, reused = (discrete_fluctuation(rule, 1.0, epochs=epochs).variance for epochs in (1, 2, 8))
    assert reused / fresh == pytest.approx(8, rel=2e-3)
    assert twice / fresh == pytest.approx(2, rel=2e-3)
    phase = discrete_fluctuation(UpdateRule(0.12, 0.0, "heavy_ball", 8), 1.0, epochs=8).phase_variance
    assert phase.max() / phase.min() > 1.5


def make(curvature=1.0, noise=1.0, epochs=1, **settings) -> DiscreteFluctuation:
    rule = UpdateRule(**({"learning_rate": 0.1, "refresh_interval": 4} | settings))
    return discrete_fluctuation(rule, curvature, noise, epochs=epochs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"curvature": 0.0}, "curvature is 0.0; it must be positive"),
        ({"curvature": -2.0}, "curvature is -2.0; it must be positive"),
        ({"curvature": np.nan}, "curvature is nan; it must be positive"),
        ({"curvature": np.inf}, "curvature is inf; it must be positive and finite"),
        ({"curvature": np.ones(2)}, r"curvature has the shape \(2,\); give one"),
        ({"noise": 0.0}, "noise_variance is 0.0; it must be positive and finite"),
        ({"noise": np.nan}, "noise_variance is nan"),
        ({"epochs": 0}, "epochs is 0; it must be a whole number of at least 1"),
        ({"epochs": 3}, r"epochs is 3, but a rollout serves 4 optimizer step\(s\) .* Give a divisor"),
        ({"epochs": 2, "lag_schedule": "constant"}, r"serves 1 optimizer step\(s\) under the constant schedule"),
        (
            {"curvature": 5.1},
            r"stiffness of 0.51 per step, .* spectral radius of 1.0\d+\. It must be below 1: .* Lower",
        ),
        ({"curvature": 1e6}, "no stationary state"),
        ({"curvature": 4.0, "lag_schedule": "constant"}, "the constant map has a spectral radius"),
    ],
)
def test_bad_input(arguments, message) -> None:
    with pytest.raises(InputError, match=message):
        make(**arguments)


def test_bad_lags_and_frequencies() -> None:
    fluctuation = make()
    with pytest.raises(InputError, match="whole numbers of steps"):
        fluctuation.autocovariance([1, 2.5])
    with pytest.raises(InputError, match="whole numbers of steps"):
        fluctuation.autocovariance(np.nan)
    with pytest.raises(InputError, match="finite, in radians per step"):
        fluctuation.power_spectrum([0.1, np.inf])
