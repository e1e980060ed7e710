"""The Laplace engine: a normal law at the highest mode. A quick look, which says itself when it will not do.

    p(z | y) ~ N(z*, H^-1),  log p(y) ~ log p(z*, y) + (d/2) log 2 pi - (1/2) log det H,  H = -grad^2 log p(z*, y)

on the unconstrained scale. Posteriors of reward curves are often bent or split; the tail of the importance weights
p(z, y)/q(z) tells whether this one is (Vehtari et al. 2024, arXiv 1507.02646).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.optimize import minimize
from jaxtyping import Array

from sde_grpo.errors import require
from sde_grpo.inference.engine import Draws, importance_summary
from sde_grpo.inference.target import Model, build_target
from sde_grpo.programs import Program

CHAINS, DRAWS = 4, 1024
CANDIDATES, STARTS = 1024, 8  # draws of the prior, and the best of them, from which the mode is sought


@Program
def _approximate(key: Array, model: Model, args: tuple[Any, ...]) -> tuple[dict[str, Array], Array, Array, Array]:
    """Sites and log joint of the draws, their log importance weights, and the log evidence."""
    target = build_target(model, args)
    key_start, key_draw = jax.random.split(key)
    candidates = target.prior_draws(key_start, CANDIDATES)
    density = jax.vmap(target.log_joint)(candidates)
    best = jax.lax.top_k(jnp.where(jnp.isnan(density), -jnp.inf, density), STARTS)[1]
    found = jax.vmap(lambda z: minimize(lambda x: -target.log_joint(x), z, method="BFGS"))(candidates[best])
    mode = found.x[jnp.argmin(jnp.where(jnp.isnan(found.fun), jnp.inf, found.fun))]
    factor = jnp.linalg.cholesky(jax.hessian(lambda x: -target.log_joint(x))(mode))
    noise = jax.random.normal(key_draw, (CHAINS * DRAWS, target.dimension))
    z = mode + jax.scipy.linalg.solve_triangular(factor.T, noise.T, lower=False).T
    log_joint = jax.vmap(target.log_joint)(z)
    constant = 0.5 * target.dimension * jnp.log(2 * jnp.pi) - jnp.sum(jnp.log(jnp.diagonal(factor)))
    weight = log_joint + 0.5 * jnp.sum(noise**2, -1) + constant
    return target.constrain(z), log_joint, weight, target.log_joint(mode) + constant


def sample_laplace(key: Array, model: Model, args: tuple[Any, ...], *, progress: bool = False) -> Draws:
    """Draws of the normal law at the mode of `model(*args)`; `Draws.tail` says whether it stands for the posterior.

    Raises `InputError` where the highest point found is no mode. `progress` is there for the engines' sake.
    """
    sites, log_joint, weight, evidence = jax.block_until_ready(_approximate(key, model, args))
    require(
        bool(jnp.isfinite(evidence)),
        "The posterior has no mode with a normal law around it, so engine 'laplace' cannot describe it. "
        "Use --engine smc.",
    )
    shape = (CHAINS, DRAWS)
    split = lambda a: np.asarray(a).reshape(*shape, *np.shape(a)[1:])  # noqa: E731
    return Draws(
        {name: split(values) for name, values in sites.items()},
        np.zeros(shape, bool),
        np.zeros(shape, int),
        split(log_joint),
        float(evidence),
        "laplace",
        importance_summary(np.asarray(weight))[1],
    )
