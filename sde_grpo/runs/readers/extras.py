"""Packages that only some formats need, imported when such a file is read."""

from __future__ import annotations

import importlib
from typing import Any

from sde_grpo.errors import InputError


def import_extra(module: str, extra: str, what: str) -> Any:
    """The module; raises `InputError` that names the extra where it is not installed. `what` needs it, in words."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise InputError(
            f"{what} needs the package {package}, which is not installed; install it with pip install "
            f"'sde-grpo[{extra}]'."
        ) from error
