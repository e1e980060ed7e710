"""Broken logs without end, each read under a limit of time and memory; what is found is kept.

    uv run python -m tests.runs.fuzzing [--minutes 5] [--engine mutation|atheris] [--first 0] [--out FILE.json]

*mutation* makes broken logs from sound ones by number, so that each can be made again: ``broken(number)`` in `case.py`.
*atheris* (pip install atheris) lets libFuzzer look for inputs that reach new branches of the readers.

A reader must read each or raise `InputError`, within ten seconds and 2 GiB, and show only printable text. The work is
done in a process of its own, whose death is a finding too.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

MEMORY = 2 * 2**30
BATCH = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--engine", choices=["mutation", "atheris"], default="mutation")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    search = mutation if given.engine == "mutation" else atheris
    found = {"engine": given.engine, "python": platform.python_version(), **search(given.minutes * 60, given.first)}
    text = json.dumps(found, indent=1) + "\n"
    print(text, end="")
    if given.out:
        given.out.write_text(text)
    sys.exit(bool(found["findings"]))


def mutation(seconds: float, first: int) -> dict[str, Any]:
    """Batches of numbered logs, each batch in a new process."""
    outcomes: Counter[str] = Counter()
    findings: list[str] = []
    longest, most_memory = 0.0, 0
    number, end = first, time.monotonic() + seconds
    while time.monotonic() < end:
        worker = subprocess.run(
            [sys.executable, "-m", "tests.runs.fuzzing.worker", str(number), str(BATCH), str(MEMORY)],
            capture_output=True,
            text=True,
        )
        if worker.returncode:
            findings.append(f"logs {number} to {number + BATCH - 1}: the process ended with {worker.returncode}")
        for line in worker.stdout.splitlines():
            said = json.loads(line)
            outcomes.update(said.get("outcomes", {}))
            findings += said.get("findings", [])
            longest = max(longest, said.get("longest_s", 0.0))
            most_memory = max(most_memory, said.get("most_memory_mib", 0))
        number += BATCH
    return {
        "logs": [first, number - 1],
        "outcomes": dict(sorted(outcomes.items())),
        "longest_s": round(longest, 2),
        "most_memory_mib": most_memory,
        "findings": findings,
    }


def atheris(seconds: float, first: int) -> dict[str, Any]:
    """libFuzzer with the readers instrumented, from the sound logs as its corpus."""
    from tests.runs.fuzzing.seeds import seeds

    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        for place, seed in enumerate(seeds()):
            (corpus / seed.name).write_bytes(bytes([place]) + seed.content)
        limits = [f"-max_total_time={seconds:.0f}", "-timeout=10", "-rss_limit_mb=2048", "-max_len=65536"]
        worker = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.runs.fuzzing.guided",
                str(corpus),
                *limits,
                f"-seed={first + 1}",
                f"-artifact_prefix={folder}/",
            ],
            capture_output=True,
            text=True,
        )
        lines = worker.stderr.splitlines()
        counts = [line for line in lines if re.match(r"#\d+\t", line)]
        return {
            "inputs": int(counts[-1][1:].split()[0]) if counts else 0,
            "last": counts[-1] if counts else "",
            "corpus": len(list(corpus.iterdir())),
            "findings": [*worker.stdout.splitlines()[-20:], *lines[-5:]] if worker.returncode else [],
        }


if __name__ == "__main__":
    main()
