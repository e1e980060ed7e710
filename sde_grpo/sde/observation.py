"""What a log row shows of a path: the mean reward of one sampled batch (theory note, section 6)."""

from __future__ import annotations

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float, PRNGKeyArray

from sde_grpo.errors import require
from sde_grpo.ranges import require_count


def observe(
    key: PRNGKeyArray,
    reward: ArrayLike,
    *,
    group_size: int,
    prompts_per_step: int,
    prompt_correlation: float = 0.0,
) -> Float[np.ndarray, "..."]:
    """Mean of P groups of G 0/1 rewards of expectation p:  Var = p(1-p) [rho + (1 - rho)/G] / P.

    At rho = 0 the number of successes is Binomial(G P, p). Otherwise each prompt has its own success probability, from
    the Beta distribution of mean p and variance rho p(1-p).

    **Arguments**

    - `key`: a JAX random key.
    - `reward`: p in [0, 1], any shape; the result has this shape.
    - `group_size`, `prompts_per_step`: G >= 1 and P >= 1.
    - `prompt_correlation`: rho in [0, 1).

    Raises `InputError` outside these ranges; of a path it names the first step that leaves [0, 1].
    """
    require_count("group_size", group_size, 1)
    require_count("prompts_per_step", prompts_per_step, 1)
    require(0 <= prompt_correlation < 1, f"prompt_correlation is {prompt_correlation}; it must lie in [0, 1).")
    p = np.asarray(reward, dtype=float)
    _require_inside(p)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))  # many times faster than JAX's own counts
    if prompt_correlation == 0:
        batch = group_size * prompts_per_step
        return np.asarray(rng.binomial(batch, p) / batch)
    spread, prompts = (1 - prompt_correlation) / prompt_correlation, (prompts_per_step, *p.shape)
    tiny = np.finfo(float).tiny  # a Beta parameter must not be zero at p = 0 or 1
    each = rng.beta(np.maximum(spread * p, tiny), np.maximum(spread * (1 - p), tiny), prompts)
    return rng.binomial(group_size, each).mean(axis=0) / group_size


def _require_inside(p: Float[np.ndarray, "..."]) -> None:
    outside = ~((p >= 0) & (p <= 1))
    if outside.any():
        place = np.argwhere(outside)[0]
        where = f" at step {place[-1]}" if p.ndim else ""
        require(
            False,
            f"The expected reward is {p[tuple(place)]:.4g}{where}; for 0/1 rewards it must lie in [0, 1]. Lower the "
            "noise, bring the start nearer to the fixed point, or take fewer steps if the motion is unstable.",
        )
