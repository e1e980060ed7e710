"""Runs that differ in a setting, as one hierarchical model: what does the setting change?"""

from sde_grpo.hierarchy.sweep import Sweep, build_sweep

__all__ = ["Sweep", "build_sweep"]
