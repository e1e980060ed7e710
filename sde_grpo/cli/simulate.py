"""`sde-grpo simulate`: a trace with a known answer, in the form that `sde-grpo fit` reads."""

from __future__ import annotations

import os
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from sde_grpo.cli import options as o
from sde_grpo.cli.reporting import reporting, start_jax

if TYPE_CHECKING:
    from sde_grpo.sde.trace import Truth

_LAW = "The law of the policy"


class ModelName(StrEnum):
    """Which law the policy follows."""

    oscillator = "oscillator"
    kl_anchored = "kl-anchored"
    kl_free = "kl-free"


def simulate(
    model: Annotated[
        ModelName, typer.Option(help="The linear oscillator, or the softmax bandit with or without KL term.")
    ] = ModelName.oscillator,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv|DIR", help="One table, or a folder with one file a run. Default: standard output."
        ),
    ] = None,
    steps: Annotated[int, typer.Option(help="Optimizer steps.")] = 300,
    runs: Annotated[int, typer.Option(help="Number of independent runs.")] = 1,
    seed: Annotated[int, typer.Option(help="Same seed, same traces.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print settings and truth as JSON alone; needs --out.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace what --out names.")] = False,
    start: Annotated[
        float | None,
        typer.Option(help="Expected reward at step 1. Default: drawn about the plateau (oscillator), or --p-ref."),
    ] = None,
    learning_rate: o.LearningRate = None,
    momentum: o.Momentum = 0.0,
    momentum_kind: o.Kind = o.MomentumKind.heavy_ball,
    refresh_interval: o.Refresh = 1,
    lag_schedule: o.Schedule = o.LagSchedule.periodic,
    group_size: o.GroupSize = 8,
    prompts_per_step: o.Prompts = 32,
    kl_weight: o.KlWeight = None,
    curvature: Annotated[
        float | None, typer.Option(help="Stiffness per unit of learning rate (oscillator).", rich_help_panel=_LAW)
    ] = None,
    fixed_point: Annotated[
        float | None, typer.Option(help="Plateau of the reward (oscillator).", rich_help_panel=_LAW)
    ] = None,
    stationary_sd: Annotated[
        float | None,
        typer.Option(
            help="Wander of the reward about the plateau (oscillator). Default: that of sampled 0/1 groups.",
            rich_help_panel=_LAW,
        ),
    ] = None,
    gradient_noise: Annotated[
        float | None,
        typer.Option(
            help="Instead of the above: sd of a step's gradient at group size 1, falling as its square root.",
            rich_help_panel=_LAW,
        ),
    ] = None,
    p_ref: Annotated[
        float | None, typer.Option(help="Reward of the reference policy (bandit). Default: 0.5.", rich_help_panel=_LAW)
    ] = None,
) -> None:
    """Simulate reward traces whose plateau, time scale and fluctuation are known; `sde-grpo fit` reads them back."""
    given: dict[str, Any] = {
        "model": model,
        "steps": steps,
        "start": start,
        "learning_rate": learning_rate,
        "momentum": momentum,
        "momentum_kind": momentum_kind,
        "refresh_interval": refresh_interval,
        "lag_schedule": lag_schedule,
        "group_size": group_size,
        "prompts_per_step": prompts_per_step,
        "kl_weight": kl_weight,
        "curvature": curvature,
        "fixed_point": fixed_point,
        "stationary_sd": stationary_sd,
        "gradient_noise": gradient_noise,
        "p_ref": p_ref,
    }
    with reporting():
        from sde_grpo.errors import require

        require(learning_rate is not None, "learning_rate is missing; give --learning-rate.")
        require(out is not None or not json, "--json prints where the trace goes without --out; add --out.")
        if out is not None:
            _check_out(out, force)
        start_jax()
        from dataclasses import asdict

        from sde_grpo.cli.output import to_json
        from sde_grpo.sde.log import as_csv
        from sde_grpo.sde.trace import TraceSettings, simulate_traces

        values: dict[str, Any] = {name: str(v) if isinstance(v, StrEnum) else v for name, v in given.items()}
        settings = TraceSettings(**values)
        traces = simulate_traces(settings, runs=runs, seed=seed)
        if out is None:
            typer.echo(as_csv(settings, traces, range(runs)), nl=False)
            files = []
        elif out.suffix == ".csv":
            files = _write({out: as_csv(settings, traces, range(runs))})
        else:
            files = _write({out / f"run-{run}.csv": as_csv(settings, traces, [run]) for run in range(runs)})
            for stale in set(out.glob("run-*.csv")) - set(files):
                stale.unlink()
        if json:
            known = {name: value for name, value in asdict(settings).items() if value is not None}
            record = {"settings": known | {"seed": seed, "runs": runs}, "truth": asdict(traces.truth)}
            typer.echo(to_json(record | {"files": [str(file) for file in files]}), nl=False)
            return
        console = Console(stderr=out is None, soft_wrap=True)
        rows = f"{len(traces.steps)} rows" + (f" in each of {runs} runs" if runs > 1 else "")
        console.print(escape(f"{rows} written to {out or 'standard output'}."), highlight=False)
        console.print(escape(_describe(traces.truth)), highlight=False)


def _describe(truth: Truth) -> str:
    from sde_grpo.cli.output import number

    if truth.curvature is None:
        return "Truth: no plateau below 1, which is approached as a power of time; no relaxation time."
    level = f"Truth: plateau {number(truth.fixed_point)}"
    if truth.relaxation_time is None or truth.stationary_sd is None:
        return f"{level}, {truth.regime}: no relaxation time and no stationary sd."
    return (
        f"{level}, relaxation time {number(truth.relaxation_time)} steps ({truth.regime}), "
        f"stationary sd {number(truth.stationary_sd)}."
    )


def _check_out(out: Path, force: bool) -> None:
    """Refuse, before any work is done, what exists already or is of the wrong kind."""
    from sde_grpo.errors import require

    table = out.suffix == ".csv"
    require(not (table and out.is_dir()), f"--out {out} is a folder; name a file, or a folder not ending in .csv.")
    require(table or not out.is_file(), f"--out {out} is a file; name a file ending in .csv, or a folder.")
    require(force or not out.exists(), f"--out {out} exists; add --force to replace it, or give another name.")


def _write(texts: dict[Path, str]) -> list[Path]:
    """Each file whole or not at all: written beside its place, then moved there."""
    from sde_grpo.errors import InputError

    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, stage = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
            try:
                with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                    file.write(text)
                Path(stage).chmod(0o644)
                Path(stage).replace(path)
            finally:
                Path(stage).unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"--out {path} cannot be written ({error.strerror}); give another name.") from error
    return list(texts)
