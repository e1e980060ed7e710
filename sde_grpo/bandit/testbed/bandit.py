"""The softmax bandit: prompts, arms, rewards, and a log-linear policy (theory note, section 5)."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from scipy.special import logit

from sde_grpo.errors import require


class Bandit(eqx.Module):
    """pi(arm a | prompt n) = softmax_a(z_ref[n] + features[n] x), x the trained parameters, x = 0 the reference.

    **Arguments**

    - `reference_logits`: z_ref, shape (prompt, arm), two arms or more, finite.
    - `rewards`: what each arm pays, shape (prompt, arm): 0/1 or any finite numbers.
    - `features`: how a parameter moves the logits, shape (prompt, arm, parameter), finite. Prompts that share
      parameters learn from one another.

    Raises `InputError` where shapes disagree or a value is not finite. `two_armed` and `softmax_table` write
    the two usual ones.
    """

    reference_logits: Float[Array, "prompt arm"]
    rewards: Float[Array, "prompt arm"]
    features: Float[Array, "prompt arm parameter"]

    def __check_init__(self) -> None:
        shape = self.reference_logits.shape
        require(
            len(shape) == 2 and shape[0] >= 1 and shape[1] >= 2,
            f"reference_logits has shape {shape}; it must be (prompt, arm) with at least two arms.",
        )
        require(
            self.rewards.shape == shape, f"rewards has shape {self.rewards.shape}; it must be {shape}, one per arm."
        )
        require(
            self.features.ndim == 3 and self.features.shape[:2] == shape and self.features.shape[2] >= 1,
            f"features has shape {self.features.shape}; it must be {shape} and a third axis of parameters.",
        )
        for name in ("reference_logits", "rewards", "features"):
            if not isinstance(getattr(self, name), Tracer):
                require(bool(np.all(np.isfinite(getattr(self, name)))), f"{name} holds a value that is not finite.")

    def logits(self, parameters: Float[Array, " parameter"]) -> Float[Array, "prompt arm"]:
        """z_ref + features x."""
        return self.reference_logits + self.features @ parameters

    def log_policy(self, parameters: Float[Array, " parameter"]) -> Float[Array, "prompt arm"]:
        """log pi."""
        return jax.nn.log_softmax(self.logits(parameters))


def two_armed(p_ref: float | Sequence[float]) -> Bandit:
    """Failure pays 0, success 1, p = sigmoid(theta), theta = theta_ref + x: the bandit of `sde_grpo.bandit.curvature`.

    The arms are (failure, success), and the logit of failure is held at 0, so the logit of success is theta.

    - `p_ref`: success probability of the reference policy, in (0, 1); several make several prompts, whose logits
      all move by the same x, as the single coordinate of the mean-field assumption does.

    Raises `InputError` outside the range.
    """
    p = np.atleast_1d(np.asarray(p_ref, dtype=np.float64))
    require(
        p.ndim == 1 and p.size > 0 and bool(np.all((p > 0) & (p < 1))),
        f"p_ref is {p_ref}; each value must lie strictly between 0 and 1.",
    )
    success = jnp.tile(jnp.array([0.0, 1.0]), (p.size, 1))
    return Bandit(success * jnp.asarray(logit(p))[:, None], success, success[:, :, None])


def softmax_table(reference_policy: ArrayLike | Sequence, rewards: ArrayLike | Sequence) -> Bandit:
    """Every prompt has K logits of its own: x has one entry per prompt and arm, prompt by prompt.

    - `reference_policy`: pi_ref, positive, summing to 1 over the arms: shape (prompt, arm), or (arm,) for one prompt.
    - `rewards`: what each arm pays, of the same shape, or (arm,) for all prompts alike.

    With K = 2 both logits move, so theta = z_1 - z_0 feels twice the learning rate that it feels in `two_armed`.
    Raises `InputError` for a policy that is none, or shapes that do not fit.
    """
    policy = np.atleast_2d(np.asarray(reference_policy, dtype=np.float64))
    require(
        policy.ndim == 2 and bool(np.all(policy > 0)) and np.allclose(policy.sum(axis=-1), 1, atol=1e-9),
        f"reference_policy is {reference_policy}; each row must be positive and sum to 1.",
    )
    pays = np.asarray(rewards, dtype=np.float64)
    require(
        pays.shape in (policy.shape, policy.shape[1:]),
        f"rewards has shape {pays.shape}; allowed are {policy.shape} and {policy.shape[1:]}.",
    )
    prompts, arms = policy.shape
    features = np.eye(prompts * arms).reshape(prompts, arms, prompts * arms)
    return Bandit(jnp.log(policy), jnp.broadcast_to(jnp.asarray(pays), policy.shape), jnp.asarray(features))
