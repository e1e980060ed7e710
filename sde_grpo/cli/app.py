"""The commands: each reads its options, calls the package, and prints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from sde_grpo.cli import options as o
from sde_grpo.errors import InputError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Bayesian modelling of GRPO reward curves: where a run levels off, how fast, and whether the model "
    "describes it.",
)


class LinkName(StrEnum):
    """Coordinate in which the oscillator lives."""

    identity = "identity"
    logit = "logit"


class DynamicsName(StrEnum):
    """What is unknown of the dynamics."""

    free = "free"
    mechanistic = "mechanistic"


@contextmanager
def _reporting() -> Iterator[None]:
    """Turn our own errors into one message on standard error and exit code 2."""
    try:
        yield
    except InputError as error:
        Console(stderr=True, soft_wrap=True).print(f"[red]error:[/red] {escape(str(error))}", highlight=False)
        raise typer.Exit(2) from None


def _float64() -> None:
    import jax

    jax.config.update("jax_enable_x64", True)


@app.callback()
def _root() -> None:
    """Keeps `fit` a command of its own when it is the only one."""


@app.command()
def fit(
    log: o.Log,
    out: Annotated[Path | None, typer.Option(help="Folder for fit.nc, summary.json, bands.png, checks.png.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same fit.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print summary.json alone on standard output.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the fit in an existing folder.")] = False,
    link: Annotated[LinkName | None, typer.Option(help="Default: logit where the reward has a range.")] = None,
    dynamics: Annotated[
        DynamicsName | None,
        typer.Option(help="Default: mechanistic where learning rate, momentum and refresh interval are known."),
    ] = None,
    group_size: o.GroupSize = None,
    prompts_per_step: o.Prompts = None,
    learning_rate: o.LearningRate = None,
    momentum: o.Momentum = None,
    momentum_kind: o.Kind = None,
    refresh_interval: o.Refresh = None,
    lag_schedule: o.Schedule = None,
    kl_weight: o.KlWeight = None,
    reward_range: o.RewardRange = None,
    config: o.Config = None,
    reward_column: o.RewardColumn = None,
    step_column: o.StepColumn = None,
    select: o.Select = None,
) -> None:
    """Fit one reward trace: plateau, time scale, whether it still rises, and whether the model describes it."""
    settings = {
        "group_size": group_size,
        "prompts_per_step": prompts_per_step,
        "learning_rate": learning_rate,
        "momentum": momentum,
        "momentum_kind": momentum_kind,
        "refresh_interval": refresh_interval,
        "lag_schedule": lag_schedule,
        "kl_weight": kl_weight,
        "reward_range": reward_range,
    }
    columns = {"reward_column": reward_column, "step_column": step_column, "select": select}
    with _reporting():
        from sde_grpo.cli.output import check_folder, print_report, to_json, write_results

        if out is not None:
            check_folder(out, force)
        run = o.load_run(log, settings, columns, config)
        _float64()
        from sde_grpo.fit import fit_run

        fitted = fit_run(
            run,
            link=None if link is None else link.value,
            dynamics=None if dynamics is None else dynamics.value,
            seed=seed,
            progress=True,
        )
        summary = fitted.summary()
        if out is not None:
            write_results(out, fitted, summary)
        if json:
            typer.echo(to_json(summary), nl=False)
        print_report(Console(stderr=json), summary)
        if out is not None:
            Console(stderr=json, soft_wrap=True).print(
                f"Written to {escape(str(out))}: fit.nc, summary.json, bands.png, checks.png.", highlight=False
            )


@app.command()
def check(
    file: Annotated[
        Path, typer.Argument(metavar="FIT.nc", help="A fit.nc of `sde-grpo fit --out`.", show_default=False)
    ],
    json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON alone.")] = False,
) -> None:
    """Posterior predictive checks of a fit: which features of the data the model does not reproduce."""
    with _reporting():
        _float64()
        from rich.table import Table

        from sde_grpo.checks import check_fit, rows_as_records
        from sde_grpo.cli.output import number, to_json
        from sde_grpo.fit import Fit

        report = check_fit(Fit.load(file))
        if json:
            typer.echo(to_json({"checks": rows_as_records(report), "verdict": list(report.messages)}), nl=False)
            return
        console = Console()
        for message in report.messages:
            console.print(escape(message), highlight=False)
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in ("statistic", "observed", "replicated 5 %", "95 %", "p"):
            table.add_column(name, justify="left" if name == "statistic" else "right")
        for row in report.rows:
            mark = "[red]" if row.flagged else ""
            table.add_row(
                f"{mark}{row.statistic}", number(row.observed), number(row.q05), number(row.q95), f"{row.p_value:.2g}"
            )
        console.print(table)
