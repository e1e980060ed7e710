"""From a path to text, or to an error that says what lies there instead."""

from __future__ import annotations

from pathlib import Path

from sde_grpo.errors import InputError, require

ACCEPTED = "trainer_state.json (Hugging Face, TRL), JSON Lines, a JSON list of rows, and CSV or TSV with a header line"


def read_text(path: Path) -> str:
    """The file as text (UTF-8, a byte-order mark allowed); raises `InputError` for anything that is not text."""
    name = path.name
    require(path.exists(), f"{name}: there is no such file; check the path.")
    require(
        not path.is_dir(),
        f"{name} is a directory; name the log file inside it. Accepted are {ACCEPTED}.",
    )
    try:
        content = path.read_bytes()
    except OSError as error:
        problem = error.strerror or type(error).__name__
        raise InputError(f"{name}: the file cannot be read ({problem}); check its permissions.") from error
    require(bool(content.strip()), f"{name} is empty; has the run logged anything yet?")
    require(not content.startswith(b"\x1f\x8b"), f"{name} is compressed with gzip; unpack it first (gunzip).")
    require(
        b"\x00" not in content,
        f"{name} is a binary file (it holds NUL bytes), not text; accepted are {ACCEPTED}. "
        "Export the log to one of these.",
    )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name} is not UTF-8 text (byte {error.start} is 0x{content[error.start]:02x}); save it as UTF-8. "
            f"Accepted are {ACCEPTED}."
        ) from error
