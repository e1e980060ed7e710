"""The noise of a logged reward about its mean (theory note, section 6)."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sde_grpo.model import priors

NoiseKind = Literal["design_effect", "dispersion", "constant"]


def design_effect(correlation: Array, group_size: Array, prompts: Array) -> Float[Array, "..."]:
    """[rho + (1 - rho)/G] / P: variance of a batch mean over that of one completion."""
    return (correlation + (1 - correlation) / group_size) / prompts


def noise_terms(kind: NoiseKind, completions, resolution: Array) -> tuple[Array, Array]:
    """(f, c) of the variance f u(1 - u) + c of a logged value of mean u, before averaging over batches.

    Samples the one noise parameter of its kind:

    - ``design_effect``: f = [rho + (1 - rho)/G] / P, for 0/1 rewards with G and P known;
    - ``dispersion``: f = d, for other rewards of a known range;
    - ``constant``: c = sigma^2, where no range is known.

    `completions` is (G, P). `resolution`, the grid of the logged values, adds its rounding variance
    resolution^2/12 to c: a run that sits at 0 has no spread at all, and a density needs one.
    """
    rounding = resolution**2 / 12
    import numpyro
    from numpyro import distributions as dist

    if kind == "design_effect":
        # Uniform by the normal distribution function, whose tails an engine can follow to 0 and to 1.
        normal = jnp.asarray(numpyro.sample("normal_correlation", dist.Normal(0.0, 1.0)))
        correlation = jnp.asarray(numpyro.deterministic("prompt_correlation", jax.scipy.special.ndtr(normal)))
        return design_effect(correlation, *completions), rounding
    if kind == "dispersion":
        return jnp.asarray(numpyro.sample("noise_scale", dist.HalfNormal(priors.NOISE_BOUNDED))) ** 2, rounding
    sd = jnp.asarray(numpyro.sample("noise_scale", dist.HalfNormal(priors.NOISE_UNBOUNDED)))
    return jnp.zeros_like(sd), sd**2 + rounding
