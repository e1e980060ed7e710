"""Running the command line within the test process, the two output streams apart."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner, Result

from sde_grpo.cli.app import app

DATA = Path(__file__).parents[2] / "data" / "bandit"


def invoke(*arguments: str | Path) -> Result:
    """`sde-grpo` with these arguments."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def words(text: str) -> str:
    """The text in one line, for rich breaks lines at the width of the terminal."""
    return " ".join(text.split())
