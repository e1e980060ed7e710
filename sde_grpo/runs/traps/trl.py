"""Traps of TRL's log: keys that changed their meaning between versions.

``reward_std`` is the mean of the spreads within groups until TRL 0.26 (and in ms-swift), that of the whole batch
since 0.27.0. ``reward`` left out the weights of the reward functions from 0.27.0 to 0.29.1.
``frac_reward_zero_std`` is a flag of the whole batch under some settings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sde_grpo.runs.further_series import one_series
from sde_grpo.runs.restarts import NO_RESTARTS
from sde_grpo.runs.roles import plain
from sde_grpo.runs.traps.evidence import Evidence, Found

CLOSE = 2e-3
MOSTLY = 0.95


def trl_traps(evidence: Evidence, found: Found) -> None:
    """All of them, where the log has the keys."""
    parts = _parts(evidence)
    if not parts and "reward_std" not in map(plain, evidence.table.columns):
        return
    _spread(evidence, found, parts)
    _weights(evidence, found, parts)
    _zero_share(evidence, found)


def _parts(evidence: Evidence) -> list[str]:
    """The columns of the single reward functions."""
    names = [name for name in evidence.table.columns if plain(name).startswith("rewards_")]
    means = [name for name in names if plain(name).endswith("_mean")]
    return means or [name for name in names if not plain(name).endswith("_std")]


def _spread(evidence: Evidence, found: Found, parts: list[str]) -> None:
    table, rows = evidence.table, evidence.training
    column = next((name for name in table.columns if plain(name) == "reward_std"), None)
    if column is None or plain(evidence.choice.reward) != "reward" or not (table[column].finite & rows).any():
        return
    spread, reward = table[column].numbers, table[evidence.choice.reward].numbers
    own = [name for name in table.columns if plain(name).startswith("rewards_") and plain(name).endswith("_std")]
    batch = table[own[0]].numbers if len(own) == 1 and len(parts) == 1 else None
    if batch is None and np.nanmin(reward) >= 0 and np.nanmax(reward) <= 1:
        batch = np.sqrt(np.clip(reward * (1 - reward), 0, None))  # 0/1 rewards; N/(N-1) is within the tolerance
        tolerance = 0.02
    else:
        tolerance = CLOSE
    known = rows & np.isfinite(spread) & (np.isfinite(batch) if batch is not None else False)
    if batch is None or known.sum() < 5:
        found.warnings.append(
            f"{column} can mean two things, the spread within groups (TRL before 0.27, ms-swift) or that of the whole "
            "batch (since): the log does not tell, so it is not used."
        )
        return
    alike = np.abs(spread - batch)[known] <= tolerance * np.maximum(batch[known], 1e-3)
    if alike.mean() >= MOSTLY:
        found.warnings.append(
            f"{column} is the spread of the whole batch (TRL since 0.27), not that within groups, as it was before: it "
            "is not used."
        )
    elif (spread[known] <= batch[known] * (1 + tolerance) + 1e-9).mean() >= MOSTLY:
        found.warnings.append(
            f"{column} is read as the mean spread within groups (TRL before 0.27, ms-swift), for it is smaller than "
            "that of the whole batch."
        )
        series = one_series(table, rows, evidence.steps, NO_RESTARTS, (column,))
        if series is not None and not evidence.run.restarts and "within_group_std" not in evidence.run.series:
            found.series["within_group_std"] = series


def _weights(evidence: Evidence, found: Found, parts: list[str]) -> None:
    table, rows = evidence.table, evidence.training
    if len(parts) < 2 or plain(evidence.choice.reward) != "reward":
        return
    values = np.stack([table[name].numbers for name in parts])
    reward = table[evidence.choice.reward].numbers
    known = rows & np.isfinite(values).all(axis=0) & np.isfinite(reward)
    varied = np.array([np.ptp(row[known]) > 0 for row in values]) if known.sum() >= 5 else np.zeros(len(parts), bool)
    if varied.sum() < 2:
        return
    plain_sum = np.abs(values.sum(axis=0) - reward)[known] <= CLOSE
    if plain_sum.mean() < MOSTLY:
        return
    weights = evidence.facts.get("reward_weights")
    version = str(evidence.facts.get("trl_version", ""))
    if isinstance(weights, list) and len(weights) == len(parts) and any(weight != 1 for weight in weights):
        found.warnings.append(
            f"reward is the plain sum of its {len(parts)} functions, although their weights are {weights}: TRL 0.27.0 "
            "to 0.29.1 logged it without them. Training followed the weighted sum, which this is not."
        )
    elif weights is None and _unweighted(version):
        found.warnings.append(
            f"reward is the plain sum of its {len(parts)} functions. TRL 0.27.0 to 0.29.1 logged it without "
            "reward_weights: if some were set, this is not the reward that was trained on."
        )


def _unweighted(version: str) -> bool:
    """Whether this version of TRL may have left the weights out; an unknown one may."""
    try:
        release = tuple(int(part) for part in version.split(".")[:3])
    except ValueError:
        return True
    return (0, 27, 0) <= release <= (0, 29, 1)


def _zero_share(evidence: Evidence, found: Found) -> None:
    share = evidence.run.series.get("zero_variance_share")
    if share is None:
        return
    whole: Any = None
    if evidence.facts.get("scale_rewards") == "batch":
        whole = 'scale_rewards is "batch"'
    elif evidence.facts.get("multi_objective_aggregation") == "normalize_then_sum":
        whole = 'multi_objective_aggregation is "normalize_then_sum"'
    if whole is not None:
        found.unusable_series.add("zero_variance_share")
        found.warnings.append(
            f"frac_reward_zero_std is a flag of the whole batch here, for {whole}, and not the share of groups without "
            "spread: it is not used."
        )
        return
    prompts = evidence.run.configuration.prompts_per_step
    if prompts != 1 and len(share.values) >= 20 and set(np.unique(share.values)) == {0.0, 1.0}:
        found.warnings.append(
            "frac_reward_zero_std is 0 or 1 in every row: it may be a flag of the whole batch (scale_rewards batch) "
            "and not the share of groups without spread."
        )
    column = evidence.table[evidence.choice.reward]
    empty = evidence.training & evidence.choice.rows & column.present & ~column.finite
    if count := int(empty.sum()):
        found.warnings.append(
            f"In {count} {'row' if count == 1 else 'rows'} no completion had a reward; frac_reward_zero_std is 0 there "
            "although nothing was learned, so it is too low."
        )
