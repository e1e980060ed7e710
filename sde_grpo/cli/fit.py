"""`sde-grpo fit`: fit one log and say where it will level off."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from sde_grpo.cli import options as o
from sde_grpo.cli.reporting import import_ahead, reporting, start_jax
from sde_grpo.errors import require


class LinkName(StrEnum):
    """Coordinate in which the oscillator lives."""

    identity = "identity"
    logit = "logit"


class EngineChoice(StrEnum):
    """How the posterior is sampled."""

    auto = "auto"
    smc = "smc"
    nuts = "nuts"
    laplace = "laplace"


class DynamicsName(StrEnum):
    """What is unknown of the dynamics."""

    free = "free"
    mechanistic = "mechanistic"


def fit(
    logs: o.Logs,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for fit.nc, summary.json, bands.png, checks.png; of several logs, one folder each."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same fit.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print summary.json alone on standard output.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the fit in an existing folder.")] = False,
    link: Annotated[LinkName | None, typer.Option(help="Default: logit where the reward has a range.")] = None,
    dynamics: Annotated[
        DynamicsName | None,
        typer.Option(help="Default: mechanistic where learning rate, momentum and refresh interval are known."),
    ] = None,
    engine: Annotated[
        EngineChoice, typer.Option(help="auto: smc, and nuts where smc has not converged; laplace: a quick look.")
    ] = EngineChoice.auto,
    dask: Annotated[
        str | None,
        typer.Option(
            help="Of several logs: fit on the Dask cluster at this address; 'local' starts one here.",
            metavar="ADDRESS",
        ),
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
    anyway: o.Anyway = False,
) -> None:
    """Fit reward traces: plateau, time scale, whether they still rise, and whether the model describes them."""
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
    columns = {"reward_column": reward_column, "step_column": step_column, "select": select, "anyway": anyway}
    choices: dict[str, Any] = {
        "link": None if link is None else link.value,
        "dynamics": None if dynamics is None else dynamics.value,
        "engine": engine.value,
        "seed": seed,
    }
    if len(logs) > 1:
        _fit_many(logs, out, force, json, settings, columns, config, choices, dask)
        return
    with reporting():
        from sde_grpo.cli.output import check_folder, files_of, print_report, to_json, write_files

        if out is not None:
            check_folder(out, force)
        run = o.load_run(logs[0], settings, columns, config)
        start_jax()
        import_ahead("arviz_stats.base.array", "xarray", "scipy.stats", "sde_grpo.answers")
        from sde_grpo.fit import fit_run

        fitted = fit_run(run, **choices, progress=True)
        summary = fitted.summary()
        print_report(Console(stderr=json), summary)  # at once: pictures and files take as long again
        if out is not None:
            write_files(out, files_of(fitted, summary))
        if json:
            typer.echo(to_json(summary), nl=False)
        if out is not None:
            Console(stderr=json, soft_wrap=True).print(
                f"Written to {escape(str(out))}: fit.nc, summary.json, bands.png, checks.png.", highlight=False
            )


def _fit_many(
    logs: list[Path],
    out: Path | None,
    force: bool,
    json: bool,
    settings: dict[str, Any],
    columns: dict[str, Any],
    config: Path | None,
    choices: dict[str, Any],
    dask: str | None,
) -> None:
    with reporting():
        require(out is not None, f"{len(logs)} logs are given; name a folder for their fits with --out.")
        assert out is not None
        from sde_grpo.cli.output import check_folder, to_json

        check_folder(out, force=True)  # the folder may be there: it is what a repeated call finishes
        start_jax()
        from sde_grpo.cli.many import fit_many

        written = config.read_bytes().hex() if config is not None and config.is_file() else None
        results = fit_many(
            logs,
            out,
            lambda log: o.load_runs(log, settings, columns, config),
            choices,
            settings | columns | {"config": written},
            dask=dask,
            force=force,
            anyway=columns["anyway"],
            console=Console(stderr=json),
        )
        if json:
            typer.echo(to_json({"runs": results}), nl=False)
        Console(stderr=json, soft_wrap=True).print(
            f"Written to {escape(str(out))}: runs.csv and a folder for each run.", highlight=False
        )
