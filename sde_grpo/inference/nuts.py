"""The NUTS engine: pilot, stable step size, jumps, and more draws until the posterior counts as sampled."""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from tqdm import tqdm

from sde_grpo.inference.engine import Draws, convergence
from sde_grpo.inference.jumps import JumpingNUTS
from sde_grpo.inference.pilot import run_pilot
from sde_grpo.inference.stepsize import stable_step_size
from sde_grpo.inference.target import Target

CHAINS = 4
BLOCK = 100  # draws of every chain in one call of the compiled program
FORGOTTEN, FEWEST, MOST = 1, 5, 30  # blocks: of warm-up; of draws before convergence is asked; of draws at most
DEPTH = 4  # trajectories of at most 2^4 steps: strides and jumps do the long distances


def sample_nuts(key: Array, target: Target, *, progress: bool = False) -> Draws:
    """Sample `target` with `CHAINS` chains started from the pilot's particles.

    Metric and step size come from the pilot as well, so there is nothing to adapt; the warm-up only lets the chains
    forget their starts. After `FEWEST` blocks of draws, blocks are added until R-hat and effective sample sizes pass
    (`convergence`), `MOST` in all; the caller reports what was reached.
    """
    key_pilot, key_chains, key_starts, key_step = jax.random.split(key, 4)
    bar = tqdm(total=FORGOTTEN + FEWEST + 2, desc="pilot", disable=not progress, file=sys.stderr, leave=False)
    pilot = jax.jit(lambda k: run_pilot(k, target))(key_pilot)
    particles = jax.block_until_ready(pilot.particles)
    bar.update()
    bar.set_description("step size")
    covariance = jnp.cov(particles.T)
    step_size = stable_step_size(key_step, target, particles, covariance)
    bar.update()
    bar.set_description("chains")
    kernel = JumpingNUTS(
        lambda z: -target.log_joint(z),
        particles,
        dense_mass=True,
        inverse_mass_matrix=covariance,
        step_size=step_size,
        adapt_step_size=False,
        adapt_mass_matrix=False,
        max_tree_depth=DEPTH,
    )
    starts = particles[jax.random.choice(key_starts, particles.shape[0], (CHAINS,), replace=False)]
    state = jax.jit(lambda k, z: kernel.init(k, 0, z, (), {}))(jax.random.split(key_chains, CHAINS), starts)

    @jax.jit
    def block(state):
        def one(state, _):
            state = kernel.sample(state, (), {})
            return state, (state.z, state.diverging, state.num_steps, -state.potential_energy)

        return jax.lax.scan(one, state, None, length=BLOCK)

    constrain = jax.jit(jax.vmap(target.constrain))
    kept: list[tuple[np.ndarray, ...]] = []
    sites: list[dict[str, np.ndarray]] = []
    for index in range(FORGOTTEN + MOST):
        state, recorded = block(state)
        bar.update()
        if index < FORGOTTEN:
            continue
        kept.append(tuple(np.asarray(a).swapaxes(0, 1) for a in recorded))
        sites.append({n: np.asarray(v) for n, v in constrain(kept[-1][0]).items()})
        if len(kept) >= FEWEST and convergence(_joined(sites)).reached:
            break
    bar.close()
    _, diverging, steps, log_density = (np.concatenate(parts, axis=1) for parts in zip(*kept, strict=True))
    return Draws(_joined(sites), diverging, steps, log_density, float(pilot.log_evidence), "nuts")


def _joined(blocks: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([b[name] for b in blocks], axis=1) for name in blocks[0]}
