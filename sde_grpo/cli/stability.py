"""`sde-grpo stability`: is this learning rate safe at this many updates per rollout, and by which factor."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from sde_grpo.cli import options as o
from sde_grpo.cli.reporting import reporting, start_jax
from sde_grpo.errors import InputError, require

if TYPE_CHECKING:
    from sde_grpo.stability import StabilityReport

_NEEDED = ("learning_rate", "momentum", "refresh_interval")
_MEANING = {
    "stiffness_per_step": "rate x curvature",
    "critical_stiffness": "where it is unstable",
    "critical_stiffness_paper": "the paper's limit",
    "ringing_stiffness": "where it rings",
    "margin": "room to instability",
    "ringing_margin": "room to ringing",
    "critical_learning_rate": "first unstable rate",
    "critical_refresh_interval": "longest stable one",
    "spectral_radius": "left after one step",
    "period": "of the ringing, steps",
    "decay_per_cycle": "left after one period",
}


def stability(
    learning_rate: o.LearningRate = None,
    momentum: o.Momentum = None,
    momentum_kind: o.Kind = None,
    refresh_interval: o.Refresh = None,
    lag_schedule: o.Schedule = None,
    stale_fraction: Annotated[
        float,
        typer.Option(help="Share of the stiffness felt through the sampling policy.", rich_help_panel="The run"),
    ] = 1.0,
    curvature: Annotated[
        float | None, typer.Option(help="Curvature at the plateau, per unit of learning rate.")
    ] = None,
    fit: Annotated[
        Path | None,
        typer.Option(metavar="FIT.nc", help="Take curvature, and settings not given, from this fit of `sde-grpo fit`."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="PICTURE", help="Picture of the stability region (.png).")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing picture.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON alone.")] = False,
) -> None:
    """Is a learning rate safe at this many updates per rollout: does the run settle, ring or diverge, and how near."""
    given = {
        "learning_rate": learning_rate,
        "momentum": momentum,
        "momentum_kind": momentum_kind,
        "refresh_interval": refresh_interval,
        "lag_schedule": lag_schedule,
    }
    settings: dict[str, Any] = {n: str(v) if isinstance(v, StrEnum) else v for n, v in given.items() if v is not None}
    with reporting():
        require(
            (curvature is None) != (fit is None),
            "Give either --curvature X, where it is known, or --fit fit.nc of `sde-grpo fit` with a learning rate.",
        )
        if out is not None:
            _check_picture(out, force)
        start_jax()
        from sde_grpo.cli.output import to_json
        from sde_grpo.stability import as_record, verdict

        report, lines = _report(settings | {"stale_fraction": stale_fraction}, curvature, fit)
        lines += verdict(report)
        record = as_record(report)
        if out is not None:
            _write_picture(out, report)
        if json:
            typer.echo(to_json(record | {"verdict": lines}), nl=False)
            return
        _print(Console(), lines, record)
        if out is not None:
            Console(soft_wrap=True).print(f"Written to {escape(str(out))}.", highlight=False)


def _report(settings: dict[str, Any], curvature: float | None, file: Path | None) -> tuple[StabilityReport, list[str]]:
    """The report, and what a reader must know of the fit first."""
    from sde_grpo.oscillator import UpdateRule
    from sde_grpo.stability import assess_stability as judge
    from sde_grpo.stability import curvature_of_fit, rule_of_fit

    if file is None:
        missing = [f"--{name.replace('_', '-')}" for name in _NEEDED if name not in settings]
        require(not missing, f"A known curvature needs {', '.join(missing)} too: stability is a matter of both.")
        assert curvature is not None
        return judge(UpdateRule(**settings), curvature), []

    from sde_grpo.fit import Fit

    fitted = Fit.load(file)
    draws = curvature_of_fit(fitted, settings["stale_fraction"])
    lines = [] if fitted.record["sampler"]["converged"] else ["NOT CONVERGED: this fit must not be used."]
    return judge(rule_of_fit(fitted, **settings), draws), lines


def _print(console: Console, lines: list[str], record: dict[str, Any]) -> None:
    from rich.table import Table

    from sde_grpo.cli.output import number
    from sde_grpo.stability import REFRESH_LIMIT

    for line in lines:
        console.print(escape(line), highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    draws = "probability_unstable" in record
    for name in ("quantity", *(("median", "5 %", "95 %") if draws else ("value",)), "meaning"):
        table.add_column(
            name, justify="left" if name in ("quantity", "meaning") else "right", no_wrap=name == "quantity"
        )
    for name, meaning in _MEANING.items():
        if name in ("period", "decay_per_cycle") and record["regime"] == "overdamped":
            continue
        value, absent = record[name], f"> {REFRESH_LIMIT}" if name == "critical_refresh_interval" else "none"
        cell = lambda value, absent=absent: absent if value is None else number(value)  # noqa: E731
        if not draws:
            table.add_row(name, cell(value), meaning)
        elif isinstance(value, dict):
            table.add_row(name, *(cell(value[q]) for q in ("q50", "q05", "q95")), meaning)
        else:
            table.add_row(name, cell(value), "", "", meaning)
    console.print(table)
    if draws:
        console.print(
            f"Probability of instability {record['probability_unstable']:.2g}, "
            f"of ringing {record['probability_ringing']:.2g}.",
            highlight=False,
        )


def _check_picture(path: Path, force: bool) -> None:
    """Refuse, before any work is done, a picture that exists or cannot be written."""
    require(path.suffix == ".png", f"--out {path} must end in .png.")
    require(not path.is_dir(), f"--out {path} is a folder; name a file.")
    require(not path.exists() or force, f"--out {path} exists; add --force to replace it, or name another file.")
    folder = path.absolute().parent
    require(
        folder.is_dir(), f"--out {path} cannot be written, for {folder} is no folder; make it, or name another file."
    )
    require(
        os.access(folder, os.W_OK | os.X_OK),
        f"--out {path} cannot be written: no permission to write in {folder}; name another file.",
    )


def _write_picture(path: Path, report: StabilityReport) -> None:
    from sde_grpo.files import write_atomically
    from sde_grpo.plots.stability import plot_stability

    try:
        write_atomically(path, lambda p: plot_stability(report).savefig(p, dpi=130))
    except OSError as error:
        raise InputError(f"--out {path} cannot be written ({error.strerror}); name another file.") from error
