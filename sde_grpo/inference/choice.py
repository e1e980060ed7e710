"""Which engine: the fast one, and the slow one where the fast one has not converged."""

from __future__ import annotations

from typing import Any

from jaxtyping import Array

from sde_grpo.errors import require
from sde_grpo.inference.engine import Draws, EngineName, convergence
from sde_grpo.inference.smc import sample_smc
from sde_grpo.inference.target import Model


def sample(engine: EngineName, key: Array, model: Model, args: tuple[Any, ...], *, progress: bool = False) -> Draws:
    """``"smc"``, ``"nuts"``, or ``"auto"``: smc, and nuts where smc's populations disagree or have too few draws.

    Raises `InputError` for another name.
    """
    require(engine in ("auto", "smc", "nuts"), f"engine is {engine!r}; allowed are 'auto', 'smc' and 'nuts'.")
    if engine != "nuts":
        draws = sample_smc(key, model, args, progress=progress)
        if engine == "smc" or convergence(draws.sites).reached:
            return draws
    from sde_grpo.inference.nuts import sample_nuts  # NumPyro's samplers are imported where they are needed

    return sample_nuts(key, model, args, progress=progress)
