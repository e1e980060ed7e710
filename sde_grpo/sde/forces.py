"""Forces: the mean of the stochastic gradient and its variance, as functions of the policy's coordinate.

One optimizer step adds eta times a gradient of mean F(theta) and variance V(theta). A force states both, and the
reward that the coordinate stands for. Every field may be an array with a leading axis, to `jax.vmap` over.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from sde_grpo.errors import require
from sde_grpo.groups import GroupRule, group_signal
from sde_grpo.ranges import require_count, require_group_size

Scalar = float | Float[Array, "..."]


class Force(eqx.Module):
    """F(theta), V(theta) and the reward p(theta): what a law of motion needs to know of GRPO."""

    @property
    @abstractmethod
    def constant_noise(self) -> bool:
        """Whether V does not depend on theta, so that the noise is additive."""

    @abstractmethod
    def mean(self, theta: Float[Array, "..."]) -> Float[Array, "..."]:
        """F(theta), in units of theta per unit of learning rate."""

    @abstractmethod
    def variance(self, theta: Float[Array, "..."]) -> Float[Array, "..."]:
        """V(theta) >= 0, the variance of one step's gradient."""

    @abstractmethod
    def reward(self, theta: Float[Array, "..."]) -> Float[Array, "..."]:
        """The expected reward at theta."""


class LinearForce(Force):
    """F = -kappa x,  V = sigma_g^2 / G,  reward p* + x: the oscillator of theory note section 3, x = p - p*.

    **Arguments**

    - `curvature`: kappa > 0, 1 / learning rate.
    - `gradient_noise`: sigma_g >= 0, standard deviation of the gradient of a step whose groups are of size one.
    - `group_size`: G >= 1; through it alone the temperature falls as 1/G.
    - `fixed_point`: p*.

    Raises `InputError` outside these ranges, where the values are known.
    """

    curvature: Scalar
    gradient_noise: Scalar
    group_size: Scalar = 1.0
    fixed_point: Scalar = 0.0

    def __check_init__(self) -> None:
        require_known("curvature", self.curvature, lambda x: x > 0, "positive and finite")
        require_known("gradient_noise", self.gradient_noise, lambda x: x >= 0, "finite and not negative")
        require_known("group_size", self.group_size, lambda x: x >= 1, "finite and at least 1")
        require_known("fixed_point", self.fixed_point, lambda x: x == x, "finite")

    @property
    def constant_noise(self) -> bool:
        return True

    def mean(self, theta: Float[Array, "..."]) -> Float[Array, "..."]:
        return -self.curvature * theta

    def variance(self, theta: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.asarray(self.gradient_noise) ** 2 / self.group_size + jnp.zeros(jnp.shape(theta))

    def reward(self, theta: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.fixed_point + theta


class SoftmaxForce(Force):
    """F = E s(theta) - beta w (theta - theta_ref),  V = Var s(theta) / P,  reward sigmoid(theta), w = p(1-p).

    The softmax bandit in its logit: `kl_weight` > 0 anchors it to the reference policy, 0 is the KL-free law
    dp/dt = eta (p(1-p))^{3/2}. With a finite group the signal s and its noise are exact binomial sums, and the noise
    depends on the state; with many completions there is no noise.

    **Arguments**

    - `kl_weight`: beta >= 0.
    - `p_ref`: success probability of the reference policy, in (0, 1).
    - `group_size`: G >= 2, or `None` for many completions.
    - `prompts_per_step`: P >= 1, groups averaged in one step.
    - `rule`: how rewards become advantages.

    Raises `InputError` outside these ranges. Source: theory note section 5.
    """

    kl_weight: Scalar
    p_ref: Scalar = 0.5
    group_size: int | None = eqx.field(static=True, default=None)
    prompts_per_step: int = eqx.field(static=True, default=1)
    rule: GroupRule = eqx.field(static=True, default=GroupRule())

    def __check_init__(self) -> None:
        require_known("kl_weight", self.kl_weight, lambda x: x >= 0, "finite and not negative")
        require_known("p_ref", self.p_ref, lambda x: (x > 0) & (x < 1), "strictly between 0 and 1")
        if self.group_size is not None:
            require_group_size(self.group_size)
        require_count("prompts_per_step", self.prompts_per_step, 1)

    @property
    def constant_noise(self) -> bool:
        return self.group_size is None

    def mean(self, theta: Float[Array, "..."]) -> Float[Array, "..."]:
        w = jax.nn.sigmoid(theta) * jax.nn.sigmoid(-theta)
        theta_ref = jnp.log(self.p_ref) - jnp.log1p(-jnp.asarray(self.p_ref))
        return group_signal(theta, self.group_size, self.rule).mean - self.kl_weight * w * (theta - theta_ref)

    def variance(self, theta: Float[Array, "..."]) -> Float[Array, "..."]:
        if self.group_size is None:
            return jnp.zeros(jnp.shape(theta))
        return group_signal(theta, self.group_size, self.rule).variance / self.prompts_per_step

    def reward(self, theta: Float[Array, "..."]) -> Float[Array, "..."]:
        return jax.nn.sigmoid(theta)


class GivenForce(Force):
    """F, V and the reward as the caller writes them, with `jax.numpy` functions of a scalar theta.

    **Arguments**

    - `force`: F(theta), per unit of learning rate.
    - `noise`: V(theta) >= 0, the gradient's variance; a number where it is constant.
    - `observable`: the reward at theta; by default theta itself.
    """

    force: Callable[[Array], Array]
    noise: Callable[[Array], Array] | float
    observable: Callable[[Array], Array] = lambda theta: theta

    def __check_init__(self) -> None:
        if not callable(self.noise):
            require_known("noise", self.noise, lambda x: x >= 0, "a function, or a variance, finite and not negative")

    @property
    def constant_noise(self) -> bool:
        return not callable(self.noise)

    def mean(self, theta: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.force(theta)

    def variance(self, theta: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.noise(theta) if callable(self.noise) else self.noise + jnp.zeros(jnp.shape(theta))

    def reward(self, theta: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.observable(theta)


def require_known(name: str, value: ArrayLike, allowed: Callable[[np.ndarray], np.ndarray], range_: str) -> None:
    """Raise `InputError` unless all of `value` is finite and `allowed`; a traced value passes unseen."""
    if not isinstance(value, Tracer):
        known = np.asarray(value, dtype=float)
        require(bool(np.all(np.isfinite(known) & allowed(known))), f"{name} is {value}; it must be {range_}.")
