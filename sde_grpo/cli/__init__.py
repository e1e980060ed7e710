"""The command line. Nothing heavy is imported before a command runs, so that `--help` answers at once."""

from __future__ import annotations


def main() -> None:
    """Entry point of `sde-grpo`."""
    from sde_grpo.cli.app import app

    app()


__all__ = ["main"]
