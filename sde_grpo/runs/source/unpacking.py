"""The bytes of a file, unpacked where they are gzip, with a bound on how far they may expand."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from sde_grpo.errors import InputError
from sde_grpo.runs.source.limits import BLOCK, FREE_EXPANSION, GIB, LARGEST_UNPACKED, MOST_EXPANSION
from sde_grpo.runs.source.opening import open_file
from sde_grpo.runs.source.safe import safe

GZIP = b"\x1f\x8b"
OTHER_PACKERS = {
    b"PK\x03\x04": ("a zip archive", "unzip"),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "unzstd"),
    b"BZh": ("compressed with bzip2", "bunzip2"),
    b"\xfd7zXZ\x00": ("compressed with xz", "unxz"),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", "7z x"),
}


def require_bounded(name: str, taken: int, given: int, advice: str) -> None:
    """Raise `InputError` where `taken` packed bytes give more than a log's, with what to do if the file is sound."""
    if given > FREE_EXPANSION and given > MOST_EXPANSION * taken:
        raise InputError(
            f"{name} expands more than {MOST_EXPANSION} times as it is unpacked, which no log does; it was not read "
            f"further. If it is sound, {advice}."
        )
    if given > LARGEST_UNPACKED:
        raise InputError(f"{name} unpacks to more than {LARGEST_UNPACKED // GIB} GiB; {advice}.")


def open_unpacked(path: Path, warn: Callable[[str], None]) -> Unpacked:
    """The file's bytes as a stream; of gzip's content where it is gzip, one member or several.

    A gzip file that breaks off belongs to a run that is still writing, or to a broken copy: what it holds up to there
    is read, and `warn` is called. Raises `InputError` for other archives and for what is no regular file; while
    reading, also where the file is damaged or expands too far.
    """
    file, name = open_file(path), safe(path.name)
    start = file.peek(8)
    for magic, (what, command) in OTHER_PACKERS.items():
        if start.startswith(magic):
            file.close()
            raise InputError(f"{name} is {what}; unpack it first ({command}).")
    return Unpacked(file, name, warn, packed=start.startswith(GZIP))


class Unpacked(io.RawIOBase):
    """What `open_unpacked` returns."""

    def __init__(self, file: io.BufferedReader, name: str, warn: Callable[[str], None], packed: bool):
        self._file = file
        self._name = name
        self._warn = warn
        self._packed = packed
        self._stream = gzip.GzipFile(fileobj=file) if packed else file
        self._given = 0

    @property
    def packed(self) -> bool:
        return self._packed

    def chunks(self) -> Iterator[bytes]:
        """The bytes piece by piece; the first is as long as a block, unless the file ends before."""
        first = b""
        while len(first) < BLOCK and (part := self._read(BLOCK)):
            first += part
        yield first
        while part := self._read(BLOCK):
            yield part

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:  # type: ignore[override]
        view = memoryview(buffer).cast("B")
        part = self._read(min(len(view), BLOCK))
        view[: len(part)] = part
        return len(part)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            self._file.close()
        super().close()

    def _read(self, most: int) -> bytes:
        try:
            part = self._stream.read1(most)
        except EOFError:
            self._warn(f"{self._name}: the gzip file breaks off; what it holds up to there was read.")
            return b""
        except (OSError, zlib.error) as error:
            raise InputError(f"{self._name}: the file cannot be unpacked ({error}); copy it again.") from error
        if self._packed:
            if not self._given and part.startswith(GZIP):
                raise InputError(f"{self._name} was packed with gzip twice; unpack it once first (gunzip).")
            self._given += len(part)
            require_bounded(self._name, self._file.tell(), self._given, "unpack it first (gunzip)")
        return part
