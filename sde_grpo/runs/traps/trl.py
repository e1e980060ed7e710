"""Traps of TRL's log: keys that changed their meaning between versions.

``reward_std`` is the mean of the spreads within groups until TRL 0.26 (and in ms-swift), that of the whole batch
since 0.27.0. ``reward`` left out the weights of the reward functions from 0.27.0 to 0.29.1.
``frac_reward_zero_std`` is a flag of the whole batch under some settings.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from sde_grpo.runs.further_series import one_series
from sde_grpo.runs.grid import grid_of
from sde_grpo.runs.restarts import NO_RESTARTS
from sde_grpo.runs.roles import plain
from sde_grpo.runs.traps.evidence import Evidence, Found

CLOSE = 2e-3
MOSTLY = 0.95
SPREAD_OF_BATCH = (0, 27, 0)
UNWEIGHTED = (0, 27, 0), (0, 29, 1)
MS_SWIFT = ("global_step_max_steps", "train_speed")


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
    meaning, why = _meaning(evidence, column, parts)
    if meaning == "batch":
        found.warnings.append(
            f"{column} is the spread of the whole batch (TRL since 0.27), not that within groups, as it was before: it "
            "is not used."
        )
    elif meaning == "groups":
        found.warnings.append(f"{column} is read as the mean spread within groups (TRL before 0.27, ms-swift), {why}.")
        series = one_series(table, rows, evidence.steps, NO_RESTARTS, (column,))
        if series is not None and not evidence.run.restarts and "within_group_std" not in evidence.run.series:
            found.series["within_group_std"] = series
    else:
        found.warnings.append(
            f"{column} can mean two things, the spread within groups (TRL before 0.27, ms-swift) or that of the whole "
            "batch (since): the log does not tell, so it is not used."
        )


def _meaning(evidence: Evidence, column: str, parts: list[str]) -> tuple[str | None, str]:
    """Whose spread ``reward_std`` is, of the ``"batch"`` or the ``"groups"`` (None: unknown), and why.

    By the version, by the keys, and at last by the values: with one reward function its own spread is that of the
    batch, and where rewards are 0 and 1 that is sqrt(p (1 - p)).
    """
    table, rows, release = evidence.table, evidence.training, _release(evidence)
    if evidence.facts.get("scale_rewards") == "batch":
        return "batch", ""
    if parts and not any(plain(name).endswith("_mean") for name in parts):
        return "groups", "for its keys are of TRL 0.16 or older, or of its asynchronous trainer"
    if release is not None and release >= SPREAD_OF_BATCH:
        return "batch", ""
    if release is not None:
        return "groups", f"for the version is {evidence.facts['trl_version']}"
    if any(plain(name).startswith(MS_SWIFT) for name in table.names):
        return "groups", "for the log is of ms-swift"
    if len(parts) > 1:
        return None, ""
    spread, reward = table[column].numbers, table[evidence.choice.reward].numbers
    own = [name for name in table.columns if plain(name).startswith("rewards_") and plain(name).endswith("_std")]
    if own and parts:
        batch, tolerance, sure = table[own[0]].numbers, CLOSE, True
    elif np.nanmin(reward) >= 0 and np.nanmax(reward) <= 1:
        batch = np.sqrt(np.clip(reward * (1 - reward), 0, None))  # 0/1 rewards; N/(N-1) is within the tolerance
        tolerance, sure = 0.02, grid_of(evidence.run.reward) is not None
    else:
        return None, ""
    known = rows & np.isfinite(spread) & np.isfinite(batch)
    if known.sum() < 5:
        return None, ""
    alike = np.abs(spread - batch)[known] <= tolerance * np.maximum(batch[known], 1e-3)
    if alike.mean() >= MOSTLY:
        return "batch", ""
    smaller = spread[known] <= batch[known] * (1 + tolerance) + 1e-9
    if sure and smaller.mean() >= MOSTLY:
        return "groups", "for it is smaller than that of the whole batch"
    return None, ""


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
    weights, release = evidence.facts.get("reward_weights"), _release(evidence)
    if isinstance(weights, list) and len(weights) == len(parts) and any(weight != 1 for weight in weights):
        found.warnings.append(
            f"reward is the plain sum of its {len(parts)} functions, although their weights are {weights}: TRL 0.27.0 "
            "to 0.29.1 logged it unweighted. Training followed the weighted sum, which this is not."
        )
    elif weights is None and (release is None or UNWEIGHTED[0] <= release <= UNWEIGHTED[1]):
        found.warnings.append(
            f"reward is the plain sum of its {len(parts)} functions. TRL 0.27.0 to 0.29.1 logged it unweighted, "
            "without reward_weights: if some were set, this is not the reward that was trained on."
        )


def _release(evidence: Evidence) -> tuple[int, ...] | None:
    """The version of TRL, such as (0, 27, 0); None where it is not known."""
    version = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", str(evidence.facts.get("trl_version", "")))
    return None if version is None else tuple(int(part or 0) for part in version.groups())


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
