from __future__ import annotations

import gzip
import os
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sde_grpo.errors import InputError
from sde_grpo.runs.source import files_in, folders_in, open_source
from sde_grpo.runs.source.limits import BLOCK, HEAD, LONGEST_LINE, MIB
from tests.runs.writing import gzipped


def write(path, content: bytes):
    path.write_bytes(content)
    return open_source(path)


def read_lines(source) -> list[bytes]:
    return [line for _, line in source.lines()]


def test_lines_are_numbered_and_blank_ones_left_out(tmp_path):
    source = write(tmp_path / "log", b"a\r\nb\n\n\r\n  c\rd \nlast")
    assert list(source.lines()) == [(1, b"a"), (2, b"b"), (5, b"  c\rd "), (6, b"last")]
    assert source.text() == "a\r\nb\n\n\r\n  c\rd \nlast"
    assert (source.name, source.head[:1], source.is_folder, source.warnings) == ("log", b"a", False, [])


@settings(max_examples=30, deadline=None)
@given(
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0")), max_size=20),
    width=st.integers(1, 2 * BLOCK),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
    packed=st.booleans(),
)
def test_round_trip(tmp_path_factory, texts, width, encoding, packed):
    lines = [*texts, "x" * width, "y"]
    content = "\n".join(lines).encode(encoding)
    path = tmp_path_factory.mktemp("round") / "log"
    source = write(path, gzipped(content) if packed else content)
    given_back = [(number, line.decode()) for number, line in source.lines()]
    assert given_back == [(number, line) for number, line in enumerate(lines, start=1) if line]
    assert source.text() == "\n".join(lines)
    assert source.head == "\n".join(lines).encode()[: len(source.head)]
    assert len(source.head) == min(HEAD, len("\n".join(lines).encode()))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_guessed(tmp_path, encoding):
    source = write(tmp_path / "log", "step,reward\n1,0.5\n2,é\n".encode(encoding))
    assert read_lines(source) == [b"step,reward", b"1,0.5", "2,é".encode()]
    assert source.warnings == [f"log was taken for {encoding.upper()} text, by its zero bytes."]


def test_latin_1_is_read_with_a_warning(tmp_path):
    lines = ["step,récompense", "1,0.5", "2,€"]
    content = b"\n".join([lines[0].encode("latin-1"), lines[1].encode(), lines[2].encode(), b"3,\x81\x80"])
    source = write(tmp_path / "log", content)
    assert [line.decode() for line in read_lines(source)] == [*lines, "3,\x81\x80"]
    (warning,) = source.warnings
    assert "is not UTF-8 text (byte 6 is 0xe9)" in warning
    assert "read as Latin-1" in warning


@pytest.mark.parametrize("content", [b"\xff\xfea\x00\x00\xd8b\x00", b"\xff\xfe\x00\x00\xff\xff\xff\xff"])
def test_broken_wide_text(tmp_path, content):
    with pytest.raises(InputError, match=r"is not valid UTF-(16|32)-LE text, as its first bytes promise"):
        read_lines(write(tmp_path / "log", content))


def test_a_wide_text_that_breaks_off(tmp_path):
    assert read_lines(write(tmp_path / "log", "a\nb".encode("utf-16")[:-1])) == [b"a"]


@pytest.mark.parametrize("content", [b"step\n1\x00\n", b"a" * (3 * BLOCK) + b"\n\x00\n", b"{\x00\x00\x00\x01"])
def test_zero_bytes_are_refused(tmp_path, content):
    with pytest.raises(InputError, match=r"binary file \(it holds NUL bytes\).* first is byte \d+.* tr -d"):
        read_lines(write(tmp_path / "log", content))


@pytest.mark.parametrize("content", [b"", b" \n\r\n", b"\xef\xbb\xbf\n", gzipped(b"\n"), b"\n" * 200_000])
def test_empty(tmp_path, content):
    with pytest.raises(InputError, match=r"log is empty; has the run logged anything yet"):
        write(tmp_path / "log", content)


def test_a_long_blank_start_is_not_empty(tmp_path):
    assert list(write(tmp_path / "log", b"\n" * 200_000 + b"a").lines()) == [(200_001, b"a")]


def test_several_gzip_members_and_one_that_breaks_off(tmp_path):
    whole = gzipped(b"a\n" * 50_000) + gzipped(os.urandom(100).hex().encode() * 1000)
    assert len(read_lines(write(tmp_path / "log.gz", whole))) == 50_001
    source = write(tmp_path / "log.gz", whole[:-20])
    assert len(read_lines(source)) >= 50_000
    assert source.warnings == ["log.gz: the gzip file breaks off; what it holds up to there was read."]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x1f\x8b\x08", "is empty"),
        (b"\x1f\x8b\x07" + bytes(20), "cannot be unpacked"),
        (gzipped(b"a" * 1000)[:-8] + bytes(8), "cannot be unpacked .*CRC"),
        (gzipped(b"a") + b"garbage", "cannot be unpacked"),
        (gzipped(gzipped(b"a")), "packed with gzip twice"),
        (b"PK\x03\x04" + bytes(20), r"is a zip archive; unpack it first \(unzip\)"),
        (b"\x28\xb5\x2f\xfd" + bytes(20), "compressed with zstd"),
        (b"BZh91AY", "compressed with bzip2"),
        (b"\xfd7zXZ\x00", "compressed with xz"),
    ],
)
def test_damaged_and_other_archives(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read_lines(write(tmp_path / "log", content))


@pytest.fixture(scope="module")
def bomb(tmp_path_factory):
    path = tmp_path_factory.mktemp("bomb") / "log.gz"
    with gzip.GzipFile(path, "wb", compresslevel=9) as file:
        for _ in range(150):
            file.write(b"a" * (MIB - 1) + b"\n")
    return path


def test_a_bomb_is_refused_in_bounded_memory(bomb):
    source = open_source(bomb)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="expands more than 250 times"):
            for _ in source.lines():
                pass
        with source.binary() as stream, pytest.raises(InputError, match="expands more than 250 times"):
            all(iter(lambda: stream.read(BLOCK), b""))
        with pytest.raises(InputError, match="expands more than 250 times"), source.local():
            pass
        assert tracemalloc.get_traced_memory()[1] < 10 * MIB
    finally:
        tracemalloc.stop()


def test_an_endless_line_is_refused_in_bounded_memory(tmp_path):
    path = tmp_path / "log"
    with path.open("wb") as file:
        for _ in range(LONGEST_LINE // MIB + 30):
            file.write(b"a" * MIB)
    source = open_source(path)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="has a line of more than 64 MiB"):
            read_lines(source)
        assert tracemalloc.get_traced_memory()[1] < LONGEST_LINE + 10 * MIB
    finally:
        tracemalloc.stop()


def test_a_large_document_is_refused(tmp_path):
    source = write(tmp_path / "log", b'{"a": 1}\n' * 200_000)
    assert len(source.text()) == 1_800_000
    with pytest.raises(InputError, match="one document of more than 1 MiB; write its rows as JSON Lines"):
        source.text(most=MIB)


def test_binary_and_local(tmp_path):
    plain, packed = write(tmp_path / "a", b"PAR1\x00"), write(tmp_path / "b", gzipped(b"PAR1\x00"))
    for source in (plain, packed):
        assert source.head == b"PAR1\x00"
        with source.binary() as stream:
            assert stream.read() == b"PAR1\x00"
        with source.local() as path:
            assert path.read_bytes() == b"PAR1\x00"
    assert (path == packed.path, path.exists()) == (False, False)


def test_what_is_no_file(tmp_path):
    assert open_source(tmp_path).is_folder
    assert open_source(tmp_path).head == b""
    with pytest.raises(InputError, match="is a directory; name the log file inside it"):
        read_lines(open_source(tmp_path))
    with pytest.raises(InputError, match="there is no such file"):
        open_source(tmp_path / "absent")
    with pytest.raises(InputError, match=r"cannot be read .*null"):
        open_source(tmp_path / "a\0b")
    with pytest.raises(InputError, match=r"cannot be read .*too long"):
        open_source(tmp_path / ("a" * 1000))
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(InputError, match=r"cannot be read .*symbolic"):
        open_source(tmp_path / "link")


def test_pipes_and_devices_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe is a named pipe, not a file; save the log to a file"):
        open_source(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    with pytest.raises(InputError, match="link is a device, not a file"):
        open_source(tmp_path / "link")


def test_what_takes_the_file_s_place_is_refused_too(tmp_path):
    source = write(tmp_path / "log", b"a")
    source.path.unlink()
    os.mkfifo(source.path)
    with pytest.raises(InputError, match="log is a named pipe"):
        read_lines(source)


def test_links_to_files_are_followed(tmp_path):
    write(tmp_path / "log", b"a\n")
    (tmp_path / "latest").symlink_to("log")
    assert read_lines(open_source(tmp_path / "latest")) == [b"a"]


def test_folders_are_listed_without_links(tmp_path):
    for name in ("b", "a"):
        (tmp_path / name).write_text("x")
    (tmp_path / "inner").mkdir()
    (tmp_path / "away").symlink_to("/etc")
    (tmp_path / "secret").symlink_to("/etc/passwd")
    assert [path.name for path in files_in(tmp_path)] == ["a", "b"]
    assert [path.name for path in folders_in(tmp_path)] == ["inner"]
    (tmp_path / "empty").touch()
    assert [path.name for path in files_in(tmp_path)] == ["a", "b"]
    assert files_in(tmp_path / "absent") == []
