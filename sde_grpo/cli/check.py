"""`sde-grpo check`: which features of the data a fit does not reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from sde_grpo.cli.reporting import reporting, start_jax


def check(
    file: Annotated[
        Path, typer.Argument(metavar="FIT.nc", help="A fit.nc of `sde-grpo fit --out`.", show_default=False)
    ],
    json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON alone.")] = False,
) -> None:
    """Posterior predictive checks of a fit: which features of the data the model does not reproduce."""
    with reporting():
        start_jax()
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
