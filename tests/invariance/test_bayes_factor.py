"""Savage-Dickey against densities that are known, and its error against the scatter of repeated estimates."""

import numpy as np
import pytest
from scipy.stats import norm, skewnorm, t

from sde_grpo.errors import InputError
from sde_grpo.invariance.bayes_factor import density_at, savage_dickey

SHAPE = (4, 1000)


def correlated(rng: np.random.Generator, memory: float) -> np.ndarray:
    """Standard normal chains with autocorrelation memory^lag."""
    noise = rng.standard_normal(SHAPE)
    draws = noise.copy()
    for i in range(1, SHAPE[1]):
        draws[:, i] = memory * draws[:, i - 1] + np.sqrt(1 - memory**2) * noise[:, i]
    return draws


@pytest.mark.parametrize(
    ("law", "tolerance"),
    [(norm(), 0.01), (norm(2.0, 0.1), 0.01), (skewnorm(3.0), 0.05), (t(6), 0.08)],
    ids=["normal", "narrow", "skewed", "heavy tails"],
)
@pytest.mark.parametrize("z", [0.0, 1.0, -1.5, 2.0])
def test_densities_are_those_of_the_law(law, tolerance, z):
    point = float(law.mean() + z * law.std())
    estimates = [
        density_at(law.rvs(SHAPE, random_state=np.random.default_rng(seed)), point).value for seed in range(40)
    ]
    truth = float(law.pdf(point))
    if truth < 0.02 * law.pdf(law.mean()):  # beside the support of the skewed law
        return
    error = np.std(estimates, ddof=1) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - truth) < tolerance * truth + 4 * error


@pytest.mark.parametrize("memory", [0.0, 0.7])
def test_the_stated_error_is_the_scatter_of_estimates(memory):
    rng = np.random.default_rng(3)
    found = [density_at(correlated(rng, memory), 1.0) for _ in range(60)]
    scatter = np.std([f.value for f in found], ddof=1)
    assert scatter == pytest.approx(np.mean([f.error for f in found]), rel=0.35)


def test_far_out_there_is_only_a_bound():
    draws = np.random.default_rng(0).standard_normal(SHAPE)
    far = density_at(draws, 6.0)
    assert far.bound
    assert norm.pdf(6.0) < far.value < 0.02
    assert np.isnan(far.error)


def test_the_factor_of_a_conjugate_normal():
    """y ~ N(b, 0.5^2), b ~ N(0, 1), y = 0.6: B = N(0; m, s)/N(0; 0, 1), m = 0.48, s^2 = 0.2."""
    rng = np.random.default_rng(1)
    found = savage_dickey(0.48 + np.sqrt(0.2) * rng.standard_normal((4, 4000)), 0.0, float(norm.pdf(0)))
    truth = norm.pdf(0, 0.48, np.sqrt(0.2)) / norm.pdf(0)
    assert abs(found.value - truth) < 4 * found.error + 0.005 * truth
    assert 0 < found.error < 0.05 * truth


def test_what_has_no_density_is_refused():
    with pytest.raises(InputError, match="finite draws that differ"):
        density_at(np.ones(SHAPE), 1.0)
    with pytest.raises(InputError, match="the prior must allow the null"):
        savage_dickey(np.zeros(SHAPE), 0.0, 0.0)
