"""What misleads in a log: each trap is found by its own signs and named in plain words."""

from __future__ import annotations

from sde_grpo.runs.traps.evidence import Evidence, Found
from sde_grpo.runs.traps.noise import forward_filled

__all__ = ["Evidence", "Found", "find_traps", "forward_filled"]


def find_traps(evidence: Evidence) -> Found:
    """Every trap that the evidence shows."""
    found = Found()
    filled = forward_filled(evidence.run.reward)
    if filled is not None:
        found.warnings.append(filled)
    return found
