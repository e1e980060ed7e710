"""A log as it lies on the disk, opened as often as needed, always in bounded memory."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from sde_grpo.errors import require
from sde_grpo.runs.source.decoding import UTF8_MARK, Checked, narrow, whole_lines, wide_encoding
from sde_grpo.runs.source.limits import BLOCK, HEAD, LARGEST_DOCUMENT, LONGEST_LINE, MIB
from sde_grpo.runs.source.opening import is_folder
from sde_grpo.runs.source.safe import safe
from sde_grpo.runs.source.unpacking import open_unpacked

LINE_END = ord("\n")


@dataclass(frozen=True)
class Source:
    """A file, or a folder of files, that a reader may read.

    **Arguments**

    - `path`: where it lies. Messages hold only its name.
    - `is_folder`: whether it is a folder; then only `path` and `name` are of use.
    - `warnings`: sentences on what had to be assumed while reading (an encoding, a broken end), collected here.
    """

    path: Path
    is_folder: bool
    warnings: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name without its folder, safe to show."""
        return safe(self.path.name or str(self.path))

    @cached_property
    def head(self) -> bytes:
        """The first 64 KiB, unpacked, of a text as UTF-8 without its byte-order mark; empty for a folder."""
        if self.is_folder:
            return b""
        start = b""
        for chunk in self._chunks():
            start += chunk
            if len(start) >= HEAD:
                break
        return start[:HEAD]

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Whole lines with their ends, some tens to hundreds at a time, as valid UTF-8; each with its first line's
        number, from 1.

        Raises `InputError` for a binary file, a line above 64 MiB, or a file that expands too far.
        """
        first = 1
        for block in self._blocks(LONGEST_LINE):
            yield first, block
            first += int(np.count_nonzero(np.frombuffer(block, np.uint8) == LINE_END))

    def lines(self) -> Iterator[tuple[int, bytes]]:
        r"""Each line that is not empty, without its end (``\n`` or ``\r\n``), with its number; else as `blocks`."""
        for first, block in self.blocks():
            if not block.isspace():
                yield from lines_of(block, first)

    def text(self, most: int = LARGEST_DOCUMENT) -> str:
        """All of it, for a format that is one document; raises `InputError` above `most` bytes."""
        blocks, size = [], 0
        for block in self._blocks(longest=most):
            size += len(block)
            require(
                size <= most,
                f"{self.name} is one document of more than {most // MIB} MiB; write its rows as JSON Lines.",
            )
            blocks.append(block)
        return b"".join(blocks).decode()

    @contextmanager
    def binary(self) -> Iterator[BinaryIO]:
        """The unpacked bytes as a stream, which raises `InputError` where they expand too far."""
        with open_unpacked(self.path, self._warn) as raw, io.BufferedReader(raw, BLOCK) as stream:
            yield cast(BinaryIO, stream)

    @contextmanager
    def local(self) -> Iterator[Path]:
        """The path of an unpacked file: its own, or for gzip that of a temporary copy."""
        with open_unpacked(self.path, self._warn) as raw:
            if not raw.packed:
                yield self.path
                return
            with tempfile.NamedTemporaryFile(prefix="sde-grpo-") as copy:
                shutil.copyfileobj(raw, copy, BLOCK)
                copy.flush()
                yield Path(copy.name)

    def _blocks(self, longest: int) -> Iterator[bytes]:
        require(not self.is_folder, f"{self.name} is a directory; name the log file inside it.")
        return map(Checked(self.name, self._warn), whole_lines(self._chunks(), longest, self.name))

    def _chunks(self) -> Iterator[bytes]:
        """The unpacked bytes piece by piece, of a text as UTF-8 without its mark."""
        with open_unpacked(self.path, self._warn) as stream:
            chunks = stream.chunks()
            start = next(chunks, b"")
            wide = wide_encoding(start[:HEAD])
            if wide is None:
                yield start.removeprefix(UTF8_MARK)
                yield from chunks
                return
            encoding, mark = wide
            if not mark:
                self._warn(f"{self.name} was taken for {encoding.upper()} text, by its zero bytes.")
            yield from narrow(chain((start[mark:],), chunks), encoding, self.name)

    def _warn(self, sentence: str) -> None:
        if sentence not in self.warnings:
            self.warnings.append(sentence)


def lines_of(block: bytes, first: int) -> Iterator[tuple[int, bytes]]:
    """The lines of a block that are not empty, without their ends, numbered from `first`."""
    for number, line in enumerate(io.BytesIO(block), start=first):  # far faster than bytes.split
        content = line.rstrip(b"\r\n")
        if content:
            yield number, content


def open_source(path: Path) -> Source:
    """The file or folder at `path`; raises `InputError` where there is nothing to read."""
    source = Source(path, is_folder(path))
    if not source.is_folder and not source.head.strip():
        # A file that begins with 64 KiB of blanks is still read to its end.
        require(
            len(source.head) == HEAD and any(line.strip() for _, line in source.lines()),
            f"{source.name} is empty; has the run logged anything yet?",
        )
    return source
