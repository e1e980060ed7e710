"""One Brownian path seen at several step sizes, and solvers stepped along it by hand."""

from __future__ import annotations

from typing import ClassVar

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from sde_grpo.sde import SOLVERS, Force, Motion, langevin_terms, ordinary_terms

Levels = tuple[np.ndarray, np.ndarray, np.ndarray]


class Increment(diffrax.AbstractBrownianPath):
    """A path of which only the step at hand is known: W and the space-time (-time) Levy areas H, K."""

    levy: diffrax.SpaceTimeTimeLevyArea
    levy_area: ClassVar = diffrax.SpaceTimeTimeLevyArea  # pyright: ignore

    @property
    def t0(self):  # pyright: ignore
        return -jnp.inf

    @property
    def t1(self):  # pyright: ignore
        return jnp.inf

    def evaluate(self, t0, t1=None, left=True, use_levy=False):
        return self.levy if use_levy else self.levy.W


def finest(seed: int, horizon: float, steps: int, paths: int) -> Levels:
    """Independent W ~ N(0, h), H ~ N(0, h/12), K ~ N(0, h/720), each (step, path)."""
    rng, h = np.random.default_rng(seed), horizon / steps
    w, hh, kk = (rng.normal(0.0, np.sqrt(h / d), (steps, paths)) for d in (1, 12, 720))
    return w, hh, kk


def twice_the_step(level: Levels) -> Levels:
    """W = W1 + W2,  H = (H1 + H2)/2 + (W1 - W2)/4,  K = (K1 + K2)/4 + (H1 - H2)/8, by splitting their integrals."""
    (w1, h1, k1), (w2, h2, k2) = (tuple(x[first::2] for x in level) for first in (0, 1))
    return w1 + w2, (h1 + h2) / 2 + (w1 - w2) / 4, (k1 + k2) / 4 + (h1 - h2) / 8


def final_positions(
    name: str, force: Force, motion: Motion, levels: list[Levels], horizon: float, start: float
) -> list[np.ndarray]:
    """theta at the horizon for every path, at the step size of each level; compiled once for all of them."""
    entry, longest = SOLVERS[name], max(level[0].shape[0] for level in levels)
    solver = entry.make()

    def terms(h, increment):
        path = Increment(diffrax.SpaceTimeTimeLevyArea(h, *increment))  # pyright: ignore[reportCallIssue]
        if entry.langevin:
            return langevin_terms(force, motion, path)
        return ordinary_terms(force, motion, path, entry.stratonovich)

    def one(count, increments):
        h = horizon / count
        if entry.langevin:
            y = (jnp.asarray(start), jnp.asarray(0.0))
        else:
            y = jnp.asarray([start] if motion.mass is None else [start, 0.0])
        at = lambda i: tuple(x[i] for x in increments)  # noqa: E731
        state = solver.init(terms(h, at(0)), 0.0, h, y, None)

        def body(i, carry):
            y, _, dense, state, _ = solver.step(terms(h, at(i)), 0.0 * h, h, carry[0], None, carry[1], made_jump=False)
            del dense
            return y, state

        return jax.lax.fori_loop(0, count, body, (y, state))[0][0]

    last = jax.jit(jax.vmap(one, in_axes=(None, 1)))
    padded = [tuple(np.pad(x, ((0, longest - len(x)), (0, 0))) for x in level) for level in levels]
    final = [np.asarray(last(len(level[0]), filled)) for level, filled in zip(levels, padded, strict=True)]
    return [x[:, 0] if x.ndim == 2 else x for x in final]
