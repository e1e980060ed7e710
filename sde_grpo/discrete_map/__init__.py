"""The update of GRPO about its fixed point as an exact linear map: matrices, and their slowest mode."""

from sde_grpo.discrete_map.matrices import cycle_matrix, step_matrices, stiffness_per_step
from sde_grpo.discrete_map.modes import dominant_root, phase_per_step, spectral_radius

__all__ = [
    "cycle_matrix",
    "dominant_root",
    "phase_per_step",
    "spectral_radius",
    "step_matrices",
    "stiffness_per_step",
]
