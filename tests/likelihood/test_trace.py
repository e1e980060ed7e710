"""OscillatorTrace as a NumPyro distribution: shapes, models, round trips."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import Predictive, log_likelihood

from sde_grpo.likelihood import OscillatorTrace
from sde_grpo.oscillator import Transition, transition
from tests.likelihood.dense import log_prob, make_case
from tests.tolerance import assert_close

STEPS = 12
RATES = jnp.array([[0.05, 0.3, 0.5], [0.1, 0.2, 2.0]])
GAPS = jnp.concatenate([jnp.zeros(1), jnp.full(STEPS - 1, 1.5)])


log_prob_of_each = jax.jit(jax.vmap(OscillatorTrace.log_prob, in_axes=(None, 0)))


def law(batch: tuple[int, ...]) -> OscillatorTrace:
    """A distribution of batch shape (), (3,) or (2, 3)."""
    b = jnp.broadcast_to(RATES[(0,) * (2 - len(batch))], batch)[..., None]
    return OscillatorTrace(jnp.full(STEPS, 0.5), jnp.asarray(0.8), jnp.asarray(0.01), transition(b, 0.3, 0.2, GAPS))


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("sample", [(), (5,), (4, 1)])
def test_shapes(batch: tuple[int, ...], sample: tuple[int, ...]) -> None:
    def everything():
        """Traced only: shapes cost no computation."""
        trace = law(batch)
        assert (trace.batch_shape, trace.event_shape) == (batch, (STEPS,))
        value, one = trace.sample(jax.random.key(0), sample), jnp.full(STEPS, 0.4)
        conditional = trace.conditional_path(jax.random.key(1), one)
        return value, trace.log_prob(value), trace.filtered(value).mean, trace.log_prob(one), conditional

    shapes = [array.shape for array in jax.eval_shape(everything)]
    full = (*sample, *batch)
    assert shapes == [(*full, STEPS), full, (STEPS, *full), batch, (*batch, STEPS)]


def test_log_prob_of_many_values_is_that_of_each() -> None:
    trace = jax.jit(lambda: law((2, 3)))()
    values = jax.jit(lambda trace: trace.sample(jax.random.key(0), (5,)))(trace)
    together = np.asarray(log_prob(trace, values))
    for i, j in ((0, 0), (0, 2), (1, 1)):
        alone = OscillatorTrace(
            trace.loc[i, j],
            trace.gain[i, j],
            trace.noise_variance[i, j],
            Transition(*(entry[i, j] for entry in trace.steps)),
        )
        assert_close(together[:, i, j], log_prob_of_each(alone, values[:, i, j]), 1e-12)


def test_batches_of_noise_alone_and_of_masks_alone() -> None:
    case = make_case("critical", steps=STEPS)
    one = case.law()
    noises = jnp.stack([one.noise_variance, 2 * one.noise_variance])
    both = OscillatorTrace(one.loc, one.gain, noises, one.steps, one.observed)
    assert both.batch_shape == (2,)
    expected = [c.log_density() for c in (case, dataclasses.replace(case, noise=2 * case.noise))]
    assert_close(log_prob(both, case.value), np.array(expected), 1e-9)


def test_arguments_out_of_range_are_refused() -> None:
    one = law(())
    with pytest.raises(ValueError, match="noise_variance"):
        OscillatorTrace(one.loc, one.gain, -one.noise_variance, one.steps, validate_args=True)


def test_flattening_and_back() -> None:
    case = make_case("oscillatory", stationary=True, steps=STEPS)
    one = case.law()
    leaves, structure = jax.tree.flatten(one)
    again = jax.tree.unflatten(structure, leaves)
    assert isinstance(again, OscillatorTrace)
    assert (again.batch_shape, again.event_shape) == ((), (STEPS,))
    value = jnp.asarray(case.value)
    assert float(log_prob(again, value)) == float(log_prob(one, value))
    assert_close(one.log_prob(value), log_prob(one, value), 1e-13)
    made = jax.jit(lambda noise: OscillatorTrace(one.loc, one.gain, noise, one.steps))(one.noise_variance)
    assert log_prob(made, value).shape == ()


def model(value=None):
    """One unknown level, three runs in a plate."""
    level = numpyro.sample("level", dist.Normal(0.5, 0.1))
    with numpyro.plate("run", 3):
        steps = transition(RATES[0][:, None], 0.3, 0.2, GAPS)
        trace = OscillatorTrace(level + jnp.zeros(STEPS), jnp.asarray(0.8), jnp.asarray(0.01), steps)
        numpyro.sample("obs", trace, obs=value)


def test_one_model_serves_prior_predictive_and_log_likelihood() -> None:
    prior = Predictive(model, num_samples=6)(jax.random.key(0))
    assert prior["obs"].shape == (6, 3, STEPS)
    value = prior["obs"][0]
    densities = log_likelihood(model, {"level": prior["level"]}, value)["obs"]
    assert densities.shape == (6, 3)
    for i, level in enumerate(prior["level"]):
        steps = transition(RATES[0][:, None], 0.3, 0.2, GAPS)
        each = OscillatorTrace(level + jnp.zeros(STEPS), jnp.asarray(0.8), jnp.asarray(0.01), steps)
        assert_close(densities[i], each.log_prob(value), 1e-12)
    posterior = Predictive(model, {"level": prior["level"]})(jax.random.key(1))
    assert posterior["obs"].shape == (6, 3, STEPS)


def test_expanding_and_masking_by_numpyro() -> None:
    one = law(())
    values = jnp.asarray(one.expand((4,)).sample(jax.random.key(0)))
    assert values.shape == (4, STEPS)
    assert_close(jnp.asarray(one.expand((4,)).log_prob(values)), log_prob(one, values), 1e-13)
    masked = jnp.asarray(one.mask(jnp.asarray(False)).log_prob(values[0]))
    assert float(masked) == 0.0
