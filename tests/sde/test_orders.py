"""Strong order of every solver offered: the error at the end of one Brownian path against the step size."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from sde_grpo.sde import SOLVERS, GivenForce, Motion
from tests.sde.refining import Levels, final_positions, finest, twice_the_step

HORIZON, START, STEP_COUNTS = 2.0, 0.6, (16, 32, 64, 128)
FINEST = 4096  # the reference: 32 times finer than what it judges
ADDITIVE = GivenForce(lambda x: -x - 0.5 * jnp.sin(2 * x), 1.0)
STATE = GivenForce(lambda x: -x - 0.5 * jnp.sin(2 * x), lambda x: 0.2 + x**2)
MASSIVE, MASSLESS = Motion(1.0, 0.8, 1.0), Motion(1.0, 1.0)

CASES = [
    *(pytest.param(n, ADDITIVE, MASSIVE, s.order, "quicsort", id=f"{n}-mass") for n, s in SOLVERS.items() if s.order),
    *(
        pytest.param(n, ADDITIVE, MASSLESS, s.order_first, "shark", id=f"{n}-no-mass")
        for n, s in SOLVERS.items()
        if s.order_first
    ),
    *(
        pytest.param(n, STATE, MASSIVE, s.order_state, "spark", id=f"{n}-mass-state-noise")
        for n, s in SOLVERS.items()
        if s.order_state
    ),
    *(
        pytest.param(n, STATE, MASSLESS, s.order_first_state, "spark", id=f"{n}-no-mass-state-noise")
        for n, s in SOLVERS.items()
        if s.order_first_state
    ),
]


@pytest.fixture(scope="module")
def levels() -> dict[int, Levels]:
    level = finest(3, HORIZON, FINEST, 300)
    found = {FINEST: level}
    while len(level[0]) > min(STEP_COUNTS):
        level = twice_the_step(level)
        found[len(level[0])] = level
    return found


@pytest.fixture(scope="module")
def solved(levels):
    """The end of every path by step count, once per solver and problem."""
    known: dict[tuple[str, int, int], dict[int, np.ndarray]] = {}

    def at(name, force, motion):
        key = (name, id(force), id(motion))
        if key not in known:
            counts = (*STEP_COUNTS, FINEST)
            ends = final_positions(name, force, motion, [levels[n] for n in counts], HORIZON, START)
            known[key] = dict(zip(counts, ends, strict=True))
        return known[key]

    return at


@pytest.mark.parametrize(("name", "force", "motion", "order", "judge"), CASES)
def test_strong_order(name, force, motion, order, judge, solved) -> None:
    truth, ends = solved(judge, force, motion)[FINEST], solved(name, force, motion)
    errors = [np.sqrt(np.mean((ends[n] - truth) ** 2)) for n in STEP_COUNTS]
    slope = -np.polyfit(np.log2(STEP_COUNTS), np.log2(errors), 1)[0]
    assert abs(slope - order) < 0.3, f"errors {errors}, slope {slope:.2f}, nominal {order}"


def test_coarser_levels_have_the_law_of_the_finest(levels) -> None:
    """W, H, K of a doubled step are independent, with variances h, h/12, h/720: else no order would mean anything."""
    w, h, k = levels[64]
    scaled = np.stack([w.ravel(), h.ravel() * np.sqrt(12), k.ravel() * np.sqrt(720)]) / np.sqrt(HORIZON / 64)
    assert np.max(np.abs(np.cov(scaled) - np.eye(3))) < 5 * np.sqrt(2 / scaled.shape[1])
