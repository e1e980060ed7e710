"""The records of a TensorBoard event file, as steps with tags and values.

A record is its length (8 bytes, little-endian), the masked CRC-32C of these, the bytes of one ``Event`` message, and
their masked CRC-32C (the TFRecord format). The messages are those of the tensorboard package.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from sde_grpo.runs.readers.extras import import_extra
from sde_grpo.runs.source import Source

MAGIC = b"brain.Event:"  # the version, in the first record of every file
LARGEST_RECORD = 4 * 2**20  # larger ones hold pictures or meshes; skipped, not parsed
HEADER = struct.Struct("<QI")
CHECK = struct.Struct("<I")
HPARAMS = "_hparams_/session_start_info"
NUMBERS = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 19: "<f2", 22: "<u4", 23: "<u8"}  # DataType of a scalar tensor
TEXT = 7


class Value(NamedTuple):
    """One tagged value of an event: a number, or a text, or hyperparameters as a mapping."""

    wall_time: float
    step: int
    tag: str
    content: float | str | dict[str, Any]


class Damage(Exception):
    """The file breaks off, or a checksum fails; says where."""


def looks_like_events(head: bytes) -> bool:
    """Whether a file begins as event files do."""
    return MAGIC in head[:64]


def read_events(source: Source) -> Iterator[Value]:
    """The scalars, texts and hyperparameters of the file, in its order.

    Raises `Damage` where the file cannot be read further, and `InputError` without the packages of the extra.
    """
    what = f"{source.name} is a TensorBoard event file; reading it"
    messages = import_extra("tensorboard.compat.proto.event_pb2", "tensorboard", what)
    checksum = import_extra("google_crc32c", "tensorboard", what).value
    broken = import_extra("google.protobuf.message", "tensorboard", what).DecodeError
    with source.binary() as stream:
        for place, record in _records(stream, checksum):
            event = messages.Event()
            try:
                event.ParseFromString(record)
            except broken as error:
                raise Damage(f"record {place} is no event") from error
            for value in event.summary.value:
                content = _content(value)
                if content is not None:
                    yield Value(event.wall_time, event.step, value.tag, content)


def _records(stream: BinaryIO, checksum: Any) -> Iterator[tuple[int, bytes]]:
    place = 0
    while header := stream.read(HEADER.size):
        place += 1
        if len(header) < HEADER.size:
            raise Damage(f"record {place} breaks off")
        length, check = HEADER.unpack(header)
        if check != _masked(checksum(header[:8])):
            raise Damage(f"the length of record {place} fails its checksum")
        if length > LARGEST_RECORD:
            _skip(stream, length + CHECK.size, place)
            continue
        record, check = stream.read(length), stream.read(CHECK.size)
        if len(record) < length or len(check) < CHECK.size:
            raise Damage(f"record {place} breaks off")
        if CHECK.unpack(check)[0] != _masked(checksum(record)):
            raise Damage(f"record {place} fails its checksum")
        yield place, record


def _skip(stream: BinaryIO, count: int, place: int) -> None:
    while count > 0:
        part = len(stream.read(min(count, LARGEST_RECORD)))
        if not part:
            raise Damage(f"record {place} breaks off")
        count -= part


def _masked(check: int) -> int:
    return (((check >> 15) | (check << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _content(value: Any) -> float | str | dict[str, Any] | None:
    if value.tag == HPARAMS:
        return _hyperparameters(value.metadata.plugin_data.content)
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return _shortest(value.simple_value)
    if kind == "tensor":
        return _tensor(value.tensor)
    return None


def _tensor(tensor: Any) -> float | str | None:
    """A tensor of one element; others are no scalars. Never sized by what the file says of its shape."""
    if tensor.dtype == TEXT:
        return tensor.string_val[0].decode(errors="replace") if len(tensor.string_val) == 1 else None
    kind = NUMBERS.get(tensor.dtype)
    if kind is not None and len(tensor.tensor_content) == np.dtype(kind).itemsize:
        number = np.frombuffer(tensor.tensor_content, kind)[0]
        return _shortest(number) if kind == "<f4" else float(number)
    given = (*tensor.float_val, *tensor.double_val, *tensor.int_val, *tensor.int64_val)
    if len(given) != 1 or kind is None:
        return None
    return _shortest(given[0]) if kind == "<f4" else float(given[0])


def _shortest(number: float) -> float:
    """The shortest decimal that single precision rounds to this: 0.0005, not 0.0005000000237487257."""
    return float(str(np.float32(number)))


def _hyperparameters(content: bytes) -> dict[str, Any] | None:
    plugin = import_extra("tensorboard.plugins.hparams.plugin_data_pb2", "tensorboard", "Reading hyperparameters")
    data = plugin.HParamsPluginData()
    try:
        data.ParseFromString(content)
    except ValueError:
        return None
    kinds = {"number_value", "string_value", "bool_value"}
    pairs = ((name, cell, cell.WhichOneof("kind")) for name, cell in data.session_start_info.hparams.items())
    return {name: getattr(cell, kind) for name, cell, kind in pairs if kind in kinds}
