"""`sde-grpo inspect`: what is in a log or below a folder, before anything is fitted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from sde_grpo.cli import options as o
from sde_grpo.cli.reporting import reporting


def inspect(
    log: Annotated[
        Path,
        typer.Argument(metavar="LOG|DIR", help="A log, or a folder to look for logs in.", show_default=False),
    ],
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON alone.")] = False,
    config: o.Config = None,
    reward_column: o.RewardColumn = None,
    step_column: o.StepColumn = None,
    select: o.Select = None,
) -> None:
    """Show what a log holds: format, runs, columns, configuration with its origin, gaps, restarts, warnings."""
    with reporting():
        from sde_grpo.cli.inspected import show_folder, show_log
        from sde_grpo.cli.output import to_json
        from sde_grpo.errors import InputError
        from sde_grpo.runs.inspection import folder_record, inspect_folder, inspect_log, log_record

        chosen: dict[str, Any] = {"reward_column": reward_column, "step_column": step_column, "config_file": config}
        if not log.is_dir():
            found = inspect_log(log, select=o.selection(select), **chosen)
            if json:
                typer.echo(to_json(log_record(found)), nl=False)
            else:
                show_log(Console(), found, log)
            return
        if any((reward_column, step_column, config, select)):
            raise InputError(f"{log.name} is a folder: give --config, --select and columns with one log.")
        below = inspect_folder(log)
        if json:
            typer.echo(to_json(folder_record(log, below)), nl=False)
        else:
            show_folder(Console(), below, log)
