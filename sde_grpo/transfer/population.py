"""What runs of different settings have in common: one curvature, one start, one fixed point, and their scatter.

    log kappa_r = m + s e_c(r) + s' e_r,   z0_r ~ N(z0, w0^2),   z*_r ~ N(z*, w^2)

The posterior of the common parameters h needs of each run only the likelihood of theta = (log kappa, z0, z*), and that
is known from the draws of the run alone, under its own prior pi:

    L_r(h) = int p(y_r | theta) p(theta | h) dtheta  ~  (1/n) sum_i w_i N(theta_i; mean_h, B_r + Sigma_h),  w = 1/pi,

a kernel estimate (bandwidth B_r, draws shrunk towards their mean so that it adds no spread). So a run is fitted once,
and leaving settings out, in any combination, costs next to nothing. Source: Hogg, Myers and Bovy (2010),
doi:10.1088/0004-637X/725/2/2166; West (1993), doi:10.1111/j.2517-6161.1993.tb01911.x, for the kernels.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

from sde_grpo.inference.chains import nuts_chains
from sde_grpo.programs import Program
from sde_grpo.transfer.one_run import CURVATURE_SPREAD, OwnDraws

SCATTER = 0.5  # half-normal, of log kappa between settings: 0.5 is a factor of 1.6
SCATTER_OF_RUNS = 0.2  # half-normal, of log kappa between runs of one setting
SCATTER_OF_LEVELS = 0.3  # half-normal, of start and fixed point between runs, logit (a quarter of it in the range)
CHAINS, WARMUP, DRAWS, DEPTH = 4, 300, 500, 5
KERNELS = 256  # of each run
_HEAVIEST = 0.99  # quantile at which the weights 1/pi are cut off


class Kernels(NamedTuple):
    """The likelihood of every run as a mixture of normal kernels in theta = (log kappa, z0, z*)."""

    centre: Float[Array, "run draw 3"]
    log_weight: Float[Array, "run draw"]
    bandwidth: Float[Array, "run 3 3"]
    member: Int[Array, " run"]  # which setting a run has
    settings: Float[Array, " setting"]  # ones: their number is what matters
    about: Float[Array, ""]  # prior mean of log kappa
    unit: Float[Array, ""]  # 1 in logits, 1/4 in units of the range


def build_kernels(own: OwnDraws, member: NDArray[np.int64], about: float, logit: bool) -> Kernels:
    """Kernels from the draws of each run alone."""
    theta = np.stack([own.log_curvature, own.start, own.fixed_point], axis=-1)[:, :KERNELS]
    _, draws, dimension = theta.shape
    width = (4 / ((dimension + 2) * draws)) ** (1 / (dimension + 4))
    mean = theta.mean(axis=1, keepdims=True)
    centred = theta - mean
    covariance = np.einsum("rdi,rdj->rij", centred, centred) / draws + 1e-10 * np.eye(dimension)
    weight = -own.log_prior[:, :KERNELS]
    weight = np.minimum(weight, np.quantile(weight, _HEAVIEST, axis=1, keepdims=True))
    weight -= np.logaddexp.reduce(weight, axis=1, keepdims=True)
    arrays = (mean + np.sqrt(1 - width**2) * centred, weight, width**2 * covariance)
    settings = np.ones(int(member.max()) + 1)
    numbers = (np.asarray(about), np.asarray(1.0 if logit else 0.25))
    return Kernels(*map(jnp.asarray, (*arrays, member, settings, *numbers)))


def population_model(kernels: Kernels, weight: Float[Array, " run"]) -> None:
    """The model of this module; `weight` is 1 for runs that count and 0 for those left out."""
    import numpyro
    from numpyro import distributions as dist

    def scatter(name: str, width: float | Array) -> Array:
        """Half-normal by folding: zero is no boundary but an ordinary point."""
        folded = jnp.asarray(numpyro.sample(f"folded_{name}", dist.Normal(0.0, width)))
        return jnp.asarray(numpyro.deterministic(name, jnp.abs(folded)))

    count = kernels.settings.shape[0]
    common = jnp.asarray(numpyro.sample("log_curvature", dist.Normal(kernels.about, 2 * CURVATURE_SPREAD)))
    between = scatter("scatter_of_settings", SCATTER)
    within = scatter("scatter_of_runs", SCATTER_OF_RUNS)
    unit = jnp.asarray(numpyro.sample("unit_setting", dist.Normal(jnp.zeros(count), 1.0).to_event(1)))
    of_setting = jnp.asarray(numpyro.deterministic("log_curvature_of_setting", common + between * unit))
    middle, wide = jnp.where(kernels.unit == 1.0, 0.0, 0.5), 2.0 * kernels.unit
    start = numpyro.sample("start", dist.Normal(middle, wide))
    fixed_point = numpyro.sample("fixed_point", dist.Normal(middle, wide))
    levels = [scatter(f"scatter_of_{n}", SCATTER_OF_LEVELS * kernels.unit) for n in ("start", "fixed_point")]
    mean = jnp.stack(jnp.broadcast_arrays(of_setting[kernels.member], start, fixed_point), axis=-1)
    spread = jnp.diag(jnp.stack([within, *levels]) ** 2)
    root = jnp.linalg.cholesky(kernels.bandwidth + spread)
    away = jax.scipy.linalg.solve_triangular(root, jnp.swapaxes(kernels.centre - mean[:, None], 1, 2), lower=True)
    log_determinant = jnp.sum(jnp.log(jnp.diagonal(root, axis1=1, axis2=2)), axis=1)
    log_density = jax.nn.logsumexp(kernels.log_weight - 0.5 * jnp.sum(away**2, axis=1), axis=1) - log_determinant
    numpyro.factor("obs", jnp.sum(weight * log_density))


@partial(Program, quick=True)
def _sample(key: Array, kernels: Kernels, weights: Float[Array, "fit run"]) -> dict[str, Array]:
    def refit(key: Array, weight: Float[Array, " run"]) -> dict[str, Array]:
        args = (kernels, weight)
        return nuts_chains(key, population_model, args, chains=CHAINS, warmup=WARMUP, draws=DRAWS, depth=DEPTH)

    return jax.vmap(refit)(jax.random.split(key, weights.shape[0]), weights)


def sample_population(kernels: Kernels, weights: NDArray[np.float64], *, seed: int = 0) -> dict[str, NDArray]:
    """Draws of every site for every row of `weights` (fit, run): axes (fit, chain, draw, ...)."""
    return {n: np.asarray(v) for n, v in _sample(jax.random.key(seed), kernels, jnp.asarray(weights)).items()}
