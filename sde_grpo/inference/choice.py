"""Which engine: the fast one, and the slow one where the fast one has not converged."""

from __future__ import annotations

from typing import Any

from jaxtyping import Array

from sde_grpo.errors import require
from sde_grpo.inference.engine import Draws, EngineName, convergence
from sde_grpo.inference.smc import sample_smc
from sde_grpo.inference.target import Model


def sample(engine: EngineName, key: Array, model: Model, args: tuple[Any, ...], *, progress: bool = False) -> Draws:
    """``"smc"``, ``"nuts"``, ``"laplace"``, or ``"auto"``: smc, and nuts where smc has not converged.

    Raises `InputError` for another name.
    """
    allowed = ("auto", "smc", "nuts", "laplace")
    require(engine in allowed, f"engine is {engine!r}; allowed are {', '.join(map(repr, allowed))}.")
    if engine in ("auto", "smc"):
        draws = sample_smc(key, model, args, progress=progress)
        if engine == "smc" or (draws.tail_will_do and convergence(draws.sites).reached):
            return draws
    if engine == "laplace":
        from sde_grpo.inference.laplace import sample_laplace as slow
    else:
        from sde_grpo.inference.nuts import sample_nuts as slow
    return slow(key, model, args, progress=progress)  # both are imported where they are asked for
