"""Bytes of any common encoding to blocks of valid UTF-8 that end where a line ends."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator

from sde_grpo.errors import InputError
from sde_grpo.runs.source.limits import MIB

UTF8_MARK = codecs.BOM_UTF8
# The four-byte marks first: the shorter ones begin them.
WIDE_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
MOSTLY = 0.8
Warn = Callable[[str], None]


def wide_encoding(start: bytes) -> tuple[str, int] | None:
    """The UTF-16 or UTF-32 encoding of a file that begins with `start`, and the length of its mark; None for others.

    Without a mark, UTF-16 is recognised by zeros in every second byte, as nearly all text of a log has them.
    """
    for mark, encoding in WIDE_MARKS.items():
        if start.startswith(mark):
            return encoding, len(mark)
    pairs = len(start) // 2
    if pairs >= 2:
        even, odd = start[0 : 2 * pairs : 2].count(0), start[1 : 2 * pairs : 2].count(0)
        if odd >= MOSTLY * pairs and even == 0:
            return "utf-16-le", 0
        if even >= MOSTLY * pairs and odd == 0:
            return "utf-16-be", 0
    return None


def narrow(chunks: Iterable[bytes], encoding: str, name: str) -> Iterator[bytes]:
    """UTF-16 or UTF-32 as UTF-8; a last character that breaks off is dropped."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for chunk in chunks:
            yield decoder.decode(chunk).encode()
    except UnicodeError as error:
        raise InputError(
            f"{name} is not valid {encoding.upper()} text, as its first bytes promise; save it as UTF-8."
        ) from error


def whole_lines(chunks: Iterable[bytes], longest: int, name: str) -> Iterator[bytes]:
    """The same bytes in blocks of whole lines; raises `InputError` for a line above `longest` bytes."""
    pending: list[bytes] = []
    length = 0
    for chunk in chunks:
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield b"".join((*pending, memoryview(chunk)[:cut]))
            pending, length = [], 0
        if cut < len(chunk):
            pending.append(chunk[cut:])
            length += len(chunk) - cut
            if length > longest:
                raise InputError(
                    f"{name} has a line of more than {longest // MIB} MiB; a log has one row a line. If it is one "
                    "JSON list, write it as JSON Lines (jq -c '.[]')."
                )
    if pending:
        yield b"".join(pending)


class Checked:
    """Blocks of whole lines, checked to be text, as valid UTF-8.

    A line that is not UTF-8 is read as Windows' and Latin-1's Western letters, with one warning in all: the numbers
    of a log do not depend on it. Raises `InputError` at a NUL byte.
    """

    def __init__(self, name: str, warn: Warn):
        self._name = name
        self._warn = warn
        self._bytes = 0
        self._guessed = False

    def __call__(self, block: bytes) -> bytes:
        if b"\0" in block:
            raise InputError(
                f"{self._name} is a binary file (it holds NUL bytes), not text, or was damaged in a crash: the first "
                f"is byte {self._bytes + block.index(0)}. If the rest is text, take them out: "
                f"tr -d '\\000' < {self._name} > repaired."
            )
        if not block.isascii():
            try:
                block.decode()
            except UnicodeDecodeError as error:
                self._warn_of(block, error.start)
                self._bytes += len(block)
                return b"\n".join(map(_as_utf8, block.split(b"\n")))
        self._bytes += len(block)
        return block

    def _warn_of(self, block: bytes, place: int) -> None:
        if not self._guessed:
            self._guessed = True
            self._warn(
                f"{self._name} is not UTF-8 text (byte {self._bytes + place} is 0x{block[place]:02x}): lines that are "
                "not were read as Latin-1, so letters beyond a to z may be wrong."
            )


def _as_utf8(line: bytes) -> bytes:
    try:
        line.decode()
    except UnicodeDecodeError:
        try:
            return line.decode("cp1252").encode()
        except UnicodeDecodeError:  # five bytes mean nothing there
            return line.decode("latin-1").encode()
    return line
