"""Speed and peak memory of reading a log: JSON Lines as verl, TRL and prime-rl write them.

    python benchmarks/reading.py [--megabytes 200] [KIND ...]

Each kind is written to a temporary file and read in a process of its own: the lines alone, the lines parsed, the table
of the columns of use (`read_log`), and the run that a fit would get (`read_run`). The processor time of that process is
taken, the best of three, so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPEATS = 3
TEXT = "Let x be the number of apples. " * 60


def verl(step: int, reward: float) -> dict[str, Any]:
    """78 columns of numbers below ``data``, as its file logger."""
    groups = (
        "critic/score",
        "critic/rewards",
        "critic/advantages",
        "response_length",
        "prompt_length",
        "actor/entropy",
    )
    data = {f"{group}/{part}": random.random() for group in groups for part in ("mean", "max", "min")}
    data |= {f"timing_per_token_ms/{part}_{k}": random.random() for part in ("gen", "ref", "adv") for k in range(20)}
    return {"step": step, "data": data | {"critic/rewards/mean": reward}}


def trl(step: int, reward: float) -> dict[str, Any]:
    """25 columns of numbers, as the rows of Hugging Face's Trainer."""
    parts = ("mean_length", "min_length", "max_length", "clipped_ratio", "mean_terminated_length")
    clips = ("low_mean", "low_min", "high_mean", "high_max", "region_mean")
    return {
        "loss": random.gauss(0, 1e-3),
        "grad_norm": random.random(),
        "learning_rate": 1e-6,
        "num_tokens": float(step * 4096),
        **{f"completions/{part}": random.random() for part in parts},
        "rewards/correct/mean": reward,
        "rewards/correct/std": random.random(),
        "reward": reward,
        "reward_std": random.random(),
        "frac_reward_zero_std": random.random(),
        "entropy": random.random(),
        **{f"clip_ratio/{clip}": random.random() for clip in clips},
        "step_time": random.random(),
        "epoch": step / 1000,
        "step": step,
    }


def short(step: int, reward: float) -> dict[str, Any]:
    """Two columns: the most rows in a megabyte."""
    return {"step": step, "reward": reward}


def long(step: int, reward: float) -> dict[str, Any]:
    """A row that carries a completion along."""
    return {"step": step, "reward": reward, "example": {"question": TEXT, "answer": TEXT}}


KINDS: dict[str, Callable[[int, float], dict[str, Any]]] = {"verl": verl, "trl": trl, "short": short, "long": long}


def write(path: Path, kind: str, megabytes: int) -> None:
    """A rising curve of that size; a block of rows is written again and again, under new steps."""
    random.seed(0)
    rows = [KINDS[kind](-9999, random.random()) for _ in range(1000)]
    block = [json.dumps(row).split("-9999") for row in rows]
    step = size = 0
    with path.open("w") as file:
        while size < megabytes * 10**6:
            for parts in block:
                step += 1
                size += file.write(str(step).join(parts) + "\n")


def measure(path: Path, kind: str) -> str:
    """One row of the table."""
    from sde_grpo.runs import read_runs
    from sde_grpo.runs.readers import read_log
    from sde_grpo.runs.readers.json_lines import objects
    from sde_grpo.runs.source import open_source

    megabytes = path.stat().st_size / 1e6
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    steps: dict[str, Callable[[], Any]] = {
        "lines": lambda: sum(1 for _ in open_source(path).lines()),
        "parsed": lambda: sum(1 for _ in objects(open_source(path), [])),
        "table": lambda: len(read_log(path).table),
        "run": lambda: read_runs(path),
    }
    speeds = [f"{megabytes / min(_seconds(step) for _ in range(REPEATS)):.0f}" for step in steps.values()]
    rows = len(read_log(path).table)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"| {kind} | {megabytes:.0f} | {rows:,} | {' | '.join(speeds)} | {memory - before:.0f} |"


def _seconds(step: Callable[[], Any]) -> float:
    begin = time.process_time()
    step()
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], help="default: all")
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        print(measure(given.here, given.kinds[0]))
        return
    print("| rows as of | MB | rows | lines, MB/s | parsed | table | run | memory, MiB |")
    print("|---" * 8 + "|")
    for kind in given.kinds or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.jsonl"
            write(path, kind, given.megabytes)
            subprocess.run([sys.executable, __file__, kind, "--here", str(path)], check=True)


if __name__ == "__main__":
    main()
