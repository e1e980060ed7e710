"""The commands, one module each: a command reads its options, calls the package, and prints."""

from __future__ import annotations

import typer

from sde_grpo.cli.check import check
from sde_grpo.cli.fit import fit
from sde_grpo.cli.inspect import inspect
from sde_grpo.cli.simulate import simulate
from sde_grpo.cli.stability import stability

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Bayesian modelling of GRPO reward curves: where a run levels off, how fast, and whether the model "
    "describes it.",
)

for command in (inspect, fit, check, stability, simulate):
    app.command()(command)
