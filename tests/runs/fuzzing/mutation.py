"""Broken copies of sound logs."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

TOKENS = (
    b"\0",
    b"\n",
    b"\r",
    b'"',
    b"'",
    b",",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b"{}",
    b"null",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"-1e308",
    b"1" * 400,
    b"9" * 25,
    b"0.1" * 9,
    b"True",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\x1f\x8b",
    b"PAR1",
    b"\x1b[2J",
    b"=cmd()",
    b"__MIN",
    b"[bold]",
    b"\\ud800",
    b"\xe2\x80\xae",
    b"step",
    b"reward",
    b"step:1 - a:2",
    b"{'reward': 0.5}",
    b'{"step": 1, "reward": 0.5}',
    b"/" * 30,
    b"log_history",
)
LONGEST = 2**20


def mutate(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """One to six changes: bytes, tokens, pieces cut, doubled, repeated, moved, or taken from another log."""
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        content = _change(random, content, others)
    return content[:LONGEST]


def _change(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    start = random.randrange(len(content) + 1)
    end = min(len(content), start + random.choice((1, 2, 8, 40, 400)))
    before, piece, after = content[:start], content[start:end], content[end:]
    match random.randrange(9):
        case 0:
            return before + bytes(byte ^ 1 << random.randrange(8) for byte in piece[:4]) + piece[4:] + after
        case 1:
            return before + random.choice(TOKENS) + piece + after
        case 2:
            return before + random.choice(TOKENS) + after
        case 3:
            return before + after
        case 4:
            return before if random.random() < 0.5 else content[start:]
        case 5:
            return before + piece * random.choice((2, 3, 50)) + after
        case 6:  # deep or long: the same few bytes very often
            return before + random.choice((piece[:4], *TOKENS)) * random.choice((100, 5_000, 100_000)) + after
        case 7:
            lines = content.split(b"\n")
            random.shuffle(lines)
            return b"\n".join(lines)
        case _:
            other = random.choice(others)
            place = random.randrange(len(other) + 1)
            return before + other[place : place + random.choice((10, 200, 5_000))] + after
