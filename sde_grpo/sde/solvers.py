"""The solvers offered, what each needs, and the strong orders that the tests verify."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import diffrax

from sde_grpo.errors import require
from sde_grpo.sde.forces import Force
from sde_grpo.sde.motion import Motion

SolverName = Literal["align", "quicsort", "shark", "spark", "milstein", "euler"]

_TAYLOR = 0.01  # below gamma dt of this the coefficients are a series: the value for float64


class Solver(NamedTuple):
    """One solver: how to make it, what it takes, and the strong order where it is offered (None elsewhere).

    - `langevin`: whether it takes Langevin terms (a mass, C > 0, a positive constant noise) and nothing else.
    - `adaptive`: whether it estimates its own error.
    - `order`: motion with a mass, constant noise. The noise reaches the position only through the velocity, which
      lifts the schemes of nominal order 1.5 (with space-time Levy area) to 2.
    - `order_state`: with a mass, noise that depends on the position; Euler, of nominal order 0.5, then has 1.
    - `order_first`, `order_first_state`: the same two without a mass. Only there does Milstein differ from Euler.
    """

    make: Callable[[], diffrax.AbstractSolver]
    langevin: bool
    adaptive: bool
    order: float | None
    order_state: float | None
    order_first: float | None
    order_first_state: float | None

    @property
    def stratonovich(self) -> bool:
        """Whether it converges to the Stratonovich solution, so that Ito's drift needs its correction."""
        return isinstance(self.make(), diffrax.AbstractStratonovichSolver)


SOLVERS: dict[str, Solver] = {
    "align": Solver(lambda: diffrax.ALIGN(_TAYLOR), True, True, 2.0, None, None, None),
    "quicsort": Solver(lambda: diffrax.QUICSORT(_TAYLOR), True, False, 3.0, None, None, None),
    "shark": Solver(diffrax.ShARK, False, True, 2.0, None, 1.5, None),
    "spark": Solver(diffrax.SPaRK, False, True, 2.0, 1.0, 1.5, 1.0),
    "milstein": Solver(diffrax.ItoMilstein, False, False, None, None, None, 1.0),
    "euler": Solver(diffrax.Euler, False, False, 1.0, 1.0, 1.0, 0.5),
}


def default_solver(force: Force, langevin: bool) -> SolverName:
    """ALIGN for Langevin terms, ShARK for other constant noise, SPaRK where the noise depends on the state."""
    if langevin:
        return "align"
    return "shark" if force.constant_noise else "spark"


def require_solver(name: str, force: Force, motion: Motion, langevin: bool, adaptive: bool) -> None:
    """Raise `InputError`, which says why the solver does not fit and which do, unless it does."""
    require(name in SOLVERS, f"solver is {name!r}; allowed are {', '.join(SOLVERS)}.")
    fits = [other for other, solver in SOLVERS.items() if _fits(solver, force, motion, langevin, adaptive)]
    nature = (
        "Langevin motion" if langevin else "motion with a mass" if motion.mass is not None else "motion without a mass"
    )
    noise = "constant" if force.constant_noise else "state-dependent"
    steps = ", adaptive steps" if adaptive else ""
    require(name in fits, f"solver {name!r} does not do {nature}, {noise} noise{steps}; take one of {', '.join(fits)}.")


def _fits(solver: Solver, force: Force, motion: Motion, langevin: bool, adaptive: bool) -> bool:
    if (adaptive and not solver.adaptive) or (solver.langevin and not langevin):
        return False
    if motion.mass is None:
        order = solver.order_first if force.constant_noise else solver.order_first_state
    else:
        order = solver.order if force.constant_noise else solver.order_state
    return order is not None
