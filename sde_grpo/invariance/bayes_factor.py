"""Savage-Dickey Bayes factors from draws, with their Monte-Carlo error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import norm

from sde_grpo.errors import require

NEAR_ENOUGH = 10.0  # draws' worth of kernel weight below which a density is only bounded


class Density(NamedTuple):
    """An estimate of a density at one point, its Monte-Carlo standard error, and whether it is only an upper bound."""

    value: float
    error: float
    bound: bool


class BayesFactor(NamedTuple):
    """B = p(null | data)/p(null) in favour of the null; its Monte-Carlo standard error; whether B is an upper bound."""

    value: float
    error: float
    bound: bool


def density_at(draws: Float[np.ndarray, "chain draw"], point: float) -> Density:
    """f(x) = (1/n) sum_i K_h(x - X_i) g(x)/g(X_i), g the normal with the draws' mean and standard deviation.

    The kernel estimate is of the *ratio* to the normal, so that it has no bias where the posterior is normal, however
    far out x lies; h = 1.06 s n_eff^(-1/5). Its error is that of the mean of a correlated sequence, s_f/sqrt(ESS).
    Where fewer than `NEAR_ENOUGH` draws fall under the kernel, the draws say only that the density is small: the bound
    is what those `NEAR_ENOUGH` draws would give.

    **Arguments**

    - `draws`: of a scalar, (chain, draw), in any unit.
    - `point`: x, in the same unit.

    Raises `InputError` for draws that are all alike or not finite. Source: Hjort and Glad (1995),
    doi:10.1214/aos/1176324627.
    """
    from arviz_stats.base.array import array_stats

    flat = draws.ravel()
    mean, sd = float(flat.mean()), float(flat.std())
    require(
        bool(np.isfinite(sd)) and sd > 0,
        f"The {flat.size} draws have mean {mean:g} and standard deviation {sd:g}; a density needs finite draws that "
        "differ.",
    )
    width = 1.06 * sd * _effective(array_stats.ess(draws, method="bulk"), flat.size) ** -0.2
    kernel = norm.pdf(point, loc=draws, scale=width)
    peak = norm.pdf(0.0, scale=width)
    if kernel.sum() < NEAR_ENOUGH * peak:
        return Density(float(NEAR_ENOUGH * peak / flat.size), float("nan"), True)
    z, z_draws = (point - mean) / sd, (draws - mean) / sd
    terms = kernel * np.exp((z_draws**2 - z**2) / 2)
    error = terms.std(ddof=1) / np.sqrt(_effective(array_stats.ess(terms, method="mean"), flat.size))
    return Density(float(terms.mean()), float(error), False)


def savage_dickey(draws: Float[np.ndarray, "chain draw"], null: float, prior_density: float) -> BayesFactor:
    """B = p(theta = null | data) / p(theta = null): above 1 the data favour the null, below 1 they speak against it.

    **Arguments**

    - `draws`: of the tested parameter, (chain, draw).
    - `null`: the tested value.
    - `prior_density`: density of the prior there, > 0, per unit of the draws.

    Holds where the other parameters have, given the null, the prior they have under the null model, as they do under
    independent priors. Source: Dickey (1971), doi:10.1214/aoms/1177693507.
    """
    require(prior_density > 0, f"prior_density is {prior_density}; the prior must allow the null.")
    found = density_at(draws, null)
    return BayesFactor(found.value / prior_density, found.error / prior_density, found.bound)


def _effective(ess: object, count: int) -> float:
    """Effective draws, at most their number: antithetic chains are not given more."""
    value = float(np.asarray(ess))
    return min(value, count) if np.isfinite(value) else 4.0
