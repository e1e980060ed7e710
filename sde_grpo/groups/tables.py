"""The tables of this folder's README: ``python -m sde_grpo.groups.tables`` prints them.

All are symmetric under p -> 1-p.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from scipy.special import logit

from sde_grpo.groups.expansion import leading_order
from sde_grpo.groups.rule import DEFAULT_RULE, GroupRule
from sde_grpo.groups.signal import GroupSignal, group_signal, learning_rate_factor

PROBABILITIES = (0.5, 0.3, 0.1, 0.03, 0.01)
GROUP_SIZES = (2, 4, 8, 16, 32, 64)
SEARCHED = tuple(2**n for n in range(1, 11))
WITHIN = 0.1


def factor_table() -> str:
    """Learning-rate factor E s / sqrt(w) by G and p, population / sample standard deviation, as a Markdown table."""
    rules = (DEFAULT_RULE, GroupRule(scale="sample"))
    factors = _at(GROUP_SIZES, lambda theta, size: jnp.stack([learning_rate_factor(theta, size, r) for r in rules]))
    rows = [
        [str(size), *(f"{population:.3f} / {sample:.3f}" for population, sample in pairs.T)]
        for size, pairs in zip(GROUP_SIZES, factors, strict=True)
    ]
    return _markdown("G", rows)


def validity_table() -> str:
    """The G from which on each expansion is within 10 % of the exact sum (of 2, 4, 8 ... 1024), as a Markdown table."""
    exact = _at(SEARCHED, lambda theta, size: jnp.stack(group_signal(theta, size)))
    rows = []
    for order in (1, 2):
        series = _at(SEARCHED, lambda theta, size, order=order: jnp.stack(leading_order(theta, size, order=order)))
        close = np.abs(series - exact) <= WITHIN * exact  # (G, moment, p)
        for moment, name in enumerate(GroupSignal._fields):
            rows.append([f"{name}, order {order}", *(_from_here_on(column) for column in close[:, moment].T)])
    return _markdown("expansion", rows)


def _at(sizes: tuple[int, ...], function: Callable[[Array, int], Array]) -> Float[np.ndarray, "G row p"]:
    """`function` of all `PROBABILITIES` at every size, in one compiled program: one for each size takes a minute."""
    thetas = jnp.asarray(logit(PROBABILITIES))
    return np.asarray(jax.jit(lambda theta: jnp.stack([function(theta, size) for size in sizes]))(thetas))


def _from_here_on(close: Bool[np.ndarray, "G"]) -> str:
    failing = np.flatnonzero(~close)
    first = 0 if failing.size == 0 else failing[-1] + 1
    return f"{SEARCHED[first]}" if first < len(SEARCHED) else f"> {SEARCHED[-1]}"


def _markdown(corner: str, rows: list[list[str]]) -> str:
    header = [corner, *(f"p = {p}" for p in PROBABILITIES)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *rows))


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    print(factor_table(), validity_table(), sep="\n\n")
