"""The model of one reward trace: one NumPyro function for prior, posterior and predictive.

NumPyro is imported when the model is traced, which a fit whose programs were kept never does.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sde_grpo.likelihood.links import to_coordinate
from sde_grpo.model import priors
from sde_grpo.model.design import Design
from sde_grpo.model.observation import noise_terms
from sde_grpo.oscillator import curvature_from_relaxation_time, reduce_update


def trace_model(design: Design, reward: Float[Array, " step"] | None = None) -> None:
    """Sample the parameters, then the trace at site ``obs`` (unit scale of the reward).

    With z the coordinate of the link, z(t) = z* + x(t), where q tau^2 x'' + tau x' + x = 0, x(0) = z0 - z*, and

    - *free* dynamics: tau and q are unknown, and the weight w of the fast mode sets the initial velocity,
      x'(0) = -(x(0)/tau) (1 + w/q), which is w lambda_fast + (1 - w) lambda_slow to first order in q and smooth
      through critical damping;
    - *mechanistic* dynamics: the curvature is the one unknown (through tau, of which it is a one-to-one
      function), q = M K/C^2 follows, and the run starts at rest, x'(0) = 0: momentum buffers start empty.

    `reward` defaults to None: then ``obs`` is drawn. Source: theory note, sections 3, 4 and 7.
    """
    import numpyro
    from numpyro import distributions as dist

    from sde_grpo.likelihood import Curve, Grid, OscillatorCurve

    tau = numpyro.sample(
        "relaxation_time",
        dist.LogNormal(jnp.log(priors.RELAXATION_MEDIAN * design.length), priors.RELAXATION_SPREAD),
    )
    start = numpyro.sample("start_unit", priors.level(design.bounded))
    plateau = numpyro.sample("fixed_point_unit", priors.level(design.bounded))
    z0, z_star = to_coordinate(design.link, start), to_coordinate(design.link, plateau)
    x0 = z0 - z_star
    if design.dynamics == "free":
        q = numpyro.sample("inertia_ratio", dist.LogNormal(np.log(priors.INERTIA_MEDIAN), priors.INERTIA_SPREAD))
        weight = numpyro.sample("fast_weight", dist.Normal(priors.FAST_WEIGHT_MEAN, priors.FAST_WEIGHT_SPREAD))
        v0 = -(x0 / tau) * (1 + weight / q)
    else:
        assert design.rule is not None
        curvature = curvature_from_relaxation_time(design.rule, tau * design.time_unit)
        q = numpyro.deterministic("inertia_ratio", reduce_update(design.rule, curvature).inertia_ratio)
        v0 = jnp.zeros_like(x0)
    widths = {"logit": priors.FLUCTUATION_LOGIT, "identity": priors.FLUCTUATION_BOUNDED}
    width = widths[design.link] if design.bounded else priors.FLUCTUATION_UNBOUNDED
    # Half-normal by folding: the likelihood knows only the square, and zero is no boundary but an ordinary point.
    folded = jnp.asarray(numpyro.sample("folded_sd", dist.Normal(0.0, width)))
    numpyro.deterministic("stationary_sd", jnp.abs(folded))
    flips, floor = noise_terms(design.noise, design.completions, design.resolution)
    curve = Curve(
        *(z_star, x0, v0, jnp.asarray(1 / (2 * q * tau)), jnp.asarray(1 / (q * tau**2)), folded),
        *(flips / design.averaged, floor / design.averaged),
    )
    grid = Grid(design.time, design.gaps, design.gap_index, design.observed)
    numpyro.sample("obs", OscillatorCurve(curve, grid, design.link), obs=reward)
