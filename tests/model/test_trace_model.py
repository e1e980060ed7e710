"""The model function: one for prior, posterior and predictive, over every variant."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro import handlers
from numpyro.infer import Predictive
from numpyro.infer.util import log_density

from sde_grpo import Configuration, InputError, build_design, run_from_arrays, trace_model
from sde_grpo.likelihood import flip_variance
from sde_grpo.model import padded
from sde_grpo.model.observation import design_effect

KNOWN = {"learning_rate": 0.01, "momentum": 0.9, "momentum_kind": "ema", "refresh_interval": 4}
DERIVED = ("obs", "stationary_sd", "prompt_correlation")
CASES = {
    "design effect, logit, free": ({"group_size": 8, "prompts_per_step": 4}, None, None, 1.0),
    "design effect, identity, free": ({"group_size": 8, "prompts_per_step": 4}, "identity", None, 1.0),
    "design effect, logit, mechanistic": ({"group_size": 8, "prompts_per_step": 4, **KNOWN}, None, None, 1.0),
    "dispersion, logit, free": ({}, None, None, 1.0),
    "constant, identity, free": ({}, None, None, 7.0),
    "constant, identity, mechanistic": (KNOWN, None, None, 7.0),
}


def example(name: str, points: int = 30):
    """A run whose rewards lie on the 1/32 grid, so that it counts as 0/1 where G and P are known."""
    options, link, dynamics, width = CASES[name]
    rng = np.random.default_rng(3)
    reward = np.round(32 * np.clip(np.linspace(0.3, 0.7, points) + 0.1 * rng.standard_normal(points), 0, 1)) / 32
    run = run_from_arrays(np.arange(points), width * reward, configuration=Configuration(**options))
    return build_design(run, link, dynamics)


@pytest.mark.parametrize("name", CASES)
def test_prior_draws_give_finite_traces_and_densities(name: str) -> None:
    design = example(name)
    assert design.noise in name.replace(" ", "_")
    draws = Predictive(trace_model, num_samples=50)(jax.random.key(0), design)
    assert draws["obs"].shape == (50, 30)
    assert np.isfinite(draws["obs"]).all()
    latent = {n: v for n, v in draws.items() if n not in DERIVED}
    density = jax.vmap(lambda p: log_density(trace_model, (design, design.reward), {}, p)[0])(latent)
    assert np.isfinite(density).all()


@pytest.mark.parametrize("name", CASES)
def test_gradient_agrees_with_finite_differences(name: str) -> None:
    design = example(name)
    draws = Predictive(trace_model, num_samples=1)(jax.random.key(1), design)
    names = [n for n in draws if n not in DERIVED and (n != "inertia_ratio" or design.dynamics == "free")]
    point = {n: draws[n][0] for n in names}
    f = jax.jit(lambda p: log_density(trace_model, (design, design.reward), {}, p)[0])
    gradient = jax.grad(f)(point)
    for n in names:
        h = 1e-6 * max(abs(float(point[n])), 1e-2)
        slope = (f(point | {n: point[n] + h}) - f(point | {n: point[n] - h})) / (2 * h)
        np.testing.assert_allclose(gradient[n], slope, rtol=2e-4, atol=1e-4)


def test_trajectory_starts_at_start_and_ends_at_the_fixed_point() -> None:
    design = example("design effect, logit, free", points=400)
    values = {"relaxation_time": 8.0, "inertia_ratio": 0.05, "fast_weight": 0.6, "start_unit": 0.2}
    values |= {"fixed_point_unit": 0.7, "stationary_sd": 0.01, "prompt_correlation": 0.1}
    model = handlers.seed(handlers.substitute(trace_model, {n: jnp.asarray(v) for n, v in values.items()}), 0)
    mean = handlers.trace(model).get_trace(design)["obs"]["fn"].trace.loc
    np.testing.assert_allclose(mean[0], 0.2, rtol=1e-12)
    np.testing.assert_allclose(mean[-1], 0.7, rtol=1e-6)


def test_fast_weight_is_the_weight_of_the_fast_mode() -> None:
    """To first order in q: the logit of the mean is (1 - w) e^{-t/tau} + w e^{-t/(q tau)}."""
    design = example("design effect, logit, free", points=60)
    tau, q, w = 40.0, 1e-4, 0.6
    values = {"relaxation_time": tau, "inertia_ratio": q, "fast_weight": w, "start_unit": 0.2}
    values |= {"fixed_point_unit": 0.7, "stationary_sd": 0.01, "prompt_correlation": 0.1}
    model = handlers.seed(handlers.substitute(trace_model, {n: jnp.asarray(v) for n, v in values.items()}), 0)
    mean = np.asarray(handlers.trace(model).get_trace(design)["obs"]["fn"].trace.loc)
    logit = lambda p: np.log(p / (1 - p))  # noqa: E731
    x = (logit(mean) - logit(0.7)) / (logit(0.2) - logit(0.7))
    t = np.arange(1, 60)
    np.testing.assert_allclose(x[1:], (1 - w) * np.exp(-t / tau), rtol=2e-3)


def test_prior_admits_what_the_theory_needs() -> None:
    design = example("design effect, logit, free")
    draws = Predictive(trace_model, num_samples=20_000)(jax.random.key(2), design)
    q, w, sd = (np.asarray(draws[n]) for n in ("inertia_ratio", "fast_weight", "stationary_sd"))
    assert 0.05 < np.mean(q > 0.25) < 0.2
    assert np.mean(q < 1e-3) > 0.03
    assert np.quantile(w, 0.02) < -0.9
    assert np.quantile(w, 0.98) > 1.4
    assert np.mean(sd < 0.02) > 0.01


def test_design_effect_variance_matches_clustered_sampling() -> None:
    rng = np.random.default_rng(0)
    mean, rho, group, prompts = 0.4, 0.3, 8, 4
    concentration = 1 / rho - 1
    p = rng.beta(mean * concentration, (1 - mean) * concentration, size=(100_000, prompts))
    y = rng.binomial(group, p).mean(1) / group
    expected = float(
        flip_variance(jnp.asarray(mean)) * design_effect(jnp.asarray(rho), jnp.asarray(8.0), jnp.asarray(4.0))
    )
    np.testing.assert_allclose(y.var(), expected, rtol=0.02)


def test_designs_that_cannot_be_built_say_why() -> None:
    plain = run_from_arrays(np.arange(30), 5 * np.random.default_rng(0).random(30))
    with pytest.raises(InputError, match="logit link needs a reward range"):
        build_design(plain, "logit")
    with pytest.raises(InputError, match="lacks learning_rate, momentum, refresh_interval"):
        build_design(plain, None, "mechanistic")


@pytest.mark.parametrize(("points", "steps", "gaps"), [(30, 32, 2), (32, 32, 2), (33, 40, 2), (200, 224, 2)])
def test_padding_changes_no_density(points: int, steps: int, gaps: int) -> None:
    design = example("design effect, logit, free", points)
    longer = padded(design)
    assert (len(longer.time), len(longer.gaps), int(longer.observed.sum())) == (steps, gaps, points)
    latent = {n: v for n, v in Predictive(trace_model, num_samples=5)(jax.random.key(0), design).items()}
    latent = {n: v for n, v in latent.items() if n not in DERIVED}
    one, other = (
        jax.vmap(lambda p, d=d: log_density(trace_model, (d, d.reward), {}, p)[0])(latent) for d in (design, longer)
    )
    np.testing.assert_allclose(one, other, rtol=1e-12)


def test_padding_of_uneven_gaps() -> None:
    steps = np.cumsum(np.r_[0, np.tile([1, 2, 5], 11)])
    run = run_from_arrays(steps, np.linspace(0.2, 0.8, len(steps)) + 0.01 * np.cos(steps))
    longer = padded(build_design(run))
    assert (len(longer.gaps), len(longer.time)) == (4, 40)
    assert np.all(np.diff(longer.time) > 0)
