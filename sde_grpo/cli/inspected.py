"""How an inspected log, or a folder of logs, is shown in the terminal."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from uniplot import plot_to_string

from sde_grpo.cli.output import number
from sde_grpo.runs import Run
from sde_grpo.runs.cells import listed
from sde_grpo.runs.inspection import Inspection, Unreadable, gaps_of, run_record, same_curves
from sde_grpo.runs.roles import SERIES_COLUMNS, SETTING_COLUMNS
from sde_grpo.runs.source import safe
from sde_grpo.runs.stacks import selection

WIDTH, HEIGHT = 60, 9
MOST_SENTENCES = 8
_BARS = "▁▂▃▄▅▆▇█"
_NEEDED = ("group_size", "prompts_per_step", "learning_rate", "momentum", "refresh_interval", "kl_weight")
_SHOWN = ("reward", "step", "held-out reward", "run", "learning_rate", *SETTING_COLUMNS, *SERIES_COLUMNS)
_UNITS = {"optimizer": "optimizer steps", "rollout": "rollout batches", None: "steps"}


def show_log(console: Console, found: Inspection, log: Path) -> None:
    """One log: its run in full, or its runs as a table, then the columns and what to do next."""
    runs = found.runs
    count = f"{len(runs)} runs" if len(runs) > 1 else "1 run"
    _say(console, f"[bold]{escape(safe(log.name))}[/bold]: {escape(found.format)}, {count}.")
    if len(runs) > 1:
        console.print(_table([("", run) for run in runs]))
        _show_common(console, runs)
    else:
        _show_run(console, runs[0])
    _show_columns(console, found)
    fit = f"sde-grpo fit {escape(shlex.quote(safe(str(log), 400)))}"
    if len(runs) > 1:
        _say(console, f"Next: choose one run, for example {fit} {escape(selection(runs[0].key))}")
    elif not runs[0].refusals:
        _say(console, f"Next: {fit}")


def show_folder(console: Console, below: list[Inspection | Unreadable], folder: Path) -> None:
    """A table of all runs, then the files that hold end points only, or could not be read, and runs that agree."""
    logs = [one for one in below if isinstance(one, Inspection)]
    curves = [one for one in logs if any(len(run.reward) > 1 for run in one.runs)]
    named = [(_below(one.path, folder), run) for one in curves for run in one.runs]
    console.print(_table(named))
    _say(
        console,
        f"{_counted(len(named), 'run')} in {_counted(len(curves), 'log')} below {escape(safe(str(folder), 200))}.",
    )
    for one in logs:
        if one not in curves:
            ends = f"{_counted(len(one.runs), 'run')} with one value each, end points and no curves."
            _say(console, f"{escape(_below(one.path, folder))}: {ends}")
    for one in below:
        if isinstance(one, Unreadable):
            _say(console, f"[yellow]not read:[/yellow] {escape(one.reason)}")
    for first, second in same_curves([(f"{name} {run.label}".strip(), run) for name, run in named]):
        _say(
            console,
            f"[yellow]warning:[/yellow] {escape(first)} and {escape(second)} hold the same rewards, step for step: do "
            "not count them as two runs.",
        )


def _show_run(console: Console, run: Run) -> None:
    record, gaps = run_record(run), gaps_of(run)
    missing = _counted(len(gaps), "gap")
    if gaps:
        widest = max(gaps, key=lambda gap: gap[1] - gap[0])
        missing += f" (the widest from {widest[0]:g} to {widest[1]:g})"
    _say(
        console,
        f"{_counted(len(run.reward), 'point')}, {_UNITS[run.configuration.step_unit]} {run.steps[0]:g} to "
        f"{run.steps[-1]:g}; {missing}, {_counted(run.restarts, 'restart')}.",
    )
    low, high = record["reward_range"]
    noise = "" if record["step_noise"] is None else f", noise from step to step {number(record['step_noise'])}"
    _say(
        console,
        escape(
            f"Reward: {safe(run.reward_column)}, {number(low)} to {number(high)}; at first "
            f"{number(record['reward_start'])}, at last {number(record['reward_end'])}{noise}."
        ),
    )
    if len(run.reward) > 1:
        console.print(_picture(run), highlight=False, markup=False)
    _show_configuration(console, run)
    for reason in run.refusals:
        _say(console, f"[red]cannot be fitted:[/red] {escape(reason)}")
    for warning in run.warnings:
        _say(console, f"[yellow]warning:[/yellow] {escape(warning)}")


def _picture(run: Run) -> str:
    low, high = _scale(run)
    pad = 0.02 * (high - low)
    return plot_to_string(
        xs=run.times,
        ys=run.reward,
        width=WIDTH,
        height=HEIGHT,
        color=False,
        character_set="braille",
        x_gridlines=[],
        y_gridlines=[],
        y_min=low - pad,
        y_max=high + pad,
    )


def _show_configuration(console: Console, run: Run) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("setting", "value", "from"):
        table.add_column(heading)
    for name, value in run.configuration.known().items():
        shown = f"{value[0]:g} to {value[1]:g}" if isinstance(value, tuple) else str(value)
        shown = f"{value:g}" if isinstance(value, float) else shown
        table.add_row(name, shown, escape(run.provenance.get(name, "")))
    if table.row_count:
        console.print(table)
    unknown = [name for name in _NEEDED if getattr(run.configuration, name) is None]
    if unknown:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in unknown)
        _say(console, f"Not known: {', '.join(unknown)}. A fit can do without; if you know them, give {options}.")


def _show_columns(console: Console, found: Inspection) -> None:
    roles: dict[str, list[str]] = {}
    for name, role in found.columns.items():
        if role in _SHOWN:
            roles.setdefault(str(role), []).append(name)
    used = "; ".join(f"{role}: {listed(roles[role], 3)}" for role in _SHOWN if role in roles)
    rest = len(found.columns) - sum(map(len, roles.values()))
    _say(console, f"Columns: {escape(used)}" + (f"; {rest} others." if rest else "."))


def _show_common(console: Console, runs: list[Run]) -> None:
    sentences = Counter(sentence for run in runs for sentence in (*run.refusals, *run.warnings))
    for sentence, count in sentences.most_common(MOST_SENTENCES):
        _say(console, f"[yellow]warning[/yellow] ({count} of {len(runs)} runs): {escape(sentence)}")


def _table(named: list[tuple[str, Run]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    with_logs = any(name for name, _ in named)
    with_labels = any(run.label for _, run in named)
    headings = [*(["log"] if with_logs else []), *(["run"] if with_labels else [])]
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for heading in ("points", "steps", "curve", "first", "last", "G", "P", "rate", "K", "notes"):
        table.add_column(heading, justify="left" if heading in ("steps", "curve", "notes") else "right", no_wrap=True)
    before = None
    for name, run in named:
        record, known = run_record(run), run.configuration
        notes = "[red]no fit[/red]" if run.refusals else _counted(len(run.warnings), "warning") if run.warnings else ""
        settings = (known.group_size, known.prompts_per_step, known.learning_rate, known.refresh_interval)
        table.add_row(
            *([escape(name) if name != before else ""] if with_logs else []),
            *([escape(run.label)] if with_labels else []),
            str(len(run.reward)),
            f"{run.steps[0]:g}-{run.steps[-1]:g}",
            _sparkline(run),
            number(record["reward_start"]),
            number(record["reward_end"]),
            *("" if value is None else f"{value:g}" for value in settings),
            notes,
        )
        before = name
    return table


def _sparkline(run: Run) -> str:
    """The curve in eight characters, each the mean of an eighth of the points."""
    low, high = _scale(run)
    means = [float(part.mean()) for part in np.array_split(run.reward, min(8, len(run.reward)))]
    return "".join(_BARS[min(7, int(8 * (mean - low) / (high - low)))] for mean in means)


def _scale(run: Run) -> tuple[float, float]:
    low, high = float(run.reward.min()), float(run.reward.max())
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return low, max(high, low + 1e-9 * max(1.0, abs(low)))


def _below(path: Path, folder: Path) -> str:
    return safe(str(path.relative_to(folder)) if path != folder else path.name, 200)


def _counted(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)
