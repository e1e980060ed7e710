"""Pictures of fits and of the stability region. Figures are built without pyplot, so nothing global changes."""

from sde_grpo.plots.bands import plot_bands
from sde_grpo.plots.checks import plot_checks
from sde_grpo.plots.stability import plot_stability

__all__ = ["plot_bands", "plot_checks", "plot_stability"]
