"""diffrax terms of a force and a motion: underdamped Langevin where that is what it is, ordinary terms elsewhere."""

from __future__ import annotations

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sde_grpo.errors import require
from sde_grpo.sde.forces import Force, require_known
from sde_grpo.sde.motion import Motion

# (x, v) as a pair: the state of the Langevin terms.
Pair = tuple[Float[Array, ""], Float[Array, ""]]


def langevin_terms(force: Force, motion: Motion, path: diffrax.AbstractBrownianPath) -> diffrax.MultiTerm:
    """dx = v dt,  dv = -gamma v dt - u grad f(x) dt + sqrt(2 gamma u) dW, with

        gamma = C/M,   u = T/M = eta^2 V / (2 C M),   grad f = -eta F(x) / (M u) = -eta F(x) / T.

    u is the temperature per unit mass: the stationary density is exp(-f(x) - v^2/(2u)), for a linear force
    Var x = T/K and Var v = T/M, and V falls as 1/G. The state is the pair (x, v).

    Raises `InputError` unless the motion has a mass, C > 0, and the noise is positive and constant.
    """
    require(
        motion.mass is not None and force.constant_noise,
        "Langevin terms need a mass and a noise that does not depend on the state; use ordinary terms.",
    )
    assert motion.mass is not None
    variance = force.variance(jnp.zeros(()))
    require_known("damping", motion.damping, lambda x: x > 0, "positive for Langevin terms; use ordinary terms")
    require_known("the noise variance", variance, lambda x: x > 0, "positive for Langevin terms; use ordinary terms")
    temperature = motion.learning_rate**2 * variance / (2 * motion.damping)
    gamma, u = jnp.asarray(motion.damping / motion.mass), temperature / motion.mass

    def grad_f(x: Float[Array, ""], _: object) -> Float[Array, ""]:
        return -motion.learning_rate * force.mean(x) / temperature

    return diffrax.MultiTerm(
        diffrax.UnderdampedLangevinDriftTerm(gamma, u, grad_f), diffrax.UnderdampedLangevinDiffusionTerm(gamma, u, path)
    )


def ordinary_terms(
    force: Force, motion: Motion, path: diffrax.AbstractBrownianPath, stratonovich: bool
) -> diffrax.MultiTerm:
    """The same motion as a drift and a diffusion of the vector (x, v), or (x,) without a mass: any C, any noise.

    The equation is Ito's. For a solver that converges to the Stratonovich solution, first-order motion gets the drift
    eta F/C - (eta/C)^2 V'(x)/4, whose Stratonovich solution is the Ito solution of drift eta F/C; with a mass the
    correction is zero. It is written with V' and not with the slope of sqrt(V), which is infinite where V = 0.
    """
    rate = motion.learning_rate / (motion.damping if motion.mass is None else motion.mass)
    corrected = stratonovich and motion.mass is None and not force.constant_noise

    def drift(_: object, y: Float[Array, "state"], __: object) -> Float[Array, "state"]:
        x = y[0]
        push = rate * force.mean(x)
        if motion.mass is None:
            return jnp.stack([push - rate**2 * jax.grad(force.variance)(x) / 4 if corrected else push])
        return jnp.stack([y[1], push - motion.damping / motion.mass * y[1]])

    def diffusion(_: object, y: Float[Array, "state"], __: object) -> Float[Array, "state"]:
        spread = rate * _root(force.variance(jnp.zeros(()) if force.constant_noise else y[0]))
        return jnp.stack([spread] if motion.mass is None else [jnp.zeros(()), spread])

    return diffrax.MultiTerm(diffrax.ODETerm(drift), diffrax.ControlTerm(diffusion, path))


def _root(variance: Float[Array, ""]) -> Float[Array, ""]:
    """sqrt with slope 0, not infinity, at 0."""
    positive = variance > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, variance, 1.0)), 0.0)
