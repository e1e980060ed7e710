"""The model of a sweep: one NumPyro function for prior, posterior and predictive."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sde_grpo.hierarchy import priors
from sde_grpo.hierarchy.design import SweepDesign
from sde_grpo.hierarchy.guide import transported
from sde_grpo.likelihood.links import to_coordinate
from sde_grpo.model import priors as single
from sde_grpo.model.observation import design_effect


def sweep_model(design: SweepDesign, reward: Float[Array, "run step"] | None = None) -> None:
    """Sample what the runs share, what they differ in, then all traces at site ``obs`` (unit scale).

    With x_r the centred covariates of run r and N a standard normal of each run,

    - log(1/tau_r) = -log tau + x_r . b + finite-G offset + scatter N,
    - z*_r = z* + x_r . d + finite-G offset + scatter N, the plateau in the coordinate of the link,
    - start, log q, fast-mode weight and log noise variance likewise, without covariates,
    - stationary sd of z: s (G_r/G)^(-gamma/2) sqrt(tau_r/tau) (eta_r/eta): T_r = T_1 G_r^-gamma, Var z = T tau/C.

    `reward` defaults to None: then ``obs`` is drawn. Source: theory note, sections 6 to 8.
    """
    import numpyro
    from numpyro import distributions as dist

    from sde_grpo.hierarchy.traces import Shared, SweepTraces
    from sde_grpo.likelihood import Curve, Grid

    runs, columns = design.covariates.shape
    kind = design.link if design.bounded else "unbounded"

    def slopes(name: str, width: float) -> Array:
        slope = numpyro.sample(f"slope_{name}", dist.Normal(0, width).expand([columns]).to_event(1))
        return design.covariates @ jnp.asarray(slope)

    log_tau = numpyro.sample(
        "log_relaxation_time",
        dist.Normal(jnp.log(single.RELAXATION_MEDIAN * design.length), single.RELAXATION_SPREAD),
    )
    log_tau = jnp.asarray(log_tau)
    faster = slopes("log_curvature", priors.SLOPE_LOG_CURVATURE_SD) + design.offset_log_curvature
    plateau = to_coordinate(design.link, numpyro.sample("fixed_point_unit", single.level(design.bounded)))
    higher = slopes("fixed_point", priors.SLOPE_FIXED_POINT_SD[kind]) + design.offset_level
    start = to_coordinate(design.link, numpyro.sample("start_unit", single.level(design.bounded)))
    log_q = numpyro.sample("log_inertia_ratio", dist.Normal(np.log(single.INERTIA_MEDIAN), single.INERTIA_SPREAD))
    weight = numpyro.sample("fast_weight", dist.Normal(single.FAST_WEIGHT_MEAN, single.FAST_WEIGHT_SPREAD))
    common = jnp.stack([plateau, log_tau, start, jnp.asarray(log_q), jnp.asarray(weight)])
    moved = jnp.zeros((runs, 5)).at[:, 0].set(higher).at[:, 1].set(-faster)
    scatters = jnp.stack(
        [jnp.asarray(numpyro.sample(f"scatter_{n}", dist.HalfNormal(w))) for n, w in priors.scatters(kind).items()]
    )
    each = jnp.asarray(numpyro.sample("each", dist.Normal(0, 1).expand([runs, 5]).to_event(2)))
    guide = design.guide
    theta, moved_by = transported(each, scatters, common + moved, guide.information, guide.score)
    numpyro.factor("coordinates", moved_by)
    level, tau, q, weight = theta[:, 0], jnp.exp(theta[:, 1]), jnp.exp(theta[:, 3]), theta[:, 4]
    displacement = theta[:, 2] - level
    widths = {"logit": single.FLUCTUATION_LOGIT, "identity": single.FLUCTUATION_BOUNDED}
    # Half-normal by folding, as in the model of one run.
    folded = numpyro.sample("folded_sd", dist.Normal(0, widths.get(kind, single.FLUCTUATION_UNBOUNDED)))
    sd = jnp.asarray(folded) * jnp.exp(0.5 * (jnp.log(tau) - log_tau) + design.log_noise_drive)
    if design.tempered:
        gamma = jnp.asarray(numpyro.sample("temperature_exponent", dist.Normal(priors.GAMMA_MEAN, priors.GAMMA_SD)))
        sd = sd * jnp.exp2(-0.5 * gamma * design.log2_group_size)
    flips, floor = _noise(design)
    velocity = -(displacement / tau) * (1 + weight / q)
    curve = Curve(level, displacement, velocity, 1 / (2 * q * tau), 1 / (q * tau**2), sd, flips, floor)
    for name, value in {**curve._asdict(), "relaxation_time": tau, "inertia_ratio": q, "weight": weight}.items():
        numpyro.deterministic(f"run_{name}", value)
    shared = None
    if design.paired:
        fraction = jnp.asarray(numpyro.sample("shared_fraction", dist.Uniform(0.0, 1.0)))
        shape = len(design.orders), design.time.shape[1]
        zeta = jnp.asarray(numpyro.sample("zeta", dist.Normal(0, 1).expand(shape).to_event(2)))
        shared = Shared(fraction, zeta, design.order)
    grid = Grid(design.time, design.gaps, design.gap_index, design.observed)
    numpyro.sample("obs", SweepTraces(curve, grid, shared, design.link), obs=reward)


def _noise(design: SweepDesign) -> tuple[Array, Array]:
    """(f, c) of the noise variance f u(1 - u) + c of a logged value of mean u, per run.

    As for one run (`sde_grpo.model.observation`), times a factor of the run's own: prompts may differ more in one.
    """
    import numpyro
    from numpyro import distributions as dist

    runs = len(design.averaged)
    if design.noise == "design_effect":
        normal = jnp.asarray(numpyro.sample("normal_correlation", dist.Normal(0.0, 1.0)))
        correlation = jnp.asarray(numpyro.deterministic("prompt_correlation", jax.scipy.special.ndtr(normal)))
        log_variance = jnp.log(design_effect(correlation, *design.completions))
    else:
        median = np.log(priors.NOISE_MEDIAN[design.noise])
        scale = jnp.asarray(numpyro.sample("log_noise_scale", dist.Normal(median, priors.NOISE_SPREAD)))
        log_variance = jnp.broadcast_to(2 * scale, (runs,))
    scatter = jnp.asarray(numpyro.sample("scatter_log_noise", dist.HalfNormal(priors.SCATTER_LOG_NOISE)))
    each = jnp.asarray(numpyro.sample("each_log_noise", dist.Normal(0, 1).expand([runs]).to_event(1)))
    known = design.guide.noise_information
    own, moved_by = transported(
        each[:, None],
        scatter[None],
        log_variance[:, None],
        known[:, None, None],
        (known * design.guide.log_noise)[:, None],
    )
    numpyro.factor("noise_coordinates", moved_by)
    variance, rounding = jnp.exp(own[:, 0]) / design.averaged, design.resolution**2 / 12 / design.averaged
    if design.noise == "constant":
        return jnp.zeros_like(variance), variance + rounding
    return variance, rounding
