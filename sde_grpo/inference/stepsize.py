"""The step size of the leapfrog, from where it must hold: everywhere the pilot went.

Adapting the step size along a chain tunes it to the part of the posterior in which the chain warms up; one that later
enters a narrower part oversteps there. The pilot's particles lie in every part, so the largest step is taken at which
the energy is conserved from all of them.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sde_grpo.inference.target import Model, build_target
from sde_grpo.programs import Program

LARGEST = 0.5
LENGTH = 16  # leapfrog steps of a trial
TOLERATED = 2.0  # nats of energy error in a trial; NUTS calls 1000 a divergence
TRIALS = 1024  # particles tried


@Program
def energy_errors(
    key: Array,
    model: Model,
    args: tuple[Any, ...],
    particles: Float[Array, "n d"],
    covariance: Float[Array, "d d"],
    step: Array,
) -> Float[Array, " n"]:
    """Largest energy error along a trial of `LENGTH` leapfrog steps from each particle, metric `covariance`."""
    target = build_target(model, args)
    gradient = jax.vmap(jax.value_and_grad(lambda z: -target.log_joint(z)))
    factor = jnp.linalg.cholesky(jnp.linalg.inv(covariance))
    momentum = jax.random.normal(key, particles.shape) @ factor.T

    def energy(potential: Array, r: Array) -> Array:
        return potential + 0.5 * jnp.sum(r * (r @ covariance), -1)

    potential, slope = gradient(particles)
    start = energy(potential, momentum)

    def leap(carry, _):
        z, r, slope, worst = carry
        r = r - 0.5 * step * slope
        z = z + step * (r @ covariance)
        potential, slope = gradient(z)
        r = r - 0.5 * step * slope
        error = jnp.abs(energy(potential, r) - start)
        return (z, r, slope, jnp.maximum(worst, jnp.where(jnp.isnan(error), jnp.inf, error))), None

    (_, _, _, worst), _ = jax.lax.scan(
        leap, (particles, momentum, slope, jnp.zeros(len(particles))), None, length=LENGTH
    )
    return worst


def stable_step_size(
    key: Array, model: Model, args: tuple[Any, ...], particles: Float[Array, "n d"], covariance: Float[Array, "d d"]
) -> float:
    """Largest step LARGEST / 2^(j/2) whose trials from `TRIALS` of the particles all stay within `TOLERATED`."""
    some = particles[:: max(len(particles) // TRIALS, 1)][:TRIALS]
    step = LARGEST
    while (
        float(energy_errors(key, model, args, some, covariance, jnp.asarray(step)).max()) > TOLERATED
        and step > LARGEST / 2**8
    ):
        step /= 2**0.5
    return step
