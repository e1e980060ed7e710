"""Options that every command which reads a log shares."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sde_grpo.runs import Run


class MomentumKind(StrEnum):
    """How the optimizer averages gradients."""

    heavy_ball = "heavy_ball"
    ema = "ema"


class LagSchedule(StrEnum):
    """How old the sampling policy is."""

    periodic = "periodic"
    constant = "constant"


_RUN = "The run"
_COLUMNS = "The log"
Logs = Annotated[
    list[Path],
    typer.Argument(
        metavar="LOG...",
        help="What the trainer left: see `sde-grpo inspect LOG` for how it is read.",
        show_default=False,
    ),
]
GroupSize = Annotated[int | None, typer.Option(help="Completions per prompt, G.", rich_help_panel=_RUN)]
Prompts = Annotated[int | None, typer.Option(help="Prompts per sampled batch, P.", rich_help_panel=_RUN)]
LearningRate = Annotated[float | None, typer.Option(help="Constant learning rate.", rich_help_panel=_RUN)]
Momentum = Annotated[float | None, typer.Option(help="Momentum; for Adam, beta1.", rich_help_panel=_RUN)]
Kind = Annotated[MomentumKind | None, typer.Option(help="heavy_ball (SGD) or ema (Adam).", rich_help_panel=_RUN)]
Refresh = Annotated[int | None, typer.Option(help="Optimizer updates per sampled batch.", rich_help_panel=_RUN)]
Schedule = Annotated[LagSchedule | None, typer.Option(help="Lag of the sampling policy.", rich_help_panel=_RUN)]
KlWeight = Annotated[float | None, typer.Option(help="Weight of the KL term.", rich_help_panel=_RUN)]
RewardRange = Annotated[
    tuple[float, float] | None,
    typer.Option(help="Least and greatest possible reward.", metavar="LOW HIGH", rich_help_panel=_RUN),
]
Config = Annotated[Path | None, typer.Option(help="TOML file with any of these settings.", rich_help_panel=_RUN)]
RewardColumn = Annotated[str | None, typer.Option(help="Column of the reward.", rich_help_panel=_COLUMNS)]
StepColumn = Annotated[str | None, typer.Option(help="Column of the step.", rich_help_panel=_COLUMNS)]
Select = Annotated[
    list[str] | None,
    typer.Option(
        help="Keep the rows where a column has a value; repeatable.", metavar="NAME=VALUE", rich_help_panel=_COLUMNS
    ),
]
Anyway = Annotated[
    bool,
    typer.Option("--anyway", help="Fit even what is refused, such as a smoothed curve.", rich_help_panel=_COLUMNS),
]


def load_run(log: Path, options: dict[str, Any], columns: dict[str, Any], config: Path | None) -> Run:
    """The run of a command: the log, then the TOML file, then the options, the later winning."""
    from sde_grpo.runs import read_run

    return read_run(log, **_chosen(options, columns, config))


def load_runs(log: Path, options: dict[str, Any], columns: dict[str, Any], config: Path | None) -> list[Run]:
    """All runs of a log, read in the same way; what forbids a fit stands in their refusals."""
    from sde_grpo.runs import read_runs

    return read_runs(log, **_chosen(options, {k: v for k, v in columns.items() if k != "anyway"}, config))


def selection(items: list[str] | None) -> dict[str, str]:
    """Column -> value of ``--select``."""
    from sde_grpo.errors import require

    select: dict[str, str] = {}
    for item in items or []:
        name, separator, value = item.partition("=")
        require(bool(separator and name), f"--select is {item!r}; it must read NAME=VALUE, for example seed=42.")
        select[name] = value
    return select


def _chosen(options: dict[str, Any], columns: dict[str, Any], config: Path | None) -> dict[str, Any]:
    from sde_grpo.runs import Configuration

    known: dict[str, Any] = {
        name: str(v) if isinstance(v, StrEnum) else v for name, v in options.items() if v is not None
    }
    select = selection(columns["select"])
    return {**columns, "select": select, "options": Configuration(**known), "config_file": config}
