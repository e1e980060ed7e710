"""The training dynamics as a stochastic differential equation: forces, motion, ensembles, and what a log shows."""

from sde_grpo.sde.ensemble import Paths, sample_paths
from sde_grpo.sde.exact import exact_transition, sample_exact
from sde_grpo.sde.forces import Force, GivenForce, LinearForce, SoftmaxForce
from sde_grpo.sde.motion import Motion, inertial, overdamped
from sde_grpo.sde.observation import observe
from sde_grpo.sde.solvers import SOLVERS, SolverName
from sde_grpo.sde.terms import langevin_terms, ordinary_terms

__all__ = [
    "SOLVERS",
    "Force",
    "GivenForce",
    "LinearForce",
    "Motion",
    "Paths",
    "SoftmaxForce",
    "SolverName",
    "exact_transition",
    "inertial",
    "langevin_terms",
    "observe",
    "ordinary_terms",
    "overdamped",
    "sample_exact",
    "sample_paths",
]
