"""Ensembles of paths of any force and motion, solved by diffrax and saved on the grid of optimizer steps."""

from __future__ import annotations

from typing import Literal, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

from sde_grpo.errors import require
from sde_grpo.precision import require_float64
from sde_grpo.ranges import require_count, require_positive
from sde_grpo.sde.forces import Force, require_known
from sde_grpo.sde.motion import Motion
from sde_grpo.sde.solvers import SOLVERS, SolverName, default_solver, require_solver
from sde_grpo.sde.terms import langevin_terms, ordinary_terms

Brownian = Literal["tree", "fresh"]

# In optimizer steps. The tree is resolved to the same depth whatever the step size, so that a key is one path.
_TREE_TOLERANCE = 2.0**-10
_SHORTEST_STEP = 2.0**-9


class Paths(NamedTuple):
    """An ensemble on the step grid: column n is the state after n optimizer steps, column 0 the start.

    `velocity` is per optimizer step, and `None` for motion without a mass, whose paths have none.
    """

    theta: Float[Array, "chain steps_plus_1"]
    velocity: Float[Array, "chain steps_plus_1"] | None
    reward: Float[Array, "chain steps_plus_1"]


def sample_paths(
    force: Force,
    motion: Motion,
    *,
    key: PRNGKeyArray,
    start: ArrayLike,
    velocity: ArrayLike = 0.0,
    steps: int,
    chains: int = 1,
    solver: SolverName | None = None,
    substeps: int = 1,
    tolerance: float | None = None,
    brownian: Brownian | None = None,
) -> Paths:
    """`chains` independent solutions of M theta'' + C theta' = eta F + eta sqrt(V) dW/dt (Ito), by diffrax.

    Constant positive noise with a mass and C > 0 is solved as underdamped Langevin motion, everything else (C <= 0,
    noise that depends on the state, no noise, no mass) by ordinary terms.

    Safe under jit and vmap, for example over a force whose fields are arrays; checks of traced values are then left
    out, and motion with a mass is solved by ordinary terms unless a Langevin solver is named.

    **Arguments**

    - `force`, `motion`: what moves; see there.
    - `key`: a JAX random key. The same key and arguments give the same paths.
    - `start`, `velocity`: theta (x for a linear force) and its rate per step at step 0, numbers or ``(chain,)``.
    - `steps`: optimizer steps, at least 1.
    - `chains`: number of paths, at least 1.
    - `solver`: a name of `SOLVERS`; by default ALIGN for Langevin motion, ShARK for other constant noise, and SPaRK.
    - `substeps`: solver steps per optimizer step, at most 512.
    - `tolerance`: absolute and relative error allowed per solver step; steps are then adaptive, none longer than one
      optimizer step and none shorter than 1/512, and `substeps` must be 1.
    - `brownian`: ``"tree"`` (a virtual Brownian tree: one path per key at every step size and for every solver, and
      what adaptive steps need) or ``"fresh"`` (independent increments: much faster, the default for fixed steps).

    Raises `InputError` outside these ranges, for a solver that does not fit, in float32, and for a path that overflows.
    """
    require_float64()
    require_count("steps", steps, 1)
    require_count("chains", chains, 1)
    require_count("substeps", substeps, 1)
    require(substeps * _SHORTEST_STEP <= 1, f"substeps is {substeps}; it must be at most {1 / _SHORTEST_STEP:.0f}.")
    require_known("start", start, lambda x: x == x, "finite")
    require_known("velocity", velocity, lambda x: x == x, "finite")
    if tolerance is not None:
        require_positive("tolerance", tolerance)
        require(
            substeps == 1 and brownian != "fresh",
            f"substeps is {substeps} and brownian {brownian!r}; with a tolerance the steps are adaptive, so leave "
            "substeps at 1 and brownian at 'tree'.",
        )
    brownian = brownian or ("fresh" if tolerance is None else "tree")
    require(brownian in ("tree", "fresh"), f"brownian is {brownian!r}; allowed are 'tree' and 'fresh'.")
    langevin = is_langevin(force, motion)
    name = solver or default_solver(force, langevin)
    langevin |= _untold(force, motion) and solver is not None
    require_solver(name, force, motion, langevin, adaptive=tolerance is not None)
    # Numbers become arrays, or each new value would be compiled for.
    force, motion = jax.tree.map(lambda x: jnp.asarray(x, float) if isinstance(x, (int, float)) else x, (force, motion))
    y0 = jnp.broadcast_to(jnp.stack(jnp.broadcast_arrays(start, velocity), axis=-1).astype(float), (chains, 2))
    keys, step = jax.random.split(key, chains), jnp.asarray(1 / substeps)
    x, v = _solve(force, motion, keys, y0, step, steps, name, tolerance, brownian)
    _require_finite(x)
    return Paths(x, v if motion.mass is not None else None, force.reward(x))


def is_langevin(force: Force, motion: Motion) -> bool:
    """Whether the motion is known to be underdamped Langevin: a mass, C > 0, a positive constant noise."""
    if _untold(force, motion) or motion.mass is None or not force.constant_noise:
        return False
    noise = np.asarray(force.variance(jnp.zeros(())))
    return bool(np.all(noise > 0) and np.all(np.asarray(motion.damping) > 0))


def _untold(force: Force, motion: Motion) -> bool:
    """Whether the regime cannot be read off, because a value is traced."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((force, motion)))


@eqx.filter_jit
def _solve(
    force: Force,
    motion: Motion,
    keys: PRNGKeyArray,
    y0: Float[Array, "chain 2"],
    step: Float[Array, ""],
    steps: int,
    name: str,
    tolerance: float | None,
    brownian: Brownian,
) -> tuple[Float[Array, "chain step"], Float[Array, "chain step"]]:
    entry = SOLVERS[name]
    method = entry.make()
    grid = jnp.arange(steps + 1, dtype=float)
    # Three levels of Levy area in the tree, whether used or not: so that one key is one path for every solver.
    area = diffrax.SpaceTimeTimeLevyArea if brownian == "tree" or name == "quicsort" else diffrax.SpaceTimeLevyArea
    controller = diffrax.ConstantStepSize()
    if tolerance is not None:
        pid = diffrax.PIDController(
            tolerance, tolerance, pcoeff=0.1, icoeff=0.3, dcoeff=0.0, dtmin=_SHORTEST_STEP, dtmax=1.0
        )
        controller = diffrax.ClipStepSizeController(pid, step_ts=grid, store_rejected_steps=None)

    def one(key: PRNGKeyArray, start: Float[Array, "2"]) -> tuple[Float[Array, "step"], Float[Array, "step"]]:
        if brownian == "tree":
            path = diffrax.VirtualBrownianTree(0.0, float(steps), _TREE_TOLERANCE, (), key, area)
        else:
            path = diffrax.UnsafeBrownianPath((), key, area)
        if entry.langevin:
            terms, state = langevin_terms(force, motion, path), (start[0], start[1])
        else:
            terms = ordinary_terms(force, motion, path, entry.stratonovich)
            state = start if motion.mass is not None else start[:1]
        solution = diffrax.diffeqsolve(
            terms,
            method,
            0.0,
            float(steps),
            step,
            state,
            saveat=diffrax.SaveAt(ts=grid),
            stepsize_controller=controller,
            max_steps=None,
            adjoint=diffrax.ForwardMode(),
        )
        y = solution.ys
        assert y is not None
        return (y[0], y[1]) if entry.langevin else (y[:, 0], y[:, -1])

    return jax.vmap(one)(keys, y0)


def _require_finite(x: Float[Array, "chain step"]) -> None:
    if not isinstance(x, Tracer):
        bad = ~np.isfinite(np.asarray(x)).all(axis=0)
        require(
            not bad.any(),
            f"A path overflows at step {int(bad.argmax())}: the motion is unstable, or the solver at this step size "
            "is. Raise substeps, lower the learning rate, or take fewer steps.",
        )
