"""Mean trajectories without noise, lag or momentum, as functions of time: law(t, ...), pure JAX in float64.

t is in optimizer steps, p_start the success probability at t = 0. With heavy-ball momentum use the learning rate
eta/(1 - mu) once the transient of 1/(1 - mu) steps is over. Every law is a rise, and all but the anchored one go to
the ceiling A, by which the whole curve is scaled (p = A u, u in (0, 1)).

Approach to the ceiling, 1 - u: 4/(eta t)^2 for many completions with a scale (`kl_free`); 1/(eta t) without one
(`mean_only`); 1/(G s(1) eta t) for every finite group that keeps its silent groups, whatever its rule, because the
last failures are met one at a time; exponential at the rate eta s(1) where they are dropped (`group_law`).
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.scipy.special import expit, logit
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from sde_grpo.errors import require
from sde_grpo.fixed_points.integrate import integrate
from sde_grpo.fixed_points.points import DEFAULT_RULE
from sde_grpo.groups import GroupRule, group_signal
from sde_grpo.precision import require_float64

_NEWTON_STEPS = 8  # from the starting values of `_solve_mean_only`, machine precision for |y| up to 1e12


def kl_free(
    t: ArrayLike, p_start: ArrayLike, learning_rate: ArrayLike, ceiling: ArrayLike = 1.0
) -> Float[Array, "..."]:
    """p(t) = (A/2)(1 + z/sqrt(1 + z^2)),  z = z0 + eta t/4,  z0 = sinh(logit(p_start/A)/2).

    The solution of du/dt = eta (u(1-u))^(3/2), u = p/A: many completions divided by their standard deviation, no KL
    term. A slow start below u = 1/2, a rise, and the power law 1 - u = 1/(4 z^2) at the end.

    **Arguments**

    - `t`: steps, at least 0. `p_start`: in (0, ceiling). `learning_rate`: eta > 0. `ceiling`: A > 0. All broadcast.

    Raises `InputError` outside these ranges, where the values are known. Source: theory note section 5, "No KL".
    """
    _check(t=t, p_start=p_start, learning_rate=learning_rate, ceiling=ceiling)
    z = _z(p_start, ceiling) + jnp.asarray(learning_rate) * jnp.asarray(t) / 4
    return jnp.asarray(ceiling) * expit(2 * jnp.arcsinh(z))


def kl_free_time(
    p: ArrayLike, p_start: ArrayLike, learning_rate: ArrayLike, ceiling: ArrayLike = 1.0
) -> Float[Array, "..."]:
    """t = 4 (z(p) - z(p_start))/eta: steps in which `kl_free` goes from p_start to p in (0, ceiling).

    Negative where p < p_start. Other arguments and `InputError` as for `kl_free`.
    """
    _check(p=p, p_start=p_start, learning_rate=learning_rate, ceiling=ceiling)
    return 4 * (_z(p, ceiling) - _z(p_start, ceiling)) / jnp.asarray(learning_rate)


def mean_only(
    t: ArrayLike, p_start: ArrayLike, learning_rate: ArrayLike, ceiling: ArrayLike = 1.0
) -> Float[Array, "..."]:
    """2 theta + 2 sinh(theta) = 2 theta_0 + 2 sinh(theta_0) + eta t,  p = A sigmoid(theta).

    The solution of du/dt = eta (u(1-u))^2: no division by the standard deviation, no KL term. Exact for every group
    size with a leave-one-out baseline, at eta (1 - 1/G) with a self-inclusive mean, and also for pairs (G = 2)
    divided by the population standard deviation, whose E s is p(1-p) too.

    Arguments and `InputError` as for `kl_free`. Derived here from theory note section 5, "Variants".
    """
    _check(t=t, p_start=p_start, learning_rate=learning_rate, ceiling=ceiling)
    clock = _clock(p_start, ceiling) + jnp.asarray(learning_rate) * jnp.asarray(t)
    return jnp.asarray(ceiling) * expit(_solve_mean_only(clock))


def mean_only_time(
    p: ArrayLike, p_start: ArrayLike, learning_rate: ArrayLike, ceiling: ArrayLike = 1.0
) -> Float[Array, "..."]:
    """t = 2 [theta + sinh(theta) - theta_0 - sinh(theta_0)]/eta: steps in which `mean_only` goes to p.

    Arguments and `InputError` as for `kl_free_time`.
    """
    _check(p=p, p_start=p_start, learning_rate=learning_rate, ceiling=ceiling)
    return (_clock(p, ceiling) - _clock(p_start, ceiling)) / jnp.asarray(learning_rate)


def anchored(
    t: Float[Array, "row"] | np.ndarray,
    p_start: ArrayLike,
    learning_rate: ArrayLike,
    p_ref: ArrayLike,
    kl_weight: ArrayLike,
    group_size: int | None = None,
    rule: GroupRule = DEFAULT_RULE,
) -> Float[Array, "row"]:
    """p = sigmoid(theta),  d theta/dt = eta [ E s(theta) - beta w (theta - theta_ref) ].

    The mean law of the bandit to first order in eta, by `integrate`; it differentiates and goes under vmap and jit. It
    runs into `points.plateau`, near which it is `linear.linearised`.

    **Arguments**

    - `t`: steps, at least 0, one axis in any order.
    - `p_start`, `p_ref`: in (0, 1). `learning_rate`: eta > 0. `kl_weight`: beta >= 0. Scalars.
    - `group_size`: G >= 2, or `None` for many completions. `rule`: how rewards become advantages.

    Raises `InputError` outside these ranges, where the values are known. Source: theory note section 5.
    """
    _check(t=t, p_start=p_start, learning_rate=learning_rate, ceiling=1.0, p_ref=p_ref, kl_weight=kl_weight)
    require(np.ndim(t) == 1, f"t has shape {np.shape(t)}; it must have one axis.")
    return _anchored(jnp.asarray(t, dtype=float), p_start, learning_rate, p_ref, kl_weight, group_size, rule)


def group_law(
    t: Float[Array, "row"] | np.ndarray,
    p_start: ArrayLike,
    learning_rate: ArrayLike,
    group_size: int | None,
    rule: GroupRule = DEFAULT_RULE,
    ceiling: ArrayLike = 1.0,
) -> Float[Array, "row"]:
    """p = A sigmoid(theta),  d theta/dt = eta E s(theta): the KL-free law of a group of G, by `anchored` at beta = 0.

    Follows `kl_free` while 1 - u is well above 1/G, and falls behind it, as 1/t instead of 1/t^2, from there on.
    Arguments and `InputError` as for `anchored`, with `p_start` in (0, ceiling). Derived here.
    """
    _check(t=t, p_start=p_start, learning_rate=learning_rate, ceiling=ceiling)
    start = jnp.asarray(p_start) / jnp.asarray(ceiling)
    return jnp.asarray(ceiling) * anchored(t, start, learning_rate, 0.5, 0.0, group_size, rule)


@partial(jax.jit, static_argnums=(5, 6))
def _anchored(
    t: Float[Array, "row"],
    p_start: ArrayLike,
    learning_rate: ArrayLike,
    p_ref: ArrayLike,
    kl_weight: ArrayLike,
    group_size: int | None,
    rule: GroupRule,
) -> Float[Array, "row"]:
    theta_ref = logit(p_ref)

    def drift(theta: Array) -> Array:
        pull = kl_weight * expit(theta) * expit(-theta) * (theta - theta_ref)
        return group_signal(theta, group_size, rule).mean - pull

    return expit(integrate(drift, logit(jnp.asarray(p_start, dtype=float)), jnp.asarray(learning_rate) * t))


def _z(p: ArrayLike, ceiling: ArrayLike) -> Float[Array, "..."]:
    return jnp.sinh(logit(jnp.asarray(p) / jnp.asarray(ceiling)) / 2)


def _clock(p: ArrayLike, ceiling: ArrayLike) -> Float[Array, "..."]:
    """int d theta/w = 2 theta + 2 sinh(theta): the time eta t of the mean-only law, from theta = 0."""
    theta = logit(jnp.asarray(p) / jnp.asarray(ceiling))
    return 2 * theta + 2 * jnp.sinh(theta)


@jax.custom_jvp
def _solve_mean_only(clock: Float[Array, "..."]) -> Float[Array, "..."]:
    """theta with 2 theta + 2 sinh(theta) = clock, by Newton from outside the root: monotone, by convexity."""
    near, far = clock / 4, jnp.arcsinh(clock / 2)
    theta = jnp.where(jnp.abs(near) < jnp.abs(far), near, far)
    for _ in range(_NEWTON_STEPS):
        theta = theta - (2 * theta + 2 * jnp.sinh(theta) - clock) / (2 + 2 * jnp.cosh(theta))
    return theta


@_solve_mean_only.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    theta = _solve_mean_only(*primals)
    return theta, tangents[0] / (2 + 2 * jnp.cosh(theta))


def _check(*, ceiling: ArrayLike, **given: ArrayLike) -> None:
    """Ranges of the arguments whose values are known (not traced)."""
    require_float64()
    for name, value in {"ceiling": ceiling, **given}.items():
        if isinstance(value, Tracer) or isinstance(ceiling, Tracer):
            continue
        x = np.asarray(value)
        if name in ("t", "kl_weight"):
            ok, allowed = (x >= 0) & np.isfinite(x), "finite and not negative"
        elif name in ("learning_rate", "ceiling"):
            ok, allowed = (x > 0) & np.isfinite(x), "positive and finite"
        else:
            ok, allowed = (x > 0) & (x < np.asarray(ceiling)), f"strictly between 0 and {ceiling}"
        require(bool(np.all(ok)), f"{name} is {value}; it must be {allowed}.")
