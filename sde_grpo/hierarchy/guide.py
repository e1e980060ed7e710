"""What each run says by itself, as a normal law: the coordinates in which a sweep is easy to sample.

A run's five parameters theta_r (level, log tau, start, log q, weight of the fast mode) have the prior
theta = mu + d eta, eta ~ N(0, I), with unknown centre mu and scatter d. Where the run tells them well, mu, d and eta
are strongly tied to each other; where it does not, centred chains meet a funnel. With the run's likelihood
near exp(-theta' H theta/2 + h' theta), eta given mu and d has precision L L' = 1 + d H d and mean
m = (L L')^-1 d (h - H mu). What is sampled is zeta,

    eta = m + L'^-1 zeta,   log p(zeta) = -zeta'zeta/2 - log N(zeta) + [-eta'eta/2 - sum log diag L],

the same law for any H and h, for they only choose coordinates; H = 0 is the non-centred form. H is the Fisher
information of the mean curve without fluctuation, at the run's own best fit.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sde_grpo.likelihood.links import Link, to_coordinate, to_unit
from sde_grpo.model import priors as single
from sde_grpo.oscillator.motion import displacement
from sde_grpo.programs import Program

if TYPE_CHECKING:
    from sde_grpo.hierarchy.design import SweepDesign

PARAMETERS = ("level", "log_relaxation_time", "start", "log_inertia_ratio", "fast_weight")
_WIDTHS = (0.5, 0.5, 0.7, 0.7, 0.3)  # within which a run's best fit is sought about that of all
_STEPS = 60  # of Levenberg and Marquardt


class Guide(eqx.Module):
    """Normal approximation of each run's likelihood, in the information form."""

    information: Float[Array, "run 5 5"]  # H
    score: Float[Array, "run 5"]  # h
    log_noise: Float[Array, " run"]  # log of the noise variance in units of flips, or of the variance itself
    noise_information: Float[Array, " run"]
    centre: Float[Array, "5"]  # best fit of all runs together

    @classmethod
    def none(cls, runs: int) -> Guide:
        """Nothing is known: non-centred coordinates, those of the prior."""
        return cls(jnp.zeros((runs, 5, 5)), jnp.zeros((runs, 5)), jnp.zeros(runs), jnp.zeros(runs), jnp.zeros(5))


def transported(
    zeta: Float[Array, "run n"],
    scatter: Float[Array, " n"],
    centre: Float[Array, "run n"],
    information: Float[Array, "run n n"],
    score: Float[Array, "run n"],
) -> tuple[Float[Array, "run n"], Float[Array, ""]]:
    """theta = mu + d eta, and what has to be added to the log density of zeta for eta to be standard normal."""
    precision = jnp.eye(scatter.size) + scatter[:, None] * information * scatter
    pull = scatter * (score - jnp.einsum("rij,rj->ri", information, centre))
    factor = jnp.linalg.cholesky(precision)
    solve = jax.vmap(partial(jax.scipy.linalg.solve_triangular, lower=True))
    turn = jax.vmap(partial(jax.scipy.linalg.solve_triangular, lower=True, trans=1))
    eta = turn(factor, solve(factor, pull) + zeta)
    log_diagonal = jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1))
    return centre + scatter * eta, jnp.sum(0.5 * (zeta**2 - eta**2) - log_diagonal)


def _curve(theta: Float[Array, "5"], time: Float[Array, " step"], link: Link) -> Float[Array, " step"]:
    level, log_tau, start, log_q, weight = theta
    tau, q = jnp.exp(log_tau), jnp.exp(log_q)
    x0 = start - level
    return to_unit(
        link, level + displacement(1 / (2 * q * tau), 1 / (q * tau**2), x0, -(x0 / tau) * (1 + weight / q), time)
    )


def _best(residuals, start: Float[Array, "5"]) -> tuple[Float[Array, "5"], Float[Array, ""]]:
    """Least squares of `residuals(theta)` by damped Gauss-Newton steps."""

    def step(carry, _):
        theta, cost, damping = carry
        r, jacobian = residuals(theta), jax.jacfwd(residuals)(theta)
        curvature = jacobian.T @ jacobian
        new = theta - jnp.linalg.solve(curvature + damping * jnp.diag(jnp.diagonal(curvature)), jacobian.T @ r)
        new_cost = jnp.sum(residuals(new) ** 2)
        better = new_cost < cost
        return (
            jnp.where(better, new, theta),
            jnp.where(better, new_cost, cost),
            jnp.clip(damping * jnp.where(better, 0.3, 4.0), 1e-6, 1e8),
        ), None

    (theta, cost, _), _ = jax.lax.scan(step, (start, jnp.sum(residuals(start) ** 2), 1e-2), None, length=_STEPS)
    return theta, cost


@Program
def find_guide(design: SweepDesign) -> Guide:
    """The normal law of each run, about the best fit of all together."""
    from sde_grpo.likelihood import flip_variance

    seen, y, time = design.observed, jnp.where(design.observed, design.reward, 0.5), design.time
    counts = seen.sum(1)
    level = jnp.sum(jnp.where(seen, y, 0.0)) / counts.sum()
    spread = jnp.sqrt(jnp.sum(jnp.where(seen, (y - level) ** 2, 0.0)) / counts.sum())
    wide = 1.8 if design.link == "logit" else single.LEVEL_SPREAD
    middle = jnp.array([level, jnp.log(single.RELAXATION_MEDIAN * design.length), level, 0.0, single.FAST_WEIGHT_MEAN])
    middle = middle.at[3].set(jnp.log(single.INERTIA_MEDIAN))
    middle = middle.at[jnp.array([0, 2])].set(
        to_coordinate(design.link, jnp.clip(level, 0.02, 0.98) if design.bounded else level)
    )
    widths = jnp.array([wide, single.RELAXATION_SPREAD, wide, single.INERTIA_SPREAD, single.FAST_WEIGHT_SPREAD])

    def pooled(theta: Array) -> Array:
        fitted = jax.vmap(lambda t: _curve(theta, t, design.link))(time)
        return jnp.concatenate(
            [(jnp.where(seen, y - fitted, 0.0) / (0.5 * spread + 1e-3)).ravel(), (theta - middle) / widths]
        )

    shifts = jnp.array([[0.0, a, 0.0, 0.0, w - middle[4]] for a in (-2.0, -1.0, 0.0, 1.0) for w in (0.0, 0.6)])
    found, costs = jax.vmap(lambda s: _best(pooled, middle + s))(shifts)
    centre = found[jnp.argmin(jnp.where(jnp.isnan(costs), jnp.inf, costs))]
    narrow = jnp.asarray(_WIDTHS) * (1.0 if design.link == "logit" else jnp.array([0.2, 1.0, 0.2, 1.0, 1.0]))

    def one(y: Array, seen: Array, time: Array, count: Array, averaged: Array):
        def noise(theta: Array) -> tuple[Array, Array, Array]:
            unit = _curve(theta, time, design.link)
            shape = flip_variance(unit) if design.noise != "constant" else jnp.ones_like(unit)
            size = jnp.sum(jnp.where(seen, (y - unit) ** 2 / shape, 0.0)) / count + 1e-8
            return unit, size, shape

        def refit(theta: Array) -> tuple[Array, Array, Array]:
            """Best fit with the weights of `theta`, and its residuals and their slopes in these weights."""
            _, size, shape = noise(theta)
            weight = jnp.where(seen, 1 / jnp.sqrt(size * shape), 0.0)

            def data(theta: Array) -> Array:
                return (y - _curve(theta, time, design.link)) * weight

            theta, _ = _best(lambda t: jnp.concatenate([data(t), (t - centre) / narrow]), theta)
            return theta, data(theta), jax.jacfwd(data)(theta)

        theta, residual, jacobian = refit(refit(centre)[0])
        information = jacobian.T @ jacobian
        _, size, _ = noise(theta)
        return information, information @ theta - jacobian.T @ residual, jnp.log(size * averaged), count / 2

    information, score, log_noise, noise_information = jax.vmap(one)(y, seen, time, counts, design.averaged)
    ok = jnp.isfinite(information).all((1, 2)) & jnp.isfinite(score).all(1) & jnp.isfinite(log_noise)
    return Guide(
        jnp.where(ok[:, None, None], information, 0.0),
        jnp.where(ok[:, None], score, 0.0),
        jnp.where(ok, log_noise, 0.0),
        jnp.where(ok, noise_information, 0.0),
        centre,
    )
