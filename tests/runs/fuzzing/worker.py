"""A batch of broken logs, in a process with bounded memory; says as JSON what came of them."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.runs.fuzzing.case import attempt, broken


def main(first: int, count: int, memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    outcomes: Counter[str] = Counter()
    findings = []
    longest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, first + count):
            seed, content = broken(number)
            begin = time.process_time()
            try:
                outcomes[attempt(Path(folder), seed, content)] += 1
            except BaseException as error:
                outcomes["finding"] += 1
                at = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{Path(at.filename).name}:{at.lineno}"
                findings.append(f"log {number} ({seed.name}): {type(error).__name__} at {where}: {str(error)[:200]}")
            longest = max(longest, time.process_time() - begin)
    memory_used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    said = {"outcomes": outcomes, "findings": findings, "longest_s": longest, "most_memory_mib": memory_used}
    print(json.dumps(said))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
