"""The one-pass likelihood of a curve against the reference filter on the same curve."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sde_grpo.likelihood import Curve, Grid, Link, OscillatorCurve
from tests.tolerance import assert_close

LANES = 7
INERTIA = np.array([1e-6, 1e-3, 0.05, 0.2499999, 0.25, 0.6, 5.0])  # overdamped limit to strong ringing


def curve(link: Link, steps: int) -> Curve:
    """One lane for every regime."""
    rng = np.random.default_rng(1)
    tau = steps * np.geomspace(0.02, 3.0, LANES)
    x0 = rng.normal(-1.5 if link == "logit" else -0.4, 0.2, LANES)
    values = (
        rng.normal(0.7, 0.1, LANES),
        x0,
        -(x0 / tau) * (1 + rng.normal(0.25, 0.3, LANES) / INERTIA),
        1 / (2 * INERTIA * tau),
        1 / (INERTIA * tau**2),
        rng.normal(0, 0.1, LANES) * (np.arange(LANES) != 2),  # one lane without fluctuation
        rng.uniform(0.001, 0.05, LANES),
        np.full(LANES, 1e-6),
    )
    return Curve(*(jnp.asarray(v) for v in values))


def grid(steps: int, uneven: bool) -> Grid:
    rng = np.random.default_rng(2)
    gaps = rng.choice([1.0, 2.0, 5.0], steps - 1) if uneven else np.full(steps - 1, 2.0)
    time = np.concatenate([[0.0], np.cumsum(gaps)])
    distinct, index = np.unique(np.diff(time, prepend=0.0), return_inverse=True)
    seen = rng.random(steps) > 0.1 if uneven else np.ones(steps, bool)
    return Grid(jnp.asarray(time), jnp.asarray(distinct), jnp.asarray(index), jnp.asarray(seen))


def both(law: OscillatorCurve, reward: jax.Array) -> tuple[jax.Array, jax.Array]:
    return law.log_prob(reward), law.trace.log_prob(reward)


@pytest.mark.parametrize("uneven", [False, True], ids=["even", "uneven, missing"])
@pytest.mark.parametrize("link", ["identity", "logit"])
def test_value_and_gradient_are_those_of_the_trace(link: Link, uneven: bool) -> None:
    steps = 37
    lanes, where = curve(link, steps), grid(steps, uneven)
    reward = jnp.asarray(np.random.default_rng(3).uniform(0.2, 0.9, steps))
    one, other = jax.jit(lambda c: both(OscillatorCurve(c, where, link), reward))(lanes)
    assert one.shape == (LANES,)
    assert_close(one, other, 1e-9)
    slopes = [
        jax.jit(jax.grad(lambda c, i=i: both(OscillatorCurve(c, where, link), reward)[i].sum()))(lanes) for i in (0, 1)
    ]
    for name, a, b in zip(Curve._fields, *slopes, strict=True):
        assert np.isfinite(a).all(), name
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6 * float(jnp.abs(b).max()), err_msg=name)


def test_rewards_that_were_not_seen_do_not_matter() -> None:
    law = OscillatorCurve(curve("logit", 37), grid(37, True), "logit")
    reward = jnp.full(37, 0.5)
    unseen = jnp.where(law.grid.observed, reward, jnp.nan)
    np.testing.assert_array_equal(law.log_prob(unseen), law.log_prob(reward))


def test_many_steps() -> None:
    """The product of variances neither overflows nor vanishes, and the carried curve does not drift."""
    law = OscillatorCurve(curve("logit", 50_000), grid(50_000, False), "logit")
    reward = jnp.asarray(np.random.default_rng(4).uniform(0.2, 0.9, 50_000))
    one, other = jax.jit(lambda: both(law, reward))()
    assert_close(one, other, 1e-9)


def test_shapes_and_samples() -> None:
    law = OscillatorCurve(curve("logit", 37), grid(37, True), "logit")
    draws = law.sample(jax.random.key(0), (3,))
    assert (law.batch_shape, law.event_shape, draws.shape) == ((LANES,), (37,), (3, LANES, 37))
    assert law.log_prob(draws).shape == (3, LANES)
    np.testing.assert_array_equal(draws, law.trace.sample(jax.random.key(0), (3,)))
