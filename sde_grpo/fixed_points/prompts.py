"""Several prompts at once: what averaging over a distribution of p_ref does to plateau and curve.

Every prompt is a bandit of its own, sharing no parameters with the others, with the same learning rate, KL weight and
group size (eta is that of one prompt: with P of N prompts in each batch, the step times P/N). Each relaxes at its own
rate kappa_i, so the mean is a mixture of exponentials near the end, not one:

    mean(t) = sum_i w_i p_i(t)  ->  sum_i w_i p*_i - sum_i w_i (p*_i - p_i(0)) exp(-eta kappa_i t).

Its local rate falls from the amplitude-weighted mean of the kappa_i to the smallest of them: a *stretched* approach, of
which a single exponential fitted over a finite window misses the slow part in its plateau. The fit gives no warning:
each prompt's own law bends the other way, and the mean of many looks more like an exponential than one prompt does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from scipy.optimize import least_squares
from scipy.special import roots_jacobi

from sde_grpo.errors import require
from sde_grpo.fixed_points.laws import anchored
from sde_grpo.fixed_points.points import DEFAULT_RULE, fixed_points
from sde_grpo.groups import GroupRule
from sde_grpo.ranges import require_count, require_positive, require_probability


@dataclass(frozen=True, eq=False)
class Prompts:
    """A discrete distribution of reference policies.

    - `p_ref`: success probability of each prompt under the reference, in (0, 1); one axis.
    - `weights`: positive, of the same shape; kept normalised to a sum of one.

    Raises `InputError` outside these ranges.
    """

    p_ref: Float[np.ndarray, "prompt"]
    weights: Float[np.ndarray, "prompt"]

    def __post_init__(self) -> None:
        p, w = self.p_ref, self.weights
        require(
            p.ndim == 1 and p.size > 0, f"p_ref has shape {p.shape}; it must have one axis, of at least one prompt."
        )
        require(w.shape == p.shape, f"weights has shape {w.shape} and p_ref {p.shape}; they must be the same.")
        require(bool(np.all((p > 0) & (p < 1))), f"p_ref is {p}; every value must lie strictly between 0 and 1.")
        require(bool(np.all((w > 0) & np.isfinite(w))), f"weights is {w}; every value must be positive and finite.")
        object.__setattr__(self, "weights", w / w.sum())


class MixturePlateau(NamedTuple):
    """Where the mean over prompts ends, and the exponentials of which it consists near there.

    - `p`: the mean plateau; a prompt that nothing holds counts as 1.
    - `escaping`: weight of the prompts without an interior fixed point, which approach 1 by a power law.
    - `curvatures`: kappa of every held prompt, in 1/learning rate, ascending.
    - `amplitudes`: share of each in the distance from the reference, w_i (p*_i - p_ref_i), summing to one.
    """

    p: float
    escaping: float
    curvatures: Float[np.ndarray, "held"]
    amplitudes: Float[np.ndarray, "held"]


class ApparentExponential(NamedTuple):
    """Least-squares plateau - (plateau - start) exp(-t/relaxation_time), and its largest error on the curve."""

    plateau: float
    start: float
    relaxation_time: float
    largest_error: float


def beta_prompts(mean: float, concentration: float, nodes: int = 24) -> Prompts:
    """p_ref ~ Beta(a, b), a = mean * concentration, b = (1 - mean) * concentration, as Gauss-Jacobi nodes.

    The nodes integrate every polynomial of p_ref up to degree 2 nodes - 1 exactly, so few do for a smooth curve.
    A concentration below one is a U: most prompts nearly always right or nearly always wrong.

    - `mean`: in (0, 1). `concentration`: positive. `nodes`: number of prompts, at least 1.

    Raises `InputError` outside these ranges.
    """
    require_probability("mean", mean)
    require_positive("concentration", concentration)
    require_count("nodes", nodes, 1)
    with np.errstate(invalid="ignore"):  # at a concentration of 1 SciPy evaluates a 0/0 that it does not use
        x, w = roots_jacobi(nodes, (1 - mean) * concentration - 1, mean * concentration - 1)
    return Prompts((1 + x) / 2, w)


def mean_curve(
    t: Float[Array, "row"] | np.ndarray,
    prompts: Prompts,
    learning_rate: ArrayLike,
    kl_weight: ArrayLike,
    group_size: int | None = None,
    rule: GroupRule = DEFAULT_RULE,
) -> Float[Array, "row"]:
    """sum_i w_i p_i(t), every prompt starting at its reference and following `laws.anchored`.

    Arguments and `InputError` as there. Derived here.
    """
    p_ref = jnp.asarray(prompts.p_ref)
    curves = jax.vmap(lambda p: anchored(t, p, learning_rate, p, kl_weight, group_size, rule))(p_ref)
    return jnp.asarray(prompts.weights) @ curves


def mixture_plateau(
    prompts: Prompts, kl_weight: float, group_size: int | None = None, rule: GroupRule = DEFAULT_RULE
) -> MixturePlateau:
    """Mean of the prompts' own plateaus, and the spectrum of their curvatures.

    Arguments and `InputError` as for `fixed_points`.
    """
    ends, held = np.ones_like(prompts.p_ref), np.zeros(len(prompts.p_ref), dtype=bool)
    curvatures = np.zeros_like(ends)
    for i, p_ref in enumerate(prompts.p_ref):
        found = fixed_points(float(p_ref), kl_weight, group_size, rule)
        if found:
            ends[i], curvatures[i], held[i] = found[0].p, found[0].curvature, True
    amplitudes = (prompts.weights * (ends - prompts.p_ref))[held]
    order = np.argsort(curvatures[held])
    return MixturePlateau(
        float(prompts.weights @ ends),
        float(prompts.weights[~held].sum()),
        curvatures[held][order],
        (amplitudes / amplitudes.sum())[order] if held.any() else amplitudes,
    )


def apparent_exponential(t: ArrayLike, curve: ArrayLike) -> ApparentExponential:
    """The single exponential a least-squares fit of a noise-free curve reports.

    - `t`: at least four increasing times, in steps. `curve`: mean reward at them, not constant.

    Raises `InputError` for other shapes or values.
    """
    x, y = _curve(t, curve)
    span = x[-1] - x[0]

    def lines(log_tau: float) -> tuple[np.ndarray, np.ndarray]:
        design = np.stack([np.ones_like(x), np.exp(-(x - x[0]) / np.exp(log_tau))], axis=1)
        coefficients = np.linalg.lstsq(design, y, rcond=None)[0]
        return coefficients, y - design @ coefficients

    starts = np.log(span) + np.linspace(-4, 3, 15)
    best = min(starts, key=lambda s: float(np.sum(lines(s)[1] ** 2)))
    fit = least_squares(lambda s: lines(float(s[0]))[1], best, xtol=1e-12, ftol=1e-12, gtol=1e-15)
    (end, drop), residual = lines(float(fit.x[0]))
    return ApparentExponential(float(end), float(end + drop), float(np.exp(fit.x[0])), float(np.abs(residual).max()))


def stretching_exponent(t: ArrayLike, curve: ArrayLike, plateau: float) -> float:
    """c of plateau - y(t) = (plateau - y(t_0)) exp(-((t - t_0)/tau)^c).

    The slope of ln(-ln(gap ratio)) against ln(t - t_0): 1 for an exponential, below 1 where the rate falls with time.
    Least squares over the rows whose gap is between 1 % and 99 % of the first one. Raises `InputError` for other
    shapes than in `apparent_exponential`, or fewer than three such rows.
    """
    x, y = _curve(t, curve)
    ratio = (plateau - y) / (plateau - y[0])
    used = (ratio > 0.01) & (ratio < 0.99)
    require(
        int(used.sum()) >= 3, f"{int(used.sum())} rows have between 1 % and 99 % of the way to go; give at least 3."
    )
    return float(np.polyfit(np.log(x[used] - x[0]), np.log(-np.log(ratio[used])), 1)[0])


def _curve(t: ArrayLike, curve: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(t, dtype=np.float64), np.asarray(curve, dtype=np.float64)
    require(
        x.ndim == 1 and x.size >= 4 and x.shape == y.shape,
        f"t has shape {x.shape} and curve {y.shape}; both must have one axis of the same length, at least 4.",
    )
    require(bool(np.all(np.isfinite(x)) and np.all(np.diff(x) > 0)), "t must be finite and increasing.")
    require(bool(np.all(np.isfinite(y)) and np.ptp(y) > 0), "curve must be finite and not constant.")
    return x, y
