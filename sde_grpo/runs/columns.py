"""Which column holds the reward, and which the step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sde_grpo.errors import InputError, require
from sde_grpo.runs.cells import Row, columns_of, has_value, listed, number_or_none
from sde_grpo.runs.rows import Kind

# Column, who writes it; the first one present is taken. Mean reward of the sampled batch in every case.
REWARD_COLUMNS: dict[str, str] = {
    "reward": "TRL, unsloth, ms-swift; NeMo-RL",
    "train/reward": "the same through W&B or TensorBoard",
    "critic/rewards/mean": "verl, after the KL term in the reward",
    "critic_rewards_mean": "the same, exported",
    "critic/score/mean": "verl and EasyR1, without the KL term",
    "critic_score_mean": "the same, exported",
    "env/all/reward/total": "tinker-cookbook",
    "reward/mean": "tinker, prime-rl in 2025",
    "reward_mean": "own loops",
    "mean_reward": "own loops",
    "rollout/reward_mean": "OpenRLHF",
    "scores": "open-instruct (of the prompts that are left after filtering)",
    "reward/overall": "EasyR1",
    "reward/total": "own loops",
}
STEP_COLUMNS: tuple[str, ...] = (
    "step",
    "global_step",
    "training/global_step",
    "training_global_step",
    "train/global_step",
    "training_step",
    "grpo_step",
    "global_step/max_steps",
    "iteration",
    "optimizer_step",
)
REWARD_WORDS = ("reward", "score", "acc")


@dataclass(frozen=True)
class Choice:
    """The columns to read: `step` is None where the rows have to be numbered. `rows` are those of the chosen kind."""

    reward: str
    step: str | None
    rows: list[Row]
    kind: str | None
    warnings: tuple[str, ...]


def choose(kinds: Sequence[Kind], source: str, reward_column: str | None, step_column: str | None) -> Choice:
    """The reward column, the kind of row that holds it, and the step column.

    Kinds are tried in order; a given name wins over the tables above. Raises `InputError` where a given column does
    not exist or no column is recognised.
    """
    everything = [row for kind in kinds for row in kind.rows]
    columns = columns_of(everything)
    for given, option in ((reward_column, "--reward-column"), (step_column, "--step-column")):
        require(
            given is None or given in columns,
            f"{source}: there is no column {given!r} ({option}); the columns are {listed(columns, 60)}.",
        )
    kind, present = _first_with_reward(kinds, reward_column)
    if kind is None:
        raise InputError(_no_reward(everything, columns, source, reward_column))
    reward = present[0]
    warnings = []
    if len(present) > 1:
        warnings.append(_several(kind.rows, present))
    if kind.held_out:
        warnings.append(
            f"Only rows of kind {kind.name} hold {reward}: this is the held-out curve, not the training reward."
        )
    rewarded = [row for row in kind.rows if reward in row.cells]
    step = step_column or next((c for c in STEP_COLUMNS if any(has_value(row, c) for row in rewarded)), None)
    if step is None:
        warnings.append(
            "No step column was found, so the rows are numbered from 1; if there is one, name it with --step-column."
        )
    return Choice(reward, step, kind.rows, kind.name, tuple(warnings))


def _first_with_reward(kinds: Sequence[Kind], given: str | None) -> tuple[Kind | None, list[str]]:
    candidates = (given,) if given is not None else tuple(REWARD_COLUMNS)
    for kind in kinds:
        present = [column for column in candidates if any(has_value(row, column) for row in kind.rows)]
        if present:
            return kind, present
    return None, []


def _several(rows: Sequence[Row], present: list[str]) -> str:
    taken, *others = present
    agree = all(row.cells.get(other) == row.cells.get(taken) for other in others for row in rows if taken in row.cells)
    same = " They hold the same values." if agree else ""
    return f"The reward is read from {taken}; {listed(others)} could also be meant (--reward-column).{same}"


def _no_reward(rows: Sequence[Row], columns: list[str], source: str, given: str | None) -> str:
    if given is not None:
        return f"{source}: the column {given!r} holds no value; name another with --reward-column."
    numeric = [c for c in columns if any(number_or_none(row.cells.get(c)) is not None for row in rows)]
    alike = [column for column in numeric if any(word in column.lower() for word in REWARD_WORDS)]
    found = f"columns that look like one are {listed(alike)}" if alike else f"the numeric columns are {listed(numeric)}"
    return (
        f"{source}: no reward column was recognised (known names are {listed(list(REWARD_COLUMNS))}); {found}. "
        "Name the right one with --reward-column."
    )
