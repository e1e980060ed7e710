"""From a path to an open regular file, or to an error that says what lies there instead."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

from sde_grpo.errors import InputError
from sde_grpo.runs.source.safe import safe

KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# Without O_NONBLOCK, opening a pipe would wait for a writer, for ever.
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def is_folder(path: Path) -> bool:
    """Whether a directory lies there; raises `InputError` where nothing does, or neither a file nor a directory."""
    name = safe(path.name or str(path))
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        raise InputError(f"{name}: there is no such file; check the path.") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: the file cannot be read ({_problem(error)}); check the path.") from error
    _require_file_or_folder(mode, name)
    return stat.S_ISDIR(mode)


def open_file(path: Path) -> io.BufferedReader:
    """The file, open for reading; raises `InputError` for anything but a regular file that may be read.

    What was opened is what is looked at, so that nothing can be put in its place in between.
    """
    name = safe(path.name)
    try:
        descriptor = os.open(path, FLAGS)
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: the file cannot be read ({_problem(error)}); check its permissions.") from error
    try:
        mode = os.fstat(descriptor).st_mode
        _require_file_or_folder(mode, name)
        if stat.S_ISDIR(mode):
            raise InputError(f"{name} is a directory; name the log file inside it.")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _require_file_or_folder(mode: int, name: str) -> None:
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        kind = KINDS.get(stat.S_IFMT(mode), "no regular file")
        raise InputError(f"{name} is {kind}, not a file; save the log to a file and name that.")


def _problem(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
