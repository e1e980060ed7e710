"""What the columns of the trainers' logs mean: one table of names, and the role of a name.

Names are compared after `plain`: without ``train/`` in front, in lower case, with everything but letters and digits
as an underscore and ``@`` as ``_at_``. So ``critic/rewards/mean``, its CSV export ``critic_rewards_mean`` and its
MLflow name are one, and so are TRL's ``reward`` and its TensorBoard tag ``train/reward``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

# Mean reward of the sampled batch. Of several in one log the first in this order is taken.
REWARD_COLUMNS: dict[str, str] = {
    "rollout/reward_mean": "OpenRLHF",
    "reward": "TRL, unsloth, ms-swift; NeMo-RL",
    "reward/overall": "EasyR1, before filtering",
    "critic/rewards/mean": "verl, after the KL term in the reward",
    "critic/score/mean": "verl and EasyR1, without the KL term",
    "env/all/reward/total": "tinker-cookbook",
    "reward/mean": "tinker, prime-rl in 2025",
    "reward/all/mean": "prime-rl in early 2026",
    "reward_mean": "own loops",
    "mean_reward": "own loops",
    "scores": "open-instruct (of the prompts that are left after filtering)",
    "reward/total": "own loops",
    "train_reward": "exports",
    "train/reward_mean": "exports",
    "avg_reward": "own loops, NeMo-RL's console",
    "reward_avg": "own loops",
    "reward/avg_raw_reward": "SkyRL",
    "rollout/raw_reward": "slime",
    "filtered_reward": "NeMo-RL, after filtering",
    "reward_trace": "whole curves in JSON",
    "reward_curve": "whole curves in JSON",
    "reward_history": "whole curves in JSON",
    "rewards": "whole curves in JSON",
    "value": "charts exported from TensorBoard",
    "final_train_accuracy": "tables of end points, one row a run",
    "final_reward": "tables of end points, one row a run",
}
REWARD_PATTERNS = (
    r"agg_all_.+_reward_mean",  # prime-rl, all rollouts of an agent
    r"agg_effective_.+_reward_mean",  # the same, those that were trained on
    r".+_all_.+_reward_mean",
    r"env_.+_reward_total",  # tinker-cookbook, one environment
)
STEP_COLUMNS: tuple[str, ...] = (
    "step",
    "global_step",
    "training/global_step",
    "training_step",
    "grpo_step",
    "rollout_step",
    "global_step/max_steps",
    "iteration",
    "optimizer_step",
    "train_step",
    "current_steps",
    "_step",
    "progress/batch",
    "progress/step",
    "update",
    "iter",
    "batch_idx",
)
HELD_OUT_COLUMNS: tuple[str, ...] = (
    "eval_reward",
    "eval/reward",
    "eval_scores",
    "val/reward_score",
    "validation/accuracy",
    "val_reward",
    "test/env/all/reward/total",
    "eval/env/all/reward/total",
    "heldout_acc",
    "final_validation_accuracy",
)
HELD_OUT_PATTERNS = (
    r"val_core_.+_mean_at_\d+",
    r"val_core_.+_(acc|reward|score)(_mean)?",
    r"val_test_score_.+",
    r"eval_.+_pass\d+",
    r"eval_.+_avg_at_\d+",
    r"eval_.+_reward_mean",
    r"val_.+_reward",
)
KIND_COLUMNS = ("type", "kind", "split", "phase", "mode", "stage", "partition", "subset")
# Columns that tell runs apart; the ones people would name first come first.
RUN_COLUMNS: tuple[str, ...] = (
    "group_size",
    "num_generations",
    "rollout_n",
    "seed",
    "label",
    "run",
    "run_name",
    "run_id",
    "experiment",
    "experiment_name",
    "exp_name",
    "name",
    "tag",
    "model",
    "model_name",
    "model_size",
    "variant",
    "trial",
    "method",
    "algorithm",
    "condition",
    "arm",
    "setting",
    "prompts_per_step",
    "refresh_interval",
    "momentum",
    "kl_weight",
)
# These also change within one run, under a schedule: they count only where they are constant between restarts.
SCHEDULED_COLUMNS = ("learning_rate", "lr", "temperature")
LEARNING_RATE_COLUMNS = ("learning_rate", "lr", "optim/lr", "actor/lr", "actor_lr")
SETTING_COLUMNS: dict[str, tuple[str, ...]] = {
    "group_size": (
        "group_size",
        "num_generations",
        "rollout_n",
        "group_size_mean",
        "rollouts_per_example",
        "num_rollouts",
    ),
    "prompts_per_step": (
        "prompts_per_step",
        "num_questions",
        "num_prompts",
        "n_prompts",
        "groups_per_batch",
        "num_prompts_per_step",
    ),
    "refresh_interval": ("refresh_interval",),
    "momentum": ("momentum",),
    "kl_weight": ("kl_weight", "kl_coef", "beta"),
    "rows_averaged": ("rows_averaged",),
    "momentum_kind": ("momentum_kind",),
    "lag_schedule": ("lag_schedule",),
    "step_unit": ("step_unit",),
}
# TRL's reward_std is left out: since v0.27 it is the spread of the whole batch, not that within groups.
SERIES_COLUMNS: dict[str, tuple[str, ...]] = {
    "within_group_std": ("within_group_std", "group_reward_std"),
    "zero_variance_share": ("frac_reward_zero_std", "zero_variance_share", "zvf"),
    "entropy": (
        "entropy",
        "actor/entropy",
        "token_entropy",
        "policy/entropy",
        "policy/entropy_avg",
        "optim/entropy",
        "approx_entropy",
        "entropy/all/mean",
        "actor/entropy_loss",
        "entropy_loss",
    ),
    "kl": (
        "kl",
        "actor/kl_loss",
        "reference_kl",
        "kl_divergence",
        "kl_penalty",
        "objective/kl1_avg",
        "actor/reward_kl_penalty",
    ),
    "clip_share": (
        "clip_ratio/region_mean",
        "clip_ratio",
        "actor/pg_clipfrac",
        "actor/pg_clipfrac_higher",
        "clip_fraction",
        "ppo_clip_ratio",
        "policy/clipfrac_avg",
    ),
    "gradient_norm": ("grad_norm", "actor/grad_norm", "optim/grad_norm", "actor_grad_norm"),
    "lag": (
        "off_policy/mean",
        "num_steps_off_policy",
        "training/off_policy/trajectory_staleness/mean",
    ),
    "length": (
        "completions/mean_length",
        "completion_length",
        "response_length/mean",
        "rollout/response_length_mean",
        "avg_response_token_length",
        "mean_gen_tokens_per_sample",
        "val/sequence_lengths",
        "env/all/ac_tokens_per_turn",
    ),
}
# Facts about the batch that the traps of `traps/` are told by.
FACT_COLUMNS: dict[str, tuple[str, ...]] = {
    "epoch": ("epoch", "training/epoch", "progress/epoch"),
    "reward_std": ("reward_std", "rollout/reward_std"),
    "reward_max": ("critic/score/max", "critic/rewards/max", "max_reward", "reward_max", "reward/max"),
    "reward_min": ("critic/score/min", "critic/rewards/min", "min_reward", "reward_min", "reward/min"),
    "filtering": (
        "dynamic_filtering_pass_rate",
        "training/filter_groups/evicted_samples",
        "filtered_reward",
        "batch/filtered_prompts",
        "batch/filtered_prompts_zero",
        "batch/filtered_prompts_solved",
        "batch/filtered_prompts_nonzero",
        "batch/filtered_prompts_pct",
        "batch/percent_solved_mean",
    ),
    "updates": ("epochs_per_rollout_batch", "num_train_batches"),
    "speed": ("num_tokens", "total_samples", "env/all/total_episodes", "num_groups"),
    "metadata": ("logging_steps", "smoothing"),
}


@dataclass(frozen=True)
class Role:
    """What a column is for; of several with one name the lowest `rank` is taken."""

    name: str
    rank: int


def plain(column: str) -> str:
    """The name as names are compared here; W&B's own keep the underscore in front, for ``_step`` counts calls."""
    name = column.strip().removeprefix("train/").lower().replace("@", "_at_")
    return "_" * name.startswith("_") + re.sub(r"[^a-z0-9]+", "_", name).strip("_")


def _exact() -> dict[str, Role]:
    names: list[tuple[str, tuple[str, ...]]] = [
        ("step", STEP_COLUMNS),
        ("reward", tuple(REWARD_COLUMNS)),
        ("held-out reward", HELD_OUT_COLUMNS),
        ("kind", KIND_COLUMNS),
        *SETTING_COLUMNS.items(),
        ("learning_rate", LEARNING_RATE_COLUMNS),
        *SERIES_COLUMNS.items(),
        *FACT_COLUMNS.items(),
        ("run", RUN_COLUMNS),
    ]
    roles: dict[str, Role] = {}
    for role, columns in names:
        for rank, column in enumerate(columns):
            roles.setdefault(plain(column), Role(role, rank))
    return roles


_EXACT = _exact()
_PATTERNS = [
    (re.compile(pattern), Role(role, 100 + rank))
    for role, patterns in (
        ("held-out reward", HELD_OUT_PATTERNS),
        ("reward", REWARD_PATTERNS),
        ("reward part spread", (r"rewards_.+_std",)),
        ("reward part", (r"rewards_.+_mean", r"rewards_.+(?<!_std)", r"objective_.+_reward", r"reward_.+")),
    )
    for rank, pattern in enumerate(patterns)
]
_RUN = {plain(column): rank for rank, column in enumerate(RUN_COLUMNS)}
_SCHEDULED = {plain(column): rank for rank, column in enumerate(SCHEDULED_COLUMNS)}


@lru_cache(maxsize=20_000)
def role_of(column: str) -> Role | None:
    """The role of a column, or None where it has none."""
    name = plain(column)
    if name in _EXACT:
        return _EXACT[name]
    return next((role for pattern, role in _PATTERNS if pattern.fullmatch(name)), None)


def tells_runs_apart(column: str) -> bool:
    """Whether its values may be those of different runs."""
    return plain(column) in _RUN


def run_rank(column: str) -> int:
    """The place of a column among `RUN_COLUMNS`."""
    return _RUN[plain(column)]


def is_scheduled(column: str) -> bool:
    """Whether it may tell runs apart, but also change within one."""
    return plain(column) in _SCHEDULED
