"""Stationary oscillator: Lyapunov, expm and quadrature against the closed forms, in every regime."""

from __future__ import annotations

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import expm, solve_continuous_lyapunov

from sde_grpo.errors import InputError
from sde_grpo.fluctuation import OscillatorFluctuation, discrete_fluctuation, oscillator_fluctuation, step_noise
from sde_grpo.oscillator import Oscillator, UpdateRule, reduce_update, temperature
from tests.tolerance import assert_close

# M, C, K: strongly overdamped, overdamped, critical, just past it, q = 1/2, ringing.
OSCILLATORS = [
    (0.5, 1.0, 1e-2),
    (1.0, 0.5, 0.04),
    (1.0, 0.4, 0.04),
    (1.0, 0.3999, 0.04),
    (2.0, 0.4, 0.04),
    (5, 0.1, 0.2),
]
EVERY = pytest.mark.parametrize("mck", OSCILLATORS)
NOISE = 0.3


def fluctuation(mck: tuple[float, float, float], noise: float = NOISE) -> OscillatorFluctuation:
    return oscillator_fluctuation(Oscillator(*(jnp.asarray(float(value)) for value in mck)), noise)


@EVERY
def test_equipartition_against_the_lyapunov_equation(mck) -> None:
    """A P + P A' + diag(0, s^2/M^2) = 0 has the solution T diag(1/K, 1/M), T = s^2/(2 C)."""
    m, c, k = mck
    covariance = solve_continuous_lyapunov(np.array([[0, 1], [-k / m, -c / m]]), -np.diag([0, NOISE / m**2]))
    f = fluctuation(mck)
    assert_close([f.variance, f.velocity_variance], np.diag(covariance), 1e-10)
    assert_close([k * f.variance, m * f.velocity_variance], np.full(2, f.temperature), 1e-12)
    assert f.temperature == pytest.approx(NOISE / (2 * c))


@EVERY
def test_autocorrelation_is_the_matrix_exponential(mck) -> None:
    m, c, k = mck
    lags = np.array([0.0, 0.1, 1.0, 7.0, 50.0, 300.0])
    exact = [expm(np.array([[0, 1], [-k / m, -c / m]]) * lag)[0, 0] for lag in lags]
    assert_close(fluctuation(mck).autocorrelation(lags), exact, 1e-11)
    assert_close(fluctuation(mck).autocovariance(-lags), np.multiply(exact, NOISE / (2 * c * k)), 1e-11)


@EVERY
def test_spectrum_and_autocovariance_are_a_fourier_pair(mck) -> None:
    """(1/pi) int_0^inf S(w) cos(w t) dw = r(t), by quadrature; t = 0 is Parseval."""
    f = fluctuation(mck)
    m, c, k = mck

    def spectrum(w: float) -> float:
        return NOISE / ((k - m * w * w) ** 2 + c * c * w * w)

    assert_close(f.power_spectrum(np.array([0.0, 0.1, 2.0])), [spectrum(w) for w in (0.0, 0.1, 2.0)], 1e-12)
    edges = [0, *np.geomspace(1e-4, 1e3, 30)]
    variance = sum(quad(spectrum, low, high)[0] for low, high in pairwise(edges)) / np.pi
    assert variance == pytest.approx(float(f.variance), rel=1e-7)
    covariance = quad(spectrum, 0, 60, weight="cos", wvar=3.0, limit=2000)[0] / np.pi
    assert covariance == pytest.approx(float(f.autocovariance(3.0)), rel=1e-4)


@EVERY
def test_sampled_spectrum_is_the_transform_of_the_sampled_autocovariance(mck) -> None:
    f, n = fluctuation(mck), 2**12
    w = 2 * np.pi * np.arange(n) / n
    sampled = jax.jit(OscillatorFluctuation.sampled_spectrum)
    spectrum = np.asarray(sampled(f, w))
    assert_close(np.real(np.fft.ifft(spectrum))[:40], f.autocovariance(np.arange(40)), 1e-10)
    some, aliases = w[1 : n // 2 : 200], 2 * np.pi * np.arange(-3000, 3001)
    aliased = np.sum(f.power_spectrum(some[:, None] + aliases), axis=1)
    assert_close(sampled(f, some) / aliased, np.ones(len(some)), 1e-6)


@EVERY
def test_resonance_is_where_the_spectrum_peaks(mck) -> None:
    """It has a peak away from 0 only for q > 1/2, although the oscillator rings from q = 1/4 on."""
    f = fluctuation(mck)
    w = np.linspace(0, 1, 200_001)
    assert w[np.argmax(f.power_spectrum(w))] == pytest.approx(float(f.resonance), abs=1e-5)
    m, c, k = mck
    assert (float(f.resonance) > 0) == (m * k / c**2 > 0.5 + 1e-12)
    assert f.quality == pytest.approx(np.sqrt(m * k) / c)


def test_a_resonance_of_high_quality_has_the_width_of_its_damping() -> None:
    """Half the peak at K/M = w^2 +- C w / M: the ratio of peak to width is the quality factor."""
    f = fluctuation((1.0, 0.01, 1.0))
    w = np.linspace(0.9, 1.1, 200_001)
    above = w[np.asarray(f.power_spectrum(w)) > f.power_spectrum(f.resonance) / 2]
    assert f.resonance / (above[-1] - above[0]) == pytest.approx(float(f.quality), rel=1e-3)


def test_temperature_is_that_of_the_reduction_and_falls_as_one_over_the_group_size() -> None:
    rule, sigma = UpdateRule(0.05, 0.5, "heavy_ball", 4), 0.7
    oscillator = reduce_update(rule, 0.4)
    expected = 0.05**2 * sigma**2 / (2 * float(oscillator.damping) * 0.02)
    for group_size in (2, 8, 32):
        f = oscillator_fluctuation(oscillator, step_noise(rule, sigma**2 / group_size))
        assert f.temperature == pytest.approx(float(temperature(oscillator, sigma, 0.05, group_size)), rel=1e-12)
        assert f.variance * group_size == pytest.approx(expected, rel=1e-9)


def test_it_works_inside_jax_transformations() -> None:
    def log_variance(curvature):
        return jnp.log(oscillator_fluctuation(reduce_update(UpdateRule(0.1, 0.9), curvature), 1.0).variance)

    assert jax.jit(jax.grad(log_variance))(0.5) == pytest.approx(-2.0)  # no lag: C has no curvature in it
    curvatures = jnp.array([0.1, 0.5, 2.0])
    together = oscillator_fluctuation(reduce_update(UpdateRule(0.1, 0.9), curvatures[:, None]), 1.0)
    assert_close(jax.vmap(log_variance)(curvatures)[:, None], jnp.log(together.variance))
    assert jax.jit(OscillatorFluctuation.sampled_spectrum)(together, jnp.ones(4)).shape == (3, 4)
    slope = jax.grad(lambda c: oscillator_fluctuation(Oscillator(jnp.ones(()), c, jnp.ones(())), 1.0).resonance)
    assert np.isfinite(slope(5.0))


@pytest.mark.parametrize("mu", [0.0, 0.9])
def test_the_discrete_map_tends_to_it(mu: float) -> None:
    """Variance, autocorrelation and spectrum, as a -> 0 at fixed time in units of the relaxation time: first order."""
    worst = []
    for a in (1e-2, 5e-3, 2.5e-3):
        rule = UpdateRule(a * (1 - mu), mu, "heavy_ball", 4)
        exact, limit = discrete_fluctuation(rule, 1.0), oscillator_fluctuation(reduce_update(rule, 1.0), 1.0)
        lags, w = np.round(np.array([0.5, 1.0, 2.0]) / a), np.array([0.0, 0.5, 1.0, 3.0]) * a
        worst.append(
            [
                abs(exact.variance / limit.variance - 1),
                np.max(np.abs(exact.autocorrelation(lags) - limit.autocorrelation(lags))),
                np.max(np.abs(exact.power_spectrum(w) / limit.power_spectrum(w) - 1)),
            ]
        )
    assert np.all(np.array(worst[0]) < 0.02)
    assert np.all(np.array(worst[1:]) < 0.6 * np.array(worst[:-1]))


@pytest.mark.parametrize(
    ("mck", "noise", "message"),
    [
        ((1.0, 0.0, 1.0), 1.0, "damping is 0.0; a stationary oscillator needs .* or use discrete_fluctuation"),
        ((1.0, -0.1, 1.0), 1.0, "damping is -0.1"),
        ((0.0, 1.0, 1.0), 1.0, "mass is 0.0"),
        ((1.0, 1.0, 0.0), 1.0, "stiffness is 0.0"),
        ((1.0, 1.0, np.nan), 1.0, "stiffness is nan"),
        ((1.0, np.inf, 1.0), 1.0, "damping is inf"),
        ((1.0, 1.0, 1.0), -1.0, "noise_intensity is -1.0; it must be finite and not negative"),
        ((1.0, 1.0, 1.0), np.nan, "noise_intensity is nan"),
    ],
)
def test_bad_input(mck, noise, message) -> None:
    with pytest.raises(InputError, match=message):
        fluctuation(mck, noise)


def test_single_precision_is_refused() -> None:
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(InputError, match="float32"):
            fluctuation((1.0, 1.0, 1.0))
    finally:
        jax.config.update("jax_enable_x64", True)
