"""The engine against posteriors that are known: correlated, bent, and split into modes of known weight."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from sde_grpo import InputError
from sde_grpo.inference import Engine, convergence, sample, sample_nuts, sample_smc, smc
from sde_grpo.inference.mixture import mixture_from_particles
from sde_grpo.programs import Program


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


ENGINES = pytest.mark.parametrize("engine", [sample_nuts, sample_smc], ids=["nuts", "smc"])


@ENGINES
def test_bent_posterior_has_its_moments(engine: Engine) -> None:
    draws = engine(jax.random.key(0), bent, (jnp.asarray(1.0), jnp.asarray(0.0)), progress=False)
    a, b = draws.sites["a"], draws.sites["b"]
    assert convergence({"a": a, "b": b}).reached
    assert not draws.diverging.any()
    np.testing.assert_allclose([a.mean(), a.std(), b.mean()], [0, 1, 1], atol=0.12)
    np.testing.assert_allclose(b.std(), np.sqrt(2 + 0.01), rtol=0.12)


@ENGINES
def test_modes_get_their_weights_and_evidence(engine: Engine) -> None:
    scale = 0.07
    draws = engine(jax.random.key(1), split, (jnp.asarray(scale), jnp.asarray(1.0)), progress=False)
    a = draws.sites["a"]
    grid = np.linspace(-3, 3, 200_001)
    normal = lambda x, m, s: np.exp(-0.5 * ((x - m) / s) ** 2) / (s * np.sqrt(2 * np.pi))  # noqa: E731
    density = (0.75 * normal(grid, 1, 0.5) + 0.25 * normal(grid, -1, 0.5)) * normal(1.0, grid**2, scale)
    evidence = np.trapezoid(density, grid)
    upper = np.trapezoid(np.where(grid > 0, density, 0), grid) / evidence
    assert convergence({"a": a}).reached
    np.testing.assert_allclose((a > 0).mean(), upper, atol=0.05)
    np.testing.assert_allclose(draws.log_evidence, np.log(evidence), atol=0.25)


@ENGINES
def test_same_key_same_draws(engine: Engine) -> None:
    args = (jnp.asarray(1.0), jnp.asarray(0.0))
    one, two = (engine(jax.random.key(4), bent, args, progress=False) for _ in range(2))
    np.testing.assert_array_equal(one.sites["b"], two.sites["b"])


def sharp(height, y=None):
    """Half of the posterior in a peak of width 0.1 that one particle of the prior in a thousand meets."""
    a = jnp.asarray(numpyro.sample("a", dist.Normal(0.0, 1.0).expand([3]).to_event(1)))
    numpyro.deterministic("far", jnp.max(jnp.abs(a - 1.5)))
    depth = 0.5 * jnp.sum(((a - 1.5) / 0.1) ** 2)
    numpyro.sample("obs", dist.Normal(0.0, jnp.exp(-jax.nn.softplus(height - depth))), obs=y)


def test_jumps_give_a_narrow_mode_its_weight() -> None:
    """However many particles met the peak on the way, 0.51 of the posterior lies within 0.5 of it."""
    draws = sample_smc(jax.random.key(2), sharp, (jnp.asarray(10.3), jnp.asarray(0.0)))
    shares = (draws.sites["far"] < 0.5).mean(1)
    np.testing.assert_allclose(shares, 0.510, atol=0.09)
    np.testing.assert_allclose(shares.mean(), 0.510, atol=0.04)
    np.testing.assert_allclose(draws.log_evidence, np.log(2.0364 / np.sqrt(2 * np.pi)), atol=0.1)


def test_populations_that_disagree_are_noticed_and_nuts_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without jumps, a mode that some populations missed shows in R-hat; `auto` then hands over, `smc` reports it."""
    args = (jnp.asarray(10.3), jnp.asarray(0.0))
    monkeypatch.setattr(smc, "accepted", lambda key, log_ratio: jnp.zeros(log_ratio.shape, bool))
    monkeypatch.setattr(smc, "_refresh", Program(smc._refresh._function))
    draws = sample_smc(jax.random.key(2), sharp, args)
    assert np.ptp((draws.sites["far"] < 0.5).mean(1)) > 0.1
    assert not convergence(draws.sites).reached
    asked = []
    monkeypatch.setattr("sde_grpo.inference.nuts.sample_nuts", lambda *a, **k: asked.append(a) or draws)
    sample("auto", jax.random.key(2), sharp, args)
    assert len(asked) == 1
    sample("smc", jax.random.key(2), sharp, args)
    assert len(asked) == 1


def test_engine_that_does_not_exist() -> None:
    with pytest.raises(InputError, match="engine is 'vi'; allowed are 'auto', 'smc', 'nuts', 'laplace'"):
        sample("vi", jax.random.key(0), bent, ())  # pyright: ignore[reportArgumentType]


def test_laplace_is_exact_for_a_normal_posterior_and_says_so_of_a_bent_one() -> None:
    def straight(y=None):
        a = numpyro.sample("a", dist.Normal(1.0, 2.0))
        numpyro.sample("obs", dist.Normal(a, 1.0), obs=y)

    normal = sample("laplace", jax.random.key(0), straight, (jnp.asarray(3.0),))
    np.testing.assert_allclose(normal.sites["a"].mean(), 2.6, atol=0.06)
    np.testing.assert_allclose(normal.sites["a"].std(), np.sqrt(0.8), rtol=0.05)
    np.testing.assert_allclose(normal.log_evidence, -0.5 * np.log(2 * np.pi * 5) - 0.4, rtol=1e-9)
    assert normal.tail is not None
    assert normal.tail < 0.1
    far = sample("laplace", jax.random.key(0), bent, (jnp.asarray(1.0), jnp.asarray(0.0)))
    assert far.tail is not None
    assert far.tail > 0.7


@pytest.mark.parametrize("centre", [0.0, 0.7])
def test_mixture_draws_follow_its_density(centre: float) -> None:
    """E_q[f/q] = 1 for a normal density f."""
    particles = jax.random.normal(jax.random.key(0), (2048, 2)) * jnp.asarray([1.0, 20.0])
    mixture = mixture_from_particles(particles, 512)
    z = mixture.draw(jax.random.key(1), 20_000)
    log_f = jax.scipy.stats.norm.logpdf(z, centre, jnp.asarray([0.5, 10.0])).sum(-1)
    assert float(jnp.exp(log_f - mixture.log_density(z)).mean()) == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_convergence_notices_chains_that_disagree(shift: float) -> None:
    x = np.random.default_rng(0).standard_normal((4, 500))
    x[0] += shift
    assert convergence({"x": x}).reached == (shift == 0.0)


def test_a_posterior_that_is_not_reached_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Particles stopped on the way are draws of another law."""
    monkeypatch.setattr("sde_grpo.inference.cooling._MAX_STAGES", 3)
    monkeypatch.setattr(smc, "_cool", Program(smc._cool._function))
    with pytest.raises(InputError, match="did not reach the posterior"):
        sample_smc(jax.random.key(0), split, (jnp.asarray(0.05), jnp.asarray(1.0)))
