"""Engines that sample a posterior; each takes a NumPyro model with its arguments and returns `Draws`."""

from sde_grpo.inference.engine import Convergence, Draws, Engine, convergence
from sde_grpo.inference.nuts import sample_nuts
from sde_grpo.inference.target import Target, build_target

__all__ = ["Convergence", "Draws", "Engine", "Target", "build_target", "convergence", "sample_nuts"]
