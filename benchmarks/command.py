"""Time of the command line, from the shell to the printed answer.

    python benchmarks/command.py [LOG] [--repeats 5]

Every run is a process of its own. Cold: with an empty cache folder, so that everything is traced and compiled. Warm:
with the folder that a fit of another log left. Verdict: until the report is printed; whole: until pictures and files
are written. Processor time is of the whole command and both cores; a busy machine lengthens it less than the clock's.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).parents[1] / "data" / "bandit"
COMMAND = [sys.executable, "-c", "from sde_grpo.cli import main; main()"]
LAST_LINE = "effective draws"  # of the report, before files are written


class Taken(NamedTuple):
    """Seconds of one run: until the report's last line, until the end, and of the processor."""

    verdict: float
    whole: float
    processor: float


def run(arguments: list[str], cache: Path) -> Taken:
    """One run in a process of its own, with its cache folder in `cache`."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before, begin, printed = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), None
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    with process:
        for line in process.stdout or ():
            if LAST_LINE in line:
                printed = time.perf_counter() - begin
    whole, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed")
    return Taken(printed or whole, whole, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def row(name: str, seconds: list[float], processor: list[float], aim: str) -> None:
    spread = f"{min(seconds):.2f} to {max(seconds):.2f}"
    print(
        f"| {name} | {statistics.median(seconds):.2f} | {spread} | {statistics.median(processor):.2f} | {aim} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", nargs="?", type=Path, default=DATA / "far-G8-s0.csv")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    print("| what | median, s | range | processor, s | aim |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def fit(log: Path, out: str, cache: str) -> Taken:
            return run([*COMMAND, "fit", str(log), "--out", str(folder / out)], folder / cache)

        for what, code, aim in (
            ("`import sde_grpo`", [sys.executable, "-c", "import sde_grpo"], "0.1"),
            ("`sde-grpo --help`", [*COMMAND, "--help"], "0.3"),
        ):
            run(code, folder)  # byte code is written once
            light = [run(code, folder) for _ in range(given.repeats)]
            row(what, [t.whole for t in light], [t.processor for t in light], aim)
        cold = [fit(given.log, f"cold-{i}", f"empty-{i}") for i in range(max(given.repeats // 2, 1))]
        row("`sde-grpo fit`, cold: verdict", [t.verdict for t in cold], [t.processor for t in cold], "20")
        fit(DATA / "far-G8-s1.csv", "another", "kept")
        warm = [fit(given.log, f"warm-{i}", "kept") for i in range(given.repeats)]
        processor = [t.processor for t in warm]
        row("`sde-grpo fit`, warm: verdict", [t.verdict for t in warm], processor, "4")
        row("`sde-grpo fit`, warm: whole", [t.whole for t in warm], processor, "")


if __name__ == "__main__":
    main()
