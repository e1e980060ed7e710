"""The NUTS engine: pilot, stable step size, jumps, and more draws until the posterior counts as sampled.

The compiled programs take the data as arguments: another run of the same length and variant compiles nothing.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpyro.infer.hmc import HMCState
from tqdm import tqdm

from sde_grpo.inference.cooling import Cooled, cool
from sde_grpo.inference.engine import Draws, convergence
from sde_grpo.inference.jumps import JumpingNUTS
from sde_grpo.inference.mixture import Mixture, mixture_from_particles
from sde_grpo.inference.stepsize import stable_step_size
from sde_grpo.inference.target import Model, build_target
from sde_grpo.programs import Program

CHAINS = 4
PILOT_PARTICLES, PILOT_SWEEPS, KERNELS = 4096, 8, 2048
BLOCK = 100  # draws of every chain in one call of the compiled program
FORGOTTEN, FEWEST, MOST = 1, 5, 30  # blocks: of warm-up; of draws before convergence is asked; of draws at most
DEPTH = 4  # trajectories of at most 2^4 steps: strides and jumps do the long distances

Args = tuple[Any, ...]


class _Tuning(NamedTuple):
    """What the chains take from the pilot."""

    particles: Float[Array, "n d"]
    mixture: Mixture
    covariance: Float[Array, "d d"]
    step_size: Float[Array, ""]


def _kernel(model: Model, args: Args, tuning: _Tuning) -> JumpingNUTS:
    target = build_target(model, args)
    return JumpingNUTS(
        lambda z: -target.log_joint(z),
        tuning.particles,
        tuning.mixture,
        dense_mass=True,
        inverse_mass_matrix=tuning.covariance,
        step_size=tuning.step_size,
        adapt_step_size=False,
        adapt_mass_matrix=False,
        max_tree_depth=DEPTH,
    )


@Program
def _pilot(key: Array, model: Model, args: Args) -> tuple[Cooled, Mixture, Array]:
    pilot = cool(key, build_target(model, args), PILOT_PARTICLES, PILOT_SWEEPS)
    particles = pilot.population.z
    return pilot, mixture_from_particles(particles, KERNELS), jnp.atleast_2d(jnp.cov(particles.T))


@Program
def _begin(key: Array, starts: Float[Array, "chain d"], model: Model, args: Args, tuning: _Tuning) -> HMCState:
    return _kernel(model, args, tuning).init(jax.random.split(key, CHAINS), 0, starts, (), {})


@Program
def _block(state: HMCState, model: Model, args: Args, tuning: _Tuning) -> tuple[HMCState, dict[str, Array]]:
    """`BLOCK` transitions of every chain; what is recorded has axes (draw, chain)."""
    kernel = _kernel(model, args, tuning)
    kernel.init(state.rng_key, 0, state.z, (), {})  # builds the kernel's functions; its result is not used

    def one(state: HMCState, _: None) -> tuple[HMCState, dict[str, Array]]:
        state = kernel.sample(state, (), {})
        names = {"z": state.z, "diverging": state.diverging, "steps": state.num_steps}
        return state, names | {"log_density": -state.potential_energy}

    return jax.lax.scan(one, state, None, length=BLOCK)


@Program
def _constrain(z: Float[Array, "draw chain d"], model: Model, args: Args) -> dict[str, Array]:
    return jax.vmap(build_target(model, args).constrain)(z)


def sample_nuts(key: Array, model: Model, args: Args, *, progress: bool = False) -> Draws:
    """Sample the posterior of `model(*args)` with `CHAINS` chains started from the pilot's particles.

    Metric and step size come from the pilot as well, so there is nothing to adapt; the warm-up only lets the chains
    forget their starts. After `FEWEST` blocks of draws, blocks are added until R-hat and effective sample sizes pass
    (`convergence`), `MOST` in all; the caller reports what was reached.
    """
    key_pilot, key_chains, key_starts, key_step = jax.random.split(key, 4)
    bar = tqdm(total=FORGOTTEN + FEWEST + 2, disable=not progress, file=sys.stderr, leave=False)

    def advance(stage: str) -> None:
        bar.update()
        bar.set_description(stage)

    bar.set_description("finding the modes")
    pilot, mixture, covariance = jax.block_until_ready(_pilot(key_pilot, model, args))
    advance("step size")
    particles = pilot.population.z
    step_size = stable_step_size(key_step, model, args, particles, covariance)
    tuning = _Tuning(particles, mixture, covariance, jnp.asarray(step_size))
    advance("sampling")
    chosen = jax.random.choice(key_starts, particles.shape[0], (CHAINS,), replace=False)
    state = _begin(key_chains, particles[chosen], model, args, tuning)
    recorded: list[dict[str, np.ndarray]] = []
    sites: list[dict[str, np.ndarray]] = []
    for index in range(FORGOTTEN + MOST):
        state, new = _block(state, model, args, tuning)
        advance("sampling")
        if index < FORGOTTEN:
            continue
        recorded.append({n: np.asarray(v).swapaxes(0, 1) for n, v in new.items()})
        sites.append({n: np.asarray(v).swapaxes(0, 1) for n, v in _constrain(new["z"], model, args).items()})
        if len(recorded) >= FEWEST and convergence(_joined(sites)).reached:
            break
    bar.close()
    all_draws = _joined(recorded)
    return Draws(
        _joined(sites),
        all_draws["diverging"],
        all_draws["steps"],
        all_draws["log_density"],
        float(pilot.log_evidence),
        "nuts",
        None,
    )


def _joined(blocks: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([b[name] for b in blocks], axis=1) for name in blocks[0]}
