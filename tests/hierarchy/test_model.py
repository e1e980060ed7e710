"""The law of a sweep against textbook forms, and coordinates that change nothing but the coordinates."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

from sde_grpo.hierarchy.guide import transported
from sde_grpo.hierarchy.traces import Shared, SweepTraces
from sde_grpo.likelihood import Curve, Grid, OscillatorCurve
from tests.tolerance import assert_close

RUNS, STEPS = 3, 6
RNG = np.random.default_rng(5)
GRID = Grid(
    jnp.broadcast_to(jnp.arange(float(STEPS)), (RUNS, STEPS)),
    jnp.array([0.0, 1.0]),
    jnp.broadcast_to(jnp.minimum(jnp.arange(STEPS), 1), (RUNS, STEPS)),
    jnp.asarray(RNG.uniform(size=(RUNS, STEPS)) < 0.8),
)
ORDER = jnp.array([0, 1, 0])
FRACTION = 0.6


def curve(stationary_sd: float) -> Curve:
    return Curve(
        level=jnp.array([1.0, 1.3, 0.8]),
        displacement=jnp.array([-2.0, -2.4, -1.9]),
        velocity=jnp.array([0.1, 0.2, 0.0]),
        b=jnp.full(RUNS, 0.5),
        k=jnp.array([0.1, 0.2, 0.15]),
        stationary_sd=jnp.full(RUNS, stationary_sd),
        flips=jnp.array([0.02, 0.01, 0.03]),
        floor=jnp.full(RUNS, 1e-4),
    )


def dense_log_density(sd: float, reward: np.ndarray) -> float:
    """Of all observed values at once: the covariance written out, the shared effect as one more source of noise."""
    law = curve(sd)
    grids = [Grid(GRID.time[r], GRID.gaps, GRID.gap_index[r], GRID.observed[r]) for r in range(RUNS)]
    traces = [OscillatorCurve(Curve(*(e[r] for e in law)), grids[r], "logit").trace for r in range(RUNS)]
    mean = np.concatenate([t.loc for t in traces])
    noise = np.concatenate([t.noise_variance for t in traces])
    covariance = np.zeros((RUNS * STEPS, RUNS * STEPS))
    for r, t in enumerate(traces):
        state, path = np.zeros((2, 2)), np.zeros((STEPS, STEPS))
        f, q = np.zeros((STEPS, 2, 2)), np.zeros((STEPS, 2, 2))
        for k in range(STEPS):
            e = [np.asarray(x)[k] for x in t.steps]
            f[k], q[k] = [[e[0], e[1]], [e[2], e[3]]], [[e[4], e[5]], [e[5], e[6]]]
        for k in range(STEPS):
            state = f[k] @ state @ f[k].T + q[k]
            across = state
            for later in range(k, STEPS):
                across = across if later == k else f[later] @ across
                path[later, k] = path[k, later] = across[0, 0]
        gains = np.asarray(t.gain)
        here = slice(r * STEPS, (r + 1) * STEPS)
        covariance[here, here] = gains[:, None] * path * gains
    order, step = np.repeat(np.asarray(ORDER), STEPS), np.tile(np.arange(STEPS), RUNS)
    together = (order[:, None] == order) & (step[:, None] == step)
    covariance += FRACTION * together * np.sqrt(noise[:, None] * noise) + (1 - FRACTION) * np.diag(noise)
    seen = np.asarray(GRID.observed).ravel()
    return float(multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(reward.ravel()[seen]))


def log_density(sd: float, reward: np.ndarray, zeta: np.ndarray) -> np.ndarray:
    one = lambda z: SweepTraces(curve(sd), GRID, Shared(jnp.asarray(FRACTION), z, ORDER), "logit").log_prob(reward)  # noqa: E731
    return np.asarray(jax.jit(jax.vmap(one))(jnp.asarray(zeta)))


def test_without_fluctuation_the_shared_effect_is_integrated_exactly_by_any_zeta() -> None:
    reward = RNG.uniform(0.1, 0.9, (RUNS, STEPS))
    found = log_density(0.0, reward, RNG.standard_normal((5, 2, STEPS)))
    assert_close(found, np.full(5, dense_log_density(0.0, reward)), 1e-9)


def test_with_fluctuation_the_mean_over_zeta_is_the_dense_density() -> None:
    shared = Shared(jnp.asarray(FRACTION), jnp.asarray(RNG.standard_normal((2, STEPS))), ORDER)
    reward = np.asarray(SweepTraces(curve(0.1), GRID, shared, "logit").sample(jax.random.key(2)))
    draws = 100_000
    log_weight = log_density(0.1, reward, RNG.standard_normal((draws, 2, STEPS)))
    mean = logsumexp(log_weight) - np.log(draws)
    error = np.std(np.exp(log_weight - mean)) / np.sqrt(draws)
    assert error < 0.02
    assert abs(mean - dense_log_density(0.1, reward)) < 4 * error


def test_coordinates_keep_the_density_of_a_run() -> None:
    """log p(zeta) + what is added = log p(eta) + log |d eta/d zeta|, and without information zeta is eta."""
    n = 3
    root = RNG.standard_normal((1, n, n))
    information, score = root @ root.swapaxes(1, 2), RNG.standard_normal((1, n))
    centre, scatter, zeta = RNG.standard_normal((1, n)), np.array([0.3, 1.0, 2.0]), RNG.standard_normal((1, n))
    theta, added = transported(*map(jnp.asarray, (zeta, scatter, centre, information, score)))
    eta = (np.asarray(theta) - centre) / scatter
    turn = lambda z: transported(z[None], *map(jnp.asarray, (scatter, centre, information, score)))[0][0] / scatter  # noqa: E731
    jacobian = np.linalg.slogdet(np.asarray(jax.jacfwd(turn)(jnp.asarray(zeta[0]))))[1]
    assert_close(norm.logpdf(zeta).sum() + float(added), norm.logpdf(eta).sum() + jacobian, 1e-9)
    plain, nothing = transported(
        jnp.asarray(zeta), jnp.asarray(scatter), jnp.asarray(centre), jnp.zeros((1, n, n)), jnp.zeros((1, n))
    )
    assert_close(plain, centre + scatter * zeta, 1e-12)
    assert abs(float(nothing)) < 1e-12
