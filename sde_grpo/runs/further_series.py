"""The logged quantities beside the reward, under one name each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from sde_grpo.runs.cells import Row, number_or_none
from sde_grpo.runs.restarts import Restart, average_repeats, is_lost
from sde_grpo.runs.run import Series

# TRL's reward_std is left out: since v0.27 it is the spread of the whole batch, not that within groups.
SERIES_COLUMNS: dict[str, tuple[str, ...]] = {
    "within_group_std": ("within_group_std", "group_reward_std", "train/group_reward_std"),
    "zero_variance_share": ("frac_reward_zero_std", "train/frac_reward_zero_std", "zero_variance_share", "zvf"),
    "entropy": (
        "entropy",
        "train/entropy",
        "actor/entropy",
        "actor_entropy",
        "token_entropy",
        "policy/entropy",
        "policy/entropy_avg",
        "optim/entropy",
        "approx_entropy",
    ),
    "kl": ("kl", "train/kl", "actor/kl_loss", "actor_kl_loss", "reference_kl", "kl_divergence", "objective/kl1_avg"),
    "clip_share": (
        "clip_ratio/region_mean",
        "train/clip_ratio/region_mean",
        "clip_ratio",
        "actor/pg_clipfrac",
        "actor_pg_clipfrac",
        "clip_fraction",
        "ppo_clip_ratio",
        "policy/clipfrac_avg",
    ),
    "gradient_norm": ("grad_norm", "train/grad_norm", "actor/grad_norm", "actor_grad_norm", "optim/grad_norm"),
    "length": (
        "completions/mean_length",
        "train/completions/mean_length",
        "completion_length",
        "response_length/mean",
        "response_length_mean",
        "avg_response_token_length",
    ),
}

Stamped = tuple[Row, float]


def read_series(rows: Sequence[Stamped], restarts: Sequence[Restart]) -> dict[str, Series]:
    """From training rows, each with its step, the first column of each quantity that holds numbers."""
    kept = [(row, step) for row, step in rows if not is_lost(row.number, step, restarts)]
    found = {}
    for name, columns in SERIES_COLUMNS.items():
        for column in columns:
            series = one_series(kept, (column,))
            if series is not None:
                found[name] = series
                break
    return found


def one_series(rows: Iterable[Stamped], columns: Sequence[str]) -> Series | None:
    """The numbers in the first of `columns` that each row has, averaged over the rows of a step; None without any."""
    pairs = []
    for row, step in rows:
        value = next((v for c in columns if (v := number_or_none(row.cells.get(c))) is not None), None)
        if value is not None:
            pairs.append((step, value))
    if not pairs:
        return None
    steps, values = np.array(pairs, dtype=float).T
    return Series(*average_repeats(steps, values))
