"""What a log may be at most. Logs are untrusted: beyond these bounds a file is refused, in bounded time and memory."""

from __future__ import annotations

KIB, MIB, GIB = 2**10, 2**20, 2**30

BLOCK = 128 * KIB  # read at a time; larger ones are slower, for each is new memory
HEAD = 64 * KIB  # looked at to tell the format
LONGEST_LINE = 64 * MIB  # a row that holds every completion of a large batch stays below
LARGEST_DOCUMENT = 128 * MIB  # one JSON value has to be held whole, and takes up to twenty times as much in memory
LARGEST_UNPACKED = 16 * GIB
MOST_ENTRIES = 100_000  # of a folder
# Logs shrink by 10 to 60 under gzip, an all-zero one by 150; a bomb by 1000. Small files may do as they like.
MOST_EXPANSION = 250
FREE_EXPANSION = 64 * MIB
