"""The noise of a logged reward about its mean (theory note, section 6)."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Float

from sde_grpo.model import priors

NoiseKind = Literal["design_effect", "dispersion", "constant"]


def flip_variance(unit: Float[Array, "..."]) -> Float[Array, "..."]:
    """u (1 - u), kept smoothly positive where an identity link leaves [0, 1]."""
    product = unit * (1 - unit)
    return 0.5 * (product + jnp.sqrt(product**2 + 4e-6))


def design_effect(correlation: Array, group_size: Array, prompts: Array) -> Float[Array, "..."]:
    """[rho + (1 - rho)/G] / P: variance of a batch mean over that of one completion."""
    return (correlation + (1 - correlation) / group_size) / prompts


def noise_variance(kind: NoiseKind, unit: Float[Array, " step"], completions, resolution: Array) -> Array:
    """Variance of each logged value, before averaging over batches; samples the one noise parameter of its kind.

    - ``design_effect``: u(1 - u) [rho + (1 - rho)/G] / P, for 0/1 rewards with G and P known;
    - ``dispersion``: u(1 - u) d, for other rewards of a known range;
    - ``constant``: sigma^2, where no range is known.

    `completions` is (G, P). `resolution`, the grid of the logged values, adds its rounding variance
    resolution^2/12: a run that sits at 0 has no spread at all, and a density needs one.
    """
    if kind == "design_effect":
        # Uniform by the normal distribution function, whose tails an engine can follow to 0 and to 1.
        normal = jnp.asarray(numpyro.sample("normal_correlation", dist.Normal(0.0, 1.0)))
        correlation = jnp.asarray(numpyro.deterministic("prompt_correlation", jax.scipy.special.ndtr(normal)))
        variance = flip_variance(unit) * design_effect(correlation, *completions)
    elif kind == "dispersion":
        root = numpyro.sample("noise_scale", dist.HalfNormal(priors.NOISE_BOUNDED))
        variance = flip_variance(unit) * root**2
    else:
        sd = numpyro.sample("noise_scale", dist.HalfNormal(priors.NOISE_UNBOUNDED))
        variance = jnp.full_like(unit, 1.0) * sd**2
    return variance + resolution**2 / 12
