"""The search for logs that break a reader, in short."""

from __future__ import annotations

from random import Random

import pytest

from sde_grpo.runs.readers import read_log
from tests.runs.fuzzing.case import TooLong, attempt, broken
from tests.runs.fuzzing.mutation import mutate
from tests.runs.fuzzing.seeds import seeds

BATCH = 150


@pytest.mark.parametrize("seed", seeds(), ids=lambda seed: seed.name)
def test_the_sound_logs_are_read(tmp_path, seed):
    assert attempt(tmp_path, seed, seed.wrap(seed.content)) == "read" or seed.name in ("completions.parquet",)


def test_the_sound_logs_cover_the_formats(tmp_path):
    formats = set()
    for seed in (seed for seed in seeds() if seed.log is None):
        (tmp_path / seed.name).write_bytes(seed.wrap(seed.content))
        formats.add(read_log(tmp_path / seed.name).format)
    assert len(formats) >= 12, formats


@pytest.mark.parametrize("first", range(0, 8 * BATCH, BATCH))
def test_broken_logs_are_read_or_refused(tmp_path, first):
    outcomes = set()
    for number in range(first, first + BATCH):
        seed, content = broken(number)
        try:
            outcomes.add(attempt(tmp_path, seed, content))
        except (Exception, TooLong) as error:
            raise AssertionError(f"the broken log {number} ({seed.name}) breaks the reader too") from error
    assert outcomes == {"read", "refused"}


def test_broken_logs_can_be_made_again():
    assert broken(7)[1] == broken(7)[1]
    assert mutate(Random(1), b"abc", [b"x"]) != b"abc"
