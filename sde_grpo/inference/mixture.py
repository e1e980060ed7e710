"""A mixture of heavy-tailed kernels around particles: a proposal that reaches every mode the particles found."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

NEIGHBOURS = 32
FREEDOM = 3.0  # Student-t kernels: tails heavier than the posterior's keep chains from sticking
_RIDGE = 1e-6  # of the particles' variances: neighbours that coincide would leave a kernel without width


class Mixture(NamedTuple):
    """Equal mixture of Student-t kernels: centres (m, d), lower Cholesky factors and their inverses (m, d, d)."""

    centre: Float[Array, "m d"]
    factor: Float[Array, "m d d"]
    inverse: Float[Array, "m d d"]

    def log_density(self, z: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Log density at each row of z."""
        m, d = self.centre.shape
        offset = jnp.einsum("mij,mj->mi", self.inverse, self.centre)
        whitened = (z @ self.inverse.reshape(m * d, d).T).reshape(-1, m, d) - offset
        log_det = jnp.sum(jnp.log(jnp.diagonal(self.inverse, axis1=-2, axis2=-1)), -1)
        kernel = log_det - 0.5 * (FREEDOM + d) * jnp.log1p(jnp.sum(whitened**2, -1) / FREEDOM)
        constant = gammaln((FREEDOM + d) / 2) - gammaln(FREEDOM / 2) - 0.5 * d * jnp.log(FREEDOM * jnp.pi)
        return jax.nn.logsumexp(kernel, -1) + constant - jnp.log(m)

    def draw(self, key: Array, n: int) -> Float[Array, "n d"]:
        """`n` independent draws."""
        m, d = self.centre.shape
        key_m, key_z, key_s = jax.random.split(key, 3)
        i = jax.random.randint(key_m, (n,), 0, m)
        scale = jnp.sqrt(FREEDOM / (2 * jax.random.gamma(key_s, FREEDOM / 2, (n,))))
        step = jnp.einsum("nij,nj->ni", self.factor[i], jax.random.normal(key_z, (n, d)))
        return self.centre[i] + scale[:, None] * step


def mixture_from_particles(particles: Float[Array, "n d"], kernels: int) -> Mixture:
    """Kernels around every (n / kernels)-th particle, each with the covariance of its nearest neighbours."""
    n, d = particles.shape
    spread = particles.std(0)
    scaled = particles / spread
    centre = scaled[:: max(n // kernels, 1)][:kernels]
    distance = jnp.sum(scaled**2, -1) - 2 * centre @ scaled.T  # of each centre, up to a constant
    near = scaled[jax.lax.top_k(-distance, NEIGHBOURS)[1]]
    deviation = near - near.mean(1, keepdims=True)
    covariance = jnp.einsum("mki,mkj->mij", deviation, deviation) / (NEIGHBOURS - 1) + _RIDGE * jnp.eye(d)
    factor = jnp.linalg.cholesky(covariance)
    inverse = jax.vmap(lambda f: jax.scipy.linalg.solve_triangular(f, jnp.eye(d), lower=True))(factor)
    return Mixture(centre * spread, spread[:, None] * factor, inverse / spread)
