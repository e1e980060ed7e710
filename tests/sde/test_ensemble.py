"""The limit of the diffrax route: mean, covariance and distribution; one path per key; forces of every kind."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import kstest

from sde_grpo.bandit import curvature, fixed_point, group_signal
from sde_grpo.errors import InputError
from sde_grpo.oscillator import UpdateRule
from sde_grpo.sde import (
    GivenForce,
    LinearForce,
    Motion,
    SoftmaxForce,
    SolverName,
    exact_transition,
    inertial,
    overdamped,
    sample_paths,
)
from sde_grpo.sde.ensemble import is_langevin
from sde_grpo.sde.solvers import default_solver
from tests.tolerance import assert_close

FORCE = LinearForce(curvature=2.0, gradient_noise=1.5, group_size=4, fixed_point=0.6)
X0, V0 = -0.3, 0.02


def _sample(force, motion, seed=0, start=X0, steps=10, chains=4, **options):
    return sample_paths(force, motion, key=jax.random.key(seed), start=start, steps=steps, chains=chains, **options)


@pytest.mark.parametrize(("damping", "solver"), [(0.9, "align"), (-0.1, "shark")], ids=["stable", "unstable"])
def test_limit_for_a_lane_of_group_sizes(damping: float, solver: SolverName) -> None:
    """Against the exact discretisation, at several times, by vmap over G; the unstable regime needs ordinary terms."""
    motion, chains, sizes = Motion(0.1, damping, 0.8), 4000, np.array([2.0, 8.0, 32.0])
    assert default_solver(FORCE, is_langevin(FORCE, motion)) == solver

    def sample(size, key):
        force = LinearForce(2.0, 1.5, size, 0.6)
        return sample_paths(
            force, motion, key=key, start=X0, velocity=V0, steps=24, chains=chains, solver=solver, substeps=4
        )

    ensembles = jax.vmap(sample)(jnp.asarray(sizes), jax.random.split(jax.random.key(3), 3))
    assert np.array_equal(ensembles.reward, 0.6 + ensembles.theta)
    assert np.all(np.asarray(ensembles.theta)[..., 0] == X0)
    assert ensembles.velocity is not None
    for time in (1, 6, 24):
        steps = jax.vmap(lambda g, t=time: exact_transition(LinearForce(2.0, 1.5, g), motion, float(t)))(sizes)
        states = np.stack([ensembles.theta[..., time], ensembles.velocity[..., time]], axis=1)
        for step, state in zip(np.stack(steps, axis=-1), states, strict=True):
            f, q = step[:4].reshape(2, 2), step[[4, 5, 5, 6]].reshape(2, 2)
            sd = np.sqrt(np.diag(q))
            scores = (state - (f @ [X0, V0])[:, None]) / sd[:, None]
            assert np.max(np.abs(scores.mean(axis=1))) < 4 / np.sqrt(chains)
            assert np.max(np.abs(np.cov(state) - q) / np.outer(sd, sd)) < 4 * np.sqrt(2 / chains)
            assert min(kstest(component, "norm").pvalue for component in scores) > 1e-4
    variances = np.var(np.asarray(ensembles.theta)[..., -1], axis=1)
    assert np.polyfit(np.log(sizes), np.log(variances), 1)[0] == pytest.approx(-1, abs=0.06)


def test_one_key_is_one_path_at_two_step_sizes_with_adaptive_steps_and_for_two_solvers() -> None:
    motion = Motion(0.1, 0.9, 0.8)
    fine = _sample(FORCE, motion, brownian="tree", solver="quicsort", substeps=6).theta
    coarse = _sample(FORCE, motion, brownian="tree", solver="quicsort").theta
    adaptive = _sample(FORCE, motion, tolerance=1e-4).theta
    spread = float(jnp.std(fine[:, -1]))
    assert_close(coarse, fine, 0.04, scale=spread)
    assert_close(adaptive, fine, 0.005, scale=spread)
    assert_close(_sample(FORCE, motion, brownian="tree", solver="quicsort").theta, coarse, 1e-15)
    other = _sample(FORCE, motion, seed=1, brownian="tree", solver="quicsort").theta
    assert np.max(np.abs(other - coarse)) > 0.5 * spread
    assert len(np.unique(np.asarray(coarse[:, -1]))) == 4


def test_stationary_spread_of_the_anchored_logit() -> None:
    """sd(theta)^2 = eta Var s / (2 kappa P): state-dependent noise of exact groups, to Monte-Carlo error.

    Columns 50 steps apart, two relaxation times, from step 100 on.
    """
    p_ref, beta, prompts, eta, chains, group_size = 0.5, 2.5, 64, 0.1, 800, 4
    p, kappa = fixed_point(p_ref, beta, group_size), curvature(p_ref, beta, group_size)
    force = SoftmaxForce(beta, p_ref, group_size, prompts)
    paths = _sample(force, overdamped(UpdateRule(eta)), 2, start=float(logit(p)), steps=300, chains=chains)
    assert paths.velocity is None
    assert_close(paths.reward, expit(np.asarray(paths.theta)), 1e-14)
    late = np.asarray(paths.theta)[:, 100::50]
    exact = np.sqrt(eta * float(group_signal(p, group_size).variance) / (2 * kappa * prompts))
    tolerance = 4 / np.sqrt(2 * late.size)
    assert late.std() / exact == pytest.approx(1, abs=tolerance)
    without_group_size = np.sqrt(eta * float(group_signal(p, 2).variance) / (2 * kappa * prompts))
    assert abs(late.std() / without_group_size - 1) > 3 * tolerance


def test_kl_free_law_without_noise_has_its_closed_form() -> None:
    """p = (1 + z/sqrt(1 + z^2))/2, z = z0 + eta t/4 (theory note, section 5)."""
    paths = _sample(SoftmaxForce(0.0), overdamped(UpdateRule(0.2)), start=float(logit(0.1)), steps=100, chains=1)
    z = -(1 - 0.2) / (2 * np.sqrt(0.09)) + 0.2 * np.arange(101) / 4
    assert_close(paths.reward[0], 0.5 * (1 + z / np.sqrt(1 + z**2)), 1e-4)


def test_noise_is_read_in_the_sense_of_ito() -> None:
    """F = 0, V = theta^2: the Ito solution keeps its mean, Stratonovich's would grow by exp(eta^2 t/2) = 1.65."""
    force = GivenForce(lambda theta: 0.0 * theta, lambda theta: theta**2)
    end = np.asarray(_sample(force, Motion(0.25), 4, start=1.0, steps=16, chains=8000, substeps=2).theta)[:, -1]
    assert abs(end.mean() - 1) < 4 * np.sqrt(np.expm1(1.0) / 8000)
    assert np.log(end).var() == pytest.approx(1.0, rel=0.1)


MOTION = inertial(UpdateRule(0.1), 2.0)

REFUSED = {
    r"solver is 'rk4'; allowed are align, quicsort, shark, spark, milstein, euler": (FORCE, MOTION, {"solver": "rk4"}),
    r"'align' does not do motion with a mass, constant noise; take one of shark, spark, euler": (
        FORCE,
        Motion(0.1, -0.1, 1.0),
        {"solver": "align"},
    ),
    r"'shark' does not do motion without a mass, state-dependent noise; take one of spark, milstein, euler": (
        SoftmaxForce(2.0, 0.5, 4),
        Motion(0.1),
        {"solver": "shark"},
    ),
    r"'euler' does not do Langevin motion, constant noise, adaptive steps; take one of align": (
        FORCE,
        MOTION,
        {"solver": "euler", "tolerance": 1e-3},
    ),
    r"substeps is 513; it must be at most 512": (FORCE, MOTION, {"substeps": 513}),
    r"tolerance is 0.0; it must be positive": (FORCE, MOTION, {"tolerance": 0.0}),
    r"with a tolerance the steps are adaptive": (FORCE, MOTION, {"tolerance": 1e-3, "substeps": 2}),
    r"brownian is 'bridge'; allowed are 'tree' and 'fresh'": (FORCE, MOTION, {"brownian": "bridge"}),
    r"start is nan; it must be finite": (FORCE, MOTION, {"start": float("nan")}),
    r"velocity is inf; it must be finite": (FORCE, MOTION, {"velocity": float("inf")}),
    r"chains is 0; it must be a whole number": (FORCE, MOTION, {"chains": 0}),
    r"A path overflows at step \d+: the motion is unstable": (
        GivenForce(lambda theta: theta**3, 0.0),
        Motion(1.0),
        {"start": 2.0},
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message: str) -> None:
    force, motion, options = REFUSED[message]
    with pytest.raises(InputError, match=message):
        _sample(force, motion, **options)
