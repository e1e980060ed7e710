"""Tempered sequential Monte Carlo: particles cooled from the prior to the posterior find every mode.

The posterior of a reward curve is often bent or split (is the rise one slow mode, or a fast one followed by a
drift?). Chains started blindly get stuck in one part of it; particles that start from the whole prior and are cooled
onto the data do not. Moves are differential-evolution Metropolis steps: each half of the population moves
along differences of the other half, which needs no tuning and follows bends and gaps. Sources: Del Moral, Doucet and
Jasra (2006), doi:10.1111/j.1467-9868.2006.00553.x; ter Braak (2006), doi:10.1007/s11222-006-8769-1.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from sde_grpo.inference.moves import accepted, stride_scale
from sde_grpo.inference.target import Target

KEPT_SHARE = 0.5  # effective share of the particles that each cooling step keeps
LAST_STAGES = 5  # stages at the posterior itself
_BISECTIONS = 40
_MAX_STAGES = 200


class Population(NamedTuple):
    """Particles (n, d) with the two parts of their log joint density."""

    z: Float[Array, "n d"]
    log_prior: Float[Array, " n"]
    log_likelihood: Float[Array, " n"]

    @property
    def log_density(self) -> Float[Array, " n"]:
        """log p(z, y)."""
        return self.log_prior + self.log_likelihood


class Cooled(NamedTuple):
    """Equally weighted particles, the log evidence, and whether they reached the posterior. Neighbours in the
    population are the nearest relatives: what they still share shows as autocorrelation.
    """

    population: Population
    log_evidence: Float[Array, ""]
    finished: Bool[Array, ""]


def evaluated(z: Float[Array, "n d"], target: Target) -> Population:
    """The population at z; a density that is not a number counts as zero."""
    log_prior = jax.vmap(target.log_prior)(z)
    log_likelihood = jax.vmap(target.log_joint)(z) - log_prior
    return Population(z, log_prior, jnp.where(jnp.isnan(log_likelihood), -jnp.inf, log_likelihood))


def replaced(taken: Bool[Array, " n"], new: Population, old: Population) -> Population:
    """The particles of `new` where `taken`, of `old` elsewhere."""
    choose = lambda a, b: jnp.where(taken.reshape((-1,) + (1,) * (a.ndim - 1)), a, b)  # noqa: E731
    return jax.tree.map(choose, new, old)


def _half_sweep(key: Array, moved: Population, others: Population, beta: Array, target: Target):
    """One differential-evolution Metropolis step of every particle of `moved`, along differences of `others`."""
    n, d = moved.z.shape
    pick, scale, jitter, accept = jax.random.split(key, 4)
    first, second = jax.random.randint(pick, (2, n), 0, others.z.shape[0])
    gamma = stride_scale(scale, d, (n,))
    proposal = moved.z + gamma[:, None] * (others.z[first] - others.z[second])
    proposal += 1e-4 * jax.random.normal(jitter, moved.z.shape) * others.z.std(0)
    new = evaluated(proposal, target)
    ratio = new.log_prior - moved.log_prior + beta * (new.log_likelihood - moved.log_likelihood)
    return replaced(accepted(accept, ratio), new, moved)


def sweep(key: Array, population: Population, beta: Array, target: Target, sweeps: int):
    """`sweeps` passes over the population, each moving a random half of it twice."""
    half = population.z.shape[0] // 2

    def body(carry, key):
        key_order, key_move = jax.random.split(key)
        order = jax.random.permutation(key_order, 2 * half)
        moved, others = (jax.tree.map(lambda a, i=i: a[i], carry) for i in (order[:half], order[half:]))
        moved = _half_sweep(key_move, moved, others, beta, target)
        return jax.tree.map(lambda whole, part: whole.at[order[:half]].set(part), carry, moved), None

    return jax.lax.scan(body, population, jax.random.split(key, 2 * sweeps))[0]


def _effective_share(step: Array, log_likelihood: Array) -> Array:
    w = jax.nn.softmax(step * log_likelihood)
    return 1.0 / (w.size * jnp.sum(w**2))


def _next_beta(beta: Array, log_likelihood: Array) -> Array:
    """Largest temperature step that keeps `KEPT_SHARE` of the particles effective."""

    def halve(bounds, _):
        low, high = bounds
        middle = (low + high) / 2
        enough = _effective_share(middle - beta, log_likelihood) >= KEPT_SHARE
        return (jnp.where(enough, middle, low), jnp.where(enough, high, middle)), None

    (low, _), _ = jax.lax.scan(halve, (beta, jnp.ones_like(beta)), None, length=_BISECTIONS)
    whole = _effective_share(1.0 - beta, log_likelihood) >= KEPT_SHARE
    return jnp.where(whole, 1.0, jnp.maximum(low, beta + 1e-9))


def cool(key: Array, target: Target, particles: int, sweeps: int) -> Cooled:
    """Cool `particles` draws of the prior onto the posterior, with `sweeps` passes of moves at each temperature.

    Deterministic in `key`; traceable by jit and vmap.
    """
    key, key_prior = jax.random.split(key)
    start = evaluated(target.prior_draws(key_prior, particles), target)

    def unfinished(carry):
        return (carry[2] < LAST_STAGES) & (carry[5] < _MAX_STAGES)

    def stage(carry):
        key, population, last, evidence, beta, count = carry
        key, key_resample, key_move = jax.random.split(key, 3)
        new = _next_beta(beta, population.log_likelihood)
        log_weight = (new - beta) * population.log_likelihood
        evidence += jax.nn.logsumexp(log_weight) - jnp.log(particles)
        positions = (jnp.arange(particles) + jax.random.uniform(key_resample)) / particles
        chosen = jnp.searchsorted(jnp.cumsum(jax.nn.softmax(log_weight)), positions).clip(0, particles - 1)
        population = jax.tree.map(lambda a: a[chosen], population)
        population = sweep(key_move, population, new, target, sweeps)
        return key, population, last + (new >= 1.0), evidence, new, count + 1

    zero, none = jnp.zeros(()), jnp.zeros((), int)
    _, population, last, evidence, _, _ = jax.lax.while_loop(unfinished, stage, (key, start, none, zero, zero, none))
    return Cooled(population, evidence, last >= LAST_STAGES)
