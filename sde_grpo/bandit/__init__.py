"""The two-armed softmax bandit: the one GRPO system whose reduction is exact (theory note, section 5)."""

from sde_grpo.bandit.exact import curvature, fixed_point, group_signal, stationary_sd
from sde_grpo.bandit.simulate import BanditSettings, Simulation, simulate

__all__ = ["BanditSettings", "Simulation", "curvature", "fixed_point", "group_signal", "simulate", "stationary_sd"]
