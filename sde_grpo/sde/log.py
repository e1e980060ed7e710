"""Traces as text in the project's own CSV form, which describes itself: the settings stand in every row."""

from __future__ import annotations

from collections.abc import Sequence

from sde_grpo.sde.trace import Traces, TraceSettings

_SETTINGS = (
    "group_size",
    "prompts_per_step",
    "learning_rate",
    "momentum",
    "refresh_interval",
    "kl_weight",
    "momentum_kind",
    "lag_schedule",
)


def as_csv(settings: TraceSettings, traces: Traces, runs: Sequence[int]) -> str:
    """`step, reward`, then the settings; with several runs, a column `run` (from 0) in front, one run after the other.

    Where a batch serves several updates the step column is called `optimizer_step`, which says what a step is. A
    setting that the model does not have is left out.
    """
    known = {name: getattr(settings, name) for name in _SETTINGS if getattr(settings, name) is not None}
    step = "step" if settings.refresh_interval == 1 else "optimizer_step"
    several = len(runs) > 1
    lines = [",".join([*(["run"] if several else []), step, "reward", *known])]
    constant = ",".join(str(value) for value in known.values())
    for run in runs:
        first = f"{run}," if several else ""
        rows = zip(traces.steps, traces.reward[run], strict=True)
        lines += [f"{first}{at},{reward:.6f},{constant}" for at, reward in rows]
    return "\n".join([*lines, ""])
