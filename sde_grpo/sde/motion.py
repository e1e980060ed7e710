"""The law of motion: learning rate, damping and mass under which a force moves the policy."""

from __future__ import annotations

import equinox as eqx
from jax.typing import ArrayLike

from sde_grpo.errors import require
from sde_grpo.oscillator import UpdateRule, reduce_update
from sde_grpo.sde.forces import Scalar, require_known


class Motion(eqx.Module):
    """M theta'' + C theta' = eta F(theta) + eta sqrt(V(theta)) dW/dt, time in optimizer steps, in the sense of Ito.

    Without a mass, C d theta = eta F dt + eta sqrt(V) dW. The discrete update is theta_{k+1} = theta_k +
    (eta/C)(F + sqrt(V) xi_k) with xi_k drawn at theta_k: the Euler-Maruyama step of the Ito equation, so that is
    the right sense where V depends on theta. With a mass the noise enters the velocity and depends on the position
    alone, so Ito and Stratonovich agree; as the mass goes to 0 at constant C the limit is the Ito equation above.

    **Arguments**

    - `learning_rate`: eta > 0, times 1 - mu for an EMA momentum.
    - `damping`: C; without a mass it must be positive.
    - `mass`: M > 0, or `None` for first-order motion.

    Raises `InputError` outside these ranges, where the values are known. Source: theory note section 3.
    """

    learning_rate: Scalar
    damping: Scalar = 1.0
    mass: Scalar | None = None

    def __check_init__(self) -> None:
        require_known("learning_rate", self.learning_rate, lambda x: x > 0, "positive and finite")
        if self.mass is None:
            require_known("damping", self.damping, lambda x: x > 0, "positive and finite where there is no mass")
        else:
            require_known("damping", self.damping, lambda x: x == x, "finite")
            require_known("mass", self.mass, lambda x: x > 0, "positive and finite")


def overdamped(rule: UpdateRule, curvature: ArrayLike | None = None) -> Motion:
    """First-order motion, C = (1 - mu) - phi a m1: a momentum only rescales the learning rate, by 1/(1 - mu).

    `curvature` is kappa, needed for the effect of a lag: a = eta kappa. Raises `InputError` where the rule has a lag
    and no curvature is given, or where C is not positive (there is no first-order limit then).
    """
    mass_and_damping = _reduced(rule, curvature)
    return Motion(rule.effective_learning_rate, mass_and_damping[1])


def inertial(rule: UpdateRule, curvature: ArrayLike | None = None) -> Motion:
    """Second-order motion, M = (1 + mu)/2 + phi a m2/2,  C = (1 - mu) - phi a m1; arguments as for `overdamped`."""
    mass, damping = _reduced(rule, curvature)
    return Motion(rule.effective_learning_rate, damping, mass)


def _reduced(rule: UpdateRule, curvature: ArrayLike | None) -> tuple[Scalar, Scalar]:
    if curvature is None:
        require(
            rule.lag_moments[1] == 0,
            f"refresh_interval is {rule.refresh_interval} ({rule.lag_schedule}), whose lag acts through the curvature; "
            "give the curvature at the fixed point, or take a refresh_interval without lag.",
        )
        return (1 + rule.momentum) / 2, 1 - rule.momentum
    require_known("curvature", curvature, lambda x: x > 0, "positive and finite")
    oscillator = reduce_update(rule, curvature)
    return oscillator.mass, oscillator.damping
