"""Which engine: the fast one, and the slow one where the fast one has not converged."""

from __future__ import annotations

from typing import Any

from jaxtyping import Array

from sde_grpo.errors import require
from sde_grpo.inference.engine import Draws, EngineName, convergence
from sde_grpo.inference.nuts import sample_nuts
from sde_grpo.inference.smc import sample_smc
from sde_grpo.inference.target import Model

_ENGINES = {"smc": sample_smc, "nuts": sample_nuts}


def sample(engine: EngineName, key: Array, model: Model, args: tuple[Any, ...], *, progress: bool = False) -> Draws:
    """``"smc"``, ``"nuts"``, or ``"auto"``: smc, and nuts where smc's populations disagree or have too few draws.

    Raises `InputError` for another name.
    """
    require(engine in ("auto", *_ENGINES), f"engine is {engine!r}; allowed are 'auto', 'smc' and 'nuts'.")
    draws = _ENGINES["smc" if engine == "auto" else engine](key, model, args, progress=progress)
    if engine == "auto" and not convergence(draws.sites).reached:
        return sample_nuts(key, model, args, progress=progress)
    return draws
