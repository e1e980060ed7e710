"""Engines that sample a posterior; each takes a NumPyro model with its arguments and returns `Draws`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sde_grpo.inference.choice import sample
from sde_grpo.inference.engine import Convergence, Draws, Engine, EngineName, convergence
from sde_grpo.inference.smc import sample_smc
from sde_grpo.inference.target import Target, build_target

if TYPE_CHECKING:
    from sde_grpo.inference.nuts import sample_nuts

__all__ = [
    "Convergence",
    "Draws",
    "Engine",
    "EngineName",
    "Target",
    "build_target",
    "convergence",
    "sample",
    "sample_nuts",
    "sample_smc",
]


def __getattr__(name: str) -> Any:
    if name == "sample_nuts":  # late, for it imports NumPyro's samplers
        from sde_grpo.inference.nuts import sample_nuts

        return sample_nuts
    raise AttributeError(f"module 'sde_grpo.inference' has no attribute {name!r}")
