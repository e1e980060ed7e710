"""The engine against posteriors that are known: correlated, bent, and split into modes of known weight."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from sde_grpo.inference import convergence, sample_nuts
from sde_grpo.inference.jumps import mixture_from_particles


def bent(scale, y=None):
    """A banana: b given a is normal about a^2; data pin the sum loosely."""
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    b = numpyro.sample("b", dist.Normal(a**2, 0.1))
    numpyro.sample("obs", dist.Normal(0.0 * (a + b), scale), obs=y)


def split(scale, y=None):
    """Two modes at +-1 of sd 0.035, weights 3 to 1, far too narrow and far apart for NUTS to cross."""
    a = numpyro.sample(
        "a",
        dist.MixtureGeneral(
            dist.Categorical(probs=jnp.array([0.75, 0.25])), [dist.Normal(1.0, 0.5), dist.Normal(-1.0, 0.5)]
        ),
    )
    numpyro.sample("obs", dist.Normal(a**2, scale), obs=y)


def test_bent_posterior_has_its_moments() -> None:
    draws = sample_nuts(jax.random.key(0), bent, (jnp.asarray(1.0), jnp.asarray(0.0)))
    a, b = draws.sites["a"], draws.sites["b"]
    assert convergence({"a": a, "b": b}).reached
    assert not draws.diverging.any()
    np.testing.assert_allclose([a.mean(), a.std(), b.mean()], [0, 1, 1], atol=0.12)
    np.testing.assert_allclose(b.std(), np.sqrt(2 + 0.01), rtol=0.12)


def test_modes_get_their_weights_and_evidence() -> None:
    scale = 0.07
    draws = sample_nuts(jax.random.key(1), split, (jnp.asarray(scale), jnp.asarray(1.0)))
    a = draws.sites["a"]
    grid = np.linspace(-3, 3, 200_001)
    normal = lambda x, m, s: np.exp(-0.5 * ((x - m) / s) ** 2) / (s * np.sqrt(2 * np.pi))  # noqa: E731
    density = (0.75 * normal(grid, 1, 0.5) + 0.25 * normal(grid, -1, 0.5)) * normal(1.0, grid**2, scale)
    evidence = np.trapezoid(density, grid)
    upper = np.trapezoid(np.where(grid > 0, density, 0), grid) / evidence
    assert convergence({"a": a}).reached
    np.testing.assert_allclose((a > 0).mean(), upper, atol=0.05)
    np.testing.assert_allclose(draws.log_evidence, np.log(evidence), atol=0.25)


def test_same_key_same_draws() -> None:
    one, two = (sample_nuts(jax.random.key(4), bent, (jnp.asarray(1.0), jnp.asarray(0.0))) for _ in range(2))
    np.testing.assert_array_equal(one.sites["b"], two.sites["b"])


def test_mixture_draws_follow_its_density() -> None:
    """E_q[f/q] with f a normal density integrates to one (up to the constant that the density leaves out)."""
    particles = jax.random.normal(jax.random.key(0), (2048, 2))
    mixture = mixture_from_particles(particles)
    z = jax.vmap(mixture.draw)(jax.random.split(jax.random.key(1), 20_000))
    log_ratio = [jax.vmap(lambda x, m=m: -2 * jnp.sum((x - m) ** 2) - mixture.log_density(x))(z) for m in (0.0, 0.7)]
    one, two = (float(jnp.exp(r).mean()) for r in log_ratio)
    np.testing.assert_allclose(one, two, rtol=0.05)


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_convergence_notices_chains_that_disagree(shift: float) -> None:
    x = np.random.default_rng(0).standard_normal((4, 500))
    x[0] += shift
    assert convergence({"x": x}).reached == (shift == 0.0)
