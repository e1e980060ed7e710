"""NUTS with jumps: after each NUTS transition, Metropolis moves that use what the pilot found.

*Strides* go along scaled differences of pilot particles (differential evolution with a fixed archive: a symmetric
proposal), which fit narrow and bent places. *Jumps* are drawn, wherever the chain is, from heavy-tailed kernels around
the pilot particles (`mixture.py`): they carry chains between modes.
Both are accepted by the exact Metropolis-Hastings ratio, so the target stays exactly the posterior whatever the
quality of the pilot. Sources: ter Braak and Vrugt (2008), doi:10.1007/s11222-008-9104-9; Tierney (1994),
doi:10.1214/aos/1176325750.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpyro.infer import NUTS
from numpyro.infer.hmc import HMCState

from sde_grpo.inference.mixture import Mixture
from sde_grpo.inference.moves import accepted, stride_scale

STRIDES, JUMPS = 12, 6


class JumpingNUTS(NUTS):
    """NUTS on a potential function of one vector, each transition followed by `STRIDES` strides and `JUMPS` jumps.

    `particles` is the pilot's archive, shape (n, d), and `mixture` made from it; other options are those of NUTS.
    """

    def __init__(self, potential_fn, particles: Float[Array, "n d"], mixture: Mixture, **options) -> None:
        super().__init__(potential_fn=potential_fn, **options)
        self._potential = potential_fn
        self._value_and_grad = jax.value_and_grad(potential_fn)
        self._particles = particles
        self._mixture = mixture

    def sample(self, state: HMCState, model_args, model_kwargs) -> HMCState:
        """One transition of every chain."""
        state = super().sample(state, model_args, model_kwargs)
        move = self._move if jnp.ndim(state.potential_energy) == 0 else jax.vmap(self._move)
        return move(state)

    def _stride(self, carry, key: Array):
        z, potential = carry
        key_pair, key_scale, key_accept = jax.random.split(key, 3)
        first, second = jax.random.randint(key_pair, (2,), 0, len(self._particles))
        proposal = z + stride_scale(key_scale, z.size) * (self._particles[first] - self._particles[second])
        new = self._potential(proposal)
        taken = accepted(key_accept, potential - new)
        return (jnp.where(taken, proposal, z), jnp.where(taken, new, potential)), None

    def _jump(self, carry, key: Array):
        z, potential, density = carry
        key_draw, key_accept = jax.random.split(key)
        proposal = self._mixture.draw(key_draw, 1)[0]
        new, new_density = self._potential(proposal), self._mixture.log_density(proposal[None])[0]
        taken = accepted(key_accept, potential - new + density - new_density)
        return tuple(jnp.where(taken, a, b) for a, b in ((proposal, z), (new, potential), (new_density, density))), None

    def _move(self, state: HMCState) -> HMCState:
        key, key_strides, key_jumps = jax.random.split(state.rng_key, 3)
        start = (state.z, state.potential_energy)
        (z, potential), _ = jax.lax.scan(self._stride, start, jax.random.split(key_strides, STRIDES))
        start = (z, potential, self._mixture.log_density(z[None])[0])
        (z, _, _), _ = jax.lax.scan(self._jump, start, jax.random.split(key_jumps, JUMPS))
        potential, gradient = self._value_and_grad(z)
        return state._replace(z=z, potential_energy=potential, z_grad=gradient, rng_key=key)
