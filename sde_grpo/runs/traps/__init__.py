"""What misleads in a log: each trap is found by its own signs and named in plain words."""

from __future__ import annotations

import numpy as np

from sde_grpo.runs.table import Vector
from sde_grpo.runs.traps.evidence import Evidence, Found
from sde_grpo.runs.traps.noise import FEWEST_TO_REFUSE, forward_filled, heavy_tails, smoothed
from sde_grpo.runs.traps.rows import row_traps
from sde_grpo.runs.traps.trl import trl_traps

__all__ = ["Evidence", "Found", "find_traps", "forward_filled"]


def find_traps(evidence: Evidence) -> Found:
    """Every trap that the evidence shows; the sentences come with the weightier first."""
    found = Found()
    filled = forward_filled(evidence.run.reward)
    tails = heavy_tails(evidence.run, _extremes(evidence, "reward_max"), _extremes(evidence, "reward_min"))
    found.warnings += [sentence for sentence in (filled, tails) if sentence is not None]
    smooth = smoothed(evidence.run)
    if smooth is not None:
        sure = len(evidence.run.reward) >= FEWEST_TO_REFUSE or "named as smoothed" in smooth
        (found.refusals if sure else found.warnings).append(smooth)
    row_traps(evidence, found)
    trl_traps(evidence, found)
    return found


def _extremes(evidence: Evidence, role: str) -> Vector:
    for name in evidence.table.with_role(role):
        values = evidence.table[name].numbers[evidence.training & evidence.table[name].finite]
        if len(values):
            return values
    return np.empty(0)
