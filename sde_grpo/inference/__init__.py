"""Engines that sample a posterior; each takes a NumPyro model with its arguments and returns `Draws`."""

from sde_grpo.inference.choice import sample
from sde_grpo.inference.engine import Convergence, Draws, Engine, EngineName, convergence
from sde_grpo.inference.nuts import sample_nuts
from sde_grpo.inference.smc import sample_smc
from sde_grpo.inference.target import Target, build_target

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
