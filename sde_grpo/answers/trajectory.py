"""Questions put to the mean trajectory, draw by draw: how much of the rise is done, and when 95 % of it will be."""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from numpy.typing import NDArray

from sde_grpo.fit import Fit
from sde_grpo.likelihood.links import to_coordinate, to_unit
from sde_grpo.model import Design
from sde_grpo.oscillator import displacement
from sde_grpo.programs import Program

SHARE = 0.95  # of the rise, "done" by convention
STILL_TO_COME = 0.01  # of the reward scale: less is no rise worth waiting for
_GRID = np.concatenate([[0.0], np.geomspace(1e-4, 60.0, 1200)])  # in relaxation times


def mean_at(fit: Fit, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Deterministic trajectory of every draw, (draw, time), at `times` since the first logged value.

    `times` has shape (time,), or (draw, time) for times of each draw's own.
    """
    sites = {str(n): v.to_numpy().ravel() for n, v in fit.tree["sites"].to_dataset().data_vars.items()}
    return np.asarray(_mean_at(fit.design, sites, np.atleast_2d(np.asarray(times, dtype=float))))


@Program
def _mean_at(design: Design, sites: Mapping[str, ArrayLike], times: ArrayLike) -> Float[Array, "draw time"]:
    value = {name: jnp.asarray(draws)[:, None] for name, draws in sites.items()}
    tau, q = value["relaxation_time"], value["inertia_ratio"]
    start = to_coordinate(design.link, value["start_unit"])
    plateau = to_coordinate(design.link, value["fixed_point_unit"])
    x0 = start - plateau
    v0 = -(x0 / tau) * (1 + value["fast_weight"] / q) if "fast_weight" in value else jnp.zeros_like(x0)
    path = to_unit(design.link, plateau + displacement(1 / (2 * q * tau), 1 / (q * tau**2), x0, v0, times))
    return design.scale.to_reward(path)


def steps_to_share(fit: Fit, share: float = SHARE) -> NDArray[np.float64]:
    """Step of the log after which the trajectory stays within (1 - share) of the rise from the plateau, per draw."""
    tau = fit.draws("relaxation_time")
    times = tau[:, None] * _GRID
    away = np.abs(mean_at(fit, times) - fit.draws("fixed_point")[:, None])
    rise = np.abs(fit.draws("fixed_point") - fit.draws("start"))
    outside = away > (1 - share) * rise[:, None]
    last = outside.shape[1] - 1 - np.argmax(outside[:, ::-1], axis=1)
    after = np.minimum(last + 1, outside.shape[1] - 1)
    return float(fit.run.times[0]) + times[np.arange(len(tau)), after]


def mean_now(fit: Fit) -> NDArray[np.float64]:
    """The trajectory at the last logged step, per draw."""
    return mean_at(fit, np.array([float(fit.run.times[-1] - fit.run.times[0])]))[:, 0]


def share_done(fit: Fit) -> NDArray[np.float64]:
    """(m(now) - start)/(plateau - start), per draw."""
    start, plateau = fit.draws("start"), fit.draws("fixed_point")
    rise = plateau - start
    return (mean_now(fit) - start) / np.where(rise == 0, np.nan, rise)


def still_to_come(fit: Fit) -> NDArray[np.float64]:
    """plateau - m(now), per draw, in units of the reward: positive where the run is still rising."""
    return fit.draws("fixed_point") - mean_now(fit)


def rise_is_visible(fit: Fit) -> bool:
    """Whether the trajectory's largest change over the run is told from zero: its 90 % interval excludes it."""
    from sde_grpo.intervals import interval

    mean = fit.predictive["mean"].to_numpy().reshape(-1, len(fit.run.reward))
    change = mean[:, -1] - mean[:, 0]
    low, high = interval(change)
    return bool(low > 0 or high < 0)
