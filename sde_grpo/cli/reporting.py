"""What every command does first and last: 64-bit arithmetic on, our own errors reported in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.markup import escape

from sde_grpo.errors import InputError


@contextmanager
def reporting() -> Iterator[None]:
    """Turn our own errors into one message on standard error and exit code 2."""
    try:
        yield
    except InputError as error:
        Console(stderr=True, soft_wrap=True).print(f"[red]error:[/red] {escape(str(error))}", highlight=False)
        raise typer.Exit(2) from None


def float64() -> None:
    import jax

    jax.config.update("jax_enable_x64", True)
