"""One broken log, read as a user would have it read."""

from __future__ import annotations

import json
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from sde_grpo.errors import InputError
from sde_grpo.runs import read_runs
from sde_grpo.runs.inspection import run_record
from tests.runs.fuzzing.mutation import mutate
from tests.runs.fuzzing.seeds import Seed, seeds

LONGEST_S = 10


class TooLong(BaseException):
    """Not an Exception, so that no reader can take it for its own."""


def broken(seed_number: int) -> tuple[Seed, bytes]:
    """The broken log of this number, always the same."""
    random = Random(seed_number)
    chosen = random.choice(seeds())
    content = mutate(random, chosen.content, [seed.content for seed in seeds()])
    return chosen, chosen.wrap(content)


def attempt(folder: Path, seed: Seed, content: bytes) -> str:
    """Write the broken log, or the configuration beside a sound one, and read it: ``"read"`` or ``"refused"``.

    Whatever else happens is raised, and `TooLong` after ten seconds of work.
    What is shown must be safe to show: one printable line.
    """
    path = folder / seed.name
    path.write_bytes(content)
    if seed.log is not None:
        path = folder / "log.jsonl"
        path.write_bytes(seed.log)
    try:
        return _read(path)
    finally:
        for written in folder.iterdir():
            written.unlink()


def _read(path: Path) -> str:
    with _time_limit(), warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            runs = read_runs(path)
            json.dumps([run_record(run) for run in runs], allow_nan=False)
        except InputError as error:
            texts, outcome = [str(error)], "refused"
        else:
            texts = [text for run in runs for text in (*run.warnings, *run.refusals, run.reward_column, run.source)]
            outcome = "read"
    for text in texts:
        assert text.isprintable(), f"not safe to show: {text!r}"
        assert len(text) < 20_000, f"too long to show: {text[:80]}"
    return outcome


@contextmanager
def _time_limit() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)  # of this process, so that other work on the machine does not count
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
