"""What a run says alone: its curvature, start and fixed point under the exact update, and its noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from sde_grpo.inference import convergence, sample
from sde_grpo.likelihood.links import to_coordinate
from sde_grpo.model import priors
from sde_grpo.model.observation import noise_terms
from sde_grpo.transfer.design import Lane
from sde_grpo.transfer.modes import motion

CURVATURE_SPREAD = 1.5  # of log kappa about the value at which the run covers four relaxation times
KEPT = 1024  # draws of each run that go on


class OwnDraws(NamedTuple):
    """Draws of every run alone, (run, draw).

    - `log_curvature`; `start`, `fixed_point`: in the coordinate of the link; `relaxation_time`: in units of the log.
    - `gradient_noise`: sd_r kappa_r sqrt(tau_r G_r P_r), what the process noise is made of in every setting.
    - `dispersion`: variance of a logged value over the flips of its mean, times G P (design effect where it is known).
    - `log_prior`: of (log_curvature, start, fixed_point); `converged`: (run,).
    """

    log_curvature: NDArray[np.float64]
    start: NDArray[np.float64]
    fixed_point: NDArray[np.float64]
    relaxation_time: NDArray[np.float64]
    gradient_noise: NDArray[np.float64]
    dispersion: NDArray[np.float64]
    log_prior: NDArray[np.float64]
    converged: NDArray[np.bool_]


def run_model(lane: Lane, reward: Float[Array, " step"], longest: int) -> None:
    """The mechanistic model of one run with the exact update in place of its truncation.

    log kappa ~ N(centre, 1.5); priors of start, fixed point, fluctuation and sampling noise as in `trace_model`.
    Source: theory note, sections 3, 4 and 7.
    """
    import numpyro
    from numpyro import distributions as dist

    from sde_grpo.likelihood import Curve, Grid, OscillatorCurve

    design, settings = lane.design, lane.settings
    log_curvature = jnp.asarray(numpyro.sample("log_curvature", dist.Normal(lane.centre, CURVATURE_SPREAD)))
    moved = motion(settings, jnp.exp(log_curvature), longest=longest)
    z0 = to_coordinate(design.link, numpyro.sample("start_unit", priors.level(True)))
    z_star = to_coordinate(design.link, numpyro.sample("fixed_point_unit", priors.level(True)))
    width = priors.FLUCTUATION_LOGIT if design.link == "logit" else priors.FLUCTUATION_BOUNDED
    folded = jnp.asarray(numpyro.sample("folded_sd", dist.Normal(0.0, width)))
    sd = jnp.where(moved.b > 0, folded, 0.0)
    flips, floor = noise_terms(design.noise, design.completions, design.resolution)
    group, prompts = design.completions
    memory = jnp.maximum(moved.relaxation_time * settings.time_unit, 0.0)
    found = {
        "start": z0,
        "fixed_point": z_star,
        "relaxation_time": moved.relaxation_time,
        "gradient_noise": jnp.abs(sd) * jnp.exp(log_curvature) * jnp.sqrt(memory * group * prompts),
        "dispersion": flips * group * prompts,
    }
    for name, value in found.items():
        numpyro.deterministic(name, value)
    curve = Curve(
        *(z_star, z0 - z_star, moved.velocity * (z0 - z_star), moved.b, moved.k, sd),
        *(flips / design.averaged, floor / design.averaged),
    )
    grid = Grid(design.time, design.gaps, design.gap_index, design.observed)
    numpyro.sample("obs", OscillatorCurve(curve, grid, design.link), obs=reward)


def sample_each(lanes: Sequence[Lane], longest: int, *, seed: int = 0, progress: bool = False) -> OwnDraws:
    """The posterior of every run alone, `KEPT` draws each; one compiled program serves all."""
    rows = []
    for place, lane in enumerate(lanes):
        key = jax.random.key(seed + 1000 * place)
        draws = sample("smc", key, run_model, (lane, lane.design.reward, longest), progress=progress)
        named = ("log_curvature", "start", "fixed_point", "relaxation_time", "gradient_noise", "dispersion")
        flat = {n: draws.sites[n].reshape(-1) for n in named}
        kept = np.random.default_rng(seed).choice(flat["start"].size, KEPT, replace=False)
        own = {n: v[kept] for n, v in flat.items()}
        reached = convergence({n: draws.sites[n] for n in ("log_curvature", "start_unit", "fixed_point_unit")})
        rows.append((*own.values(), _log_prior(lane, own), reached.rhat_max < 1.05))
    return OwnDraws(*(np.array(column) for column in zip(*rows, strict=True)))


def _log_prior(lane: Lane, own: dict[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    curvature = -0.5 * ((own["log_curvature"] - float(lane.centre)) / CURVATURE_SPREAD) ** 2
    if lane.design.link == "identity":
        return curvature
    levels = (-np.logaddexp(0, z) - np.logaddexp(0, -z) for z in (own["start"], own["fixed_point"]))
    return curvature + sum(levels)
