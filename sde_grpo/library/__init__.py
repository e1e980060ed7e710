"""Population posteriors that are kept: learned from many runs, documented, checked when loaded."""

from sde_grpo.library.model import LearnedModel, load_model

__all__ = ["LearnedModel", "load_model"]
