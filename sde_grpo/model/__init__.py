"""The model of one run: links, priors, observation noise, and the NumPyro function that joins them."""

from sde_grpo.likelihood.links import Link
from sde_grpo.model.design import Design, Dynamics, build_design, padded
from sde_grpo.model.observation import NoiseKind
from sde_grpo.model.priors import PRIORS
from sde_grpo.model.scale import Scale
from sde_grpo.model.trace_model import trace_model

__all__ = ["PRIORS", "Design", "Dynamics", "Link", "NoiseKind", "Scale", "build_design", "padded", "trace_model"]
