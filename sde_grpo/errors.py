"""The package's own errors: each says what was given, what is allowed and what to do next."""

from __future__ import annotations


class InputError(ValueError):
    """The user's input (a log, an option, a file, an argument) cannot be used as it stands."""


class NothingToFitError(InputError):
    """The log was read, but holds no trajectory that a model could be fitted to."""


def require(condition: bool, message: str) -> None:
    """Raise :class:`InputError` with ``message`` unless ``condition`` holds."""
    if not condition:
        raise InputError(message)
