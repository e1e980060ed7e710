"""Pictures of a fit. Figures are built without pyplot, so nothing global changes."""

from sde_grpo.plots.bands import plot_bands
from sde_grpo.plots.checks import plot_checks

__all__ = ["plot_bands", "plot_checks"]
