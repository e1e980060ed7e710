"""Traps in which rows there are: evaluations among them, thinning, averaging, filtering, epochs, scale."""

from __future__ import annotations

import numpy as np

from sde_grpo.runs.cells import listed
from sde_grpo.runs.roles import plain, role_of
from sde_grpo.runs.rows import HELD_OUT_KINDS, by_kind, held_out_rows
from sde_grpo.runs.source import safe
from sde_grpo.runs.traps.evidence import Evidence, Found

WANDB_ROWS = 500  # of run.history()
WANDB_SAMPLE = 450  # of them have a reward at least, or the log is not long enough to be sampled
STEADY = 0.9
LATE = 5  # usual gaps before the first row
_WANDB = {"_step", "_timestamp", "_runtime"}
# Written only while prompts are filtered, or of those that are left.
_FILTERED = ("filtered_reward", "scores")


def row_traps(evidence: Evidence, found: Found) -> None:
    """All of them."""
    _evaluations(evidence, found)
    _late_start(evidence, found)
    _thinned(evidence, found)
    _averaged(evidence, found)
    _filtered(evidence, found)
    _epochs(evidence, found)
    _schedule(evidence, found)
    _scale(evidence, found)
    _lag(evidence, found)


def _evaluations(evidence: Evidence, found: Found) -> None:
    rows = held_out_rows(evidence.table, evidence.choice.reward)
    for kind in by_kind(evidence.table):
        if kind.name in HELD_OUT_KINDS and kind.name != evidence.choice.kind:
            rows |= kind.rows
    if rows.any() and "eval_reward" in evidence.run.series:
        count = int(rows.sum())
        found.warnings.append(
            f"{count} evaluation {'row lies' if count == 1 else 'rows lie'} among the training rows: kept apart, as "
            "the held-out series eval_reward."
        )


def _late_start(evidence: Evidence, found: Found) -> None:
    run = evidence.run
    first, gap = run.steps[0], float(np.median(np.diff(run.steps))) if len(run.steps) > 2 else np.inf
    if first > 1 + LATE * gap:
        found.warnings.append(
            f"The log begins at step {first:g}: what came before is not in it, as in the log of a resumed run. The "
            "start of the curve is not that of the training."
        )


def _thinned(evidence: Evidence, found: Found) -> None:
    run = evidence.run
    wandb = evidence.log.format.startswith("W&B") or bool(_WANDB & evidence.table.names.keys())
    wandb |= len(run.steps) == WANDB_ROWS  # its run.history() without the columns it is known by
    if not wandb or len(run.steps) < WANDB_SAMPLE or evidence.log.logging_steps or evidence.facts.get("logging_steps"):
        return
    gaps = np.diff(run.steps)
    if np.median(gaps) > 1 or (gaps > 1).mean() > 0.3:
        found.warnings.append(
            f"{len(run.steps)} rows, {np.mean(gaps):.3g} steps apart on average: this looks like W&B's sampled "
            "history, a thinned log, which leaves rows out. Export all of them (scan_history, or the run-history "
            "Parquet file)."
        )


def _averaged(evidence: Evidence, found: Found) -> None:
    run, known = evidence.run, evidence.run.configuration
    if known.rows_averaged is not None and known.rows_averaged > 1:
        moved = "placed at the middle of its window" if (run.times != run.steps).any() else "placed at its own step"
        found.warnings.append(
            f"Each value averages {known.rows_averaged:g} sampled batches ({run.provenance['rows_averaged']}): it is "
            f"{moved}, with the noise of that many."
        )
        return
    stated = evidence.log.logging_steps or evidence.facts.get("logging_steps")
    if stated and stated > 1 and (run.times != run.steps).any():
        found.warnings.append(
            f"Each row covers {stated:g} steps (logging_steps), of which one at most sampled a batch: its value is "
            "placed at the middle of its window."
        )
    if stated or known.rows_averaged is not None or evidence.choice.kind in HELD_OUT_KINDS or len(run.steps) < 3:
        return
    role = role_of(run.reward_column)
    gaps = np.diff(run.steps)
    gap = float(np.median(gaps))
    if gap <= 1 or np.mean(gaps == gap) < STEADY or gap == known.refresh_interval:
        return
    if role is not None and role.name == "held-out reward":
        return
    found.warnings.append(
        f"The steps advance by {gap:g}, and the log does not say whether a value averages the {gap:g} steps or belongs "
        f"to the last alone, as is assumed. If it averages them, write rows_averaged = {gap:g} in the file given with "
        "--config."
    )


def _filtered(evidence: Evidence, found: Found) -> None:
    table, column = evidence.table, plain(evidence.run.reward_column)
    signs = [
        name for name in table.with_role("filtering") if (table[name].numbers != 0).any() and table[name].finite.any()
    ]
    if plain("reward/overall") == column:
        return  # EasyR1 takes it before filtering
    if column in _FILTERED or "effective" in column:
        why = f"{safe(evidence.run.reward_column)} is of the prompts that are left"
    elif "filtering" in evidence.facts:
        why = str(evidence.facts["filtering"])
    elif signs and not ({"filtered_reward"} & set(map(plain, signs)) and column == "reward"):
        why = listed(signs, 3)
    else:
        return
    found.warnings.append(
        f"Prompts are filtered (dynamic sampling: {why}), so the reward is that of prompts which are neither all "
        "solved nor all failed: it is no success rate, and seems to level off early."
    )


def _epochs(evidence: Evidence, found: Found) -> None:
    table = evidence.table
    for name in table.with_role("epoch"):
        values = table[name].numbers[evidence.training & table[name].finite]
        if not len(values):
            continue
        if values.max() > 1:
            found.warnings.append(
                f"The data was passed more than once ({safe(name)} reaches {values.max():.3g}): prompts come back "
                "after each epoch boundary, and within an epoch none is drawn twice, so the noise of neighbouring "
                "values is not quite independent."
            )
        return


def _schedule(evidence: Evidence, found: Found) -> None:
    run = evidence.run
    said = run.configuration.learning_rate is not None or any("learning rate varies" in w for w in run.warnings)
    if "schedule" in evidence.facts and not said:
        found.warnings.append(
            f"The learning rate follows a schedule ({evidence.facts['schedule']}), so a plateau may be the schedule's. "
            "It is not used, for the model wants a constant one."
        )


def _scale(evidence: Evidence, found: Found) -> None:
    run = evidence.run
    if run.configuration.reward_range is None:
        found.warnings.append(
            f"The reward is not on the scale [0, 1] (it lies in {run.reward.min():.3g} to {run.reward.max():.3g}), so "
            "no range is assumed. Give the least and greatest possible reward of one completion with --reward-range."
        )


def _lag(evidence: Evidence, found: Found) -> None:
    """Only of a lag that is not the periodic one of K_ref updates per batch."""
    series = evidence.run.series.get("lag")
    seen = float(series.values.mean()) if series is not None else 0.0
    if evidence.run.configuration.lag_schedule is not None or (seen <= 0 and "lag" not in evidence.facts):
        return
    why = f"the log reports {seen:.3g} on average" if seen > 0 else str(evidence.facts["lag"])
    found.warnings.append(
        f"Completions may be sampled by an older policy ({why}), so the lag is not the periodic one that is assumed. "
        "--lag-schedule constant models a steady one."
    )
