"""What every command does first and last: 64-bit arithmetic on, our own errors reported in one line."""

from __future__ import annotations

import importlib
import threading
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


def import_ahead(*modules: str) -> None:
    """Import what is needed later on another thread, while the sampler leaves the interpreter idle."""

    def run() -> None:
        for module in modules:
            importlib.import_module(module)

    threading.Thread(target=run, daemon=True).start()


def start_jax() -> None:
    """64-bit arithmetic, and compiled programs kept in the user's cache folder (unless JAX was told of another)."""
    import jax
    from platformdirs import user_cache_path

    jax.config.update("jax_enable_x64", True)
    if jax.config.jax_compilation_cache_dir is None:  # pyright: ignore[reportAttributeAccessIssue]
        jax.config.update("jax_compilation_cache_dir", str(user_cache_path("sde-grpo") / "compiled"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
