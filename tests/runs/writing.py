"""Small logs, written by the tests themselves."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from sde_grpo.runs.run import Vector

Rows = list[dict[str, Any]]


def curve(count: int = 30, seed: int = 0) -> Vector:
    """A rising reward on the grid of 64 completions."""
    noise = np.random.default_rng(seed).normal(0, 0.05, count)
    return np.round(64 * np.clip(0.8 - 0.6 * np.exp(-np.arange(count) / 10) + noise, 0.01, 0.99)) / 64


def rows(count: int = 30, **constant: Any) -> Rows:
    """Rows with step and reward, and further cells that are the same in all of them."""
    return [{"step": step, "reward": float(reward), **constant} for step, reward in enumerate(curve(count), start=1)]


def write_csv(path: Path, table: Rows, delimiter: str = ",") -> Path:
    header = list(table[0])
    lines = [delimiter.join(header)]
    lines += [delimiter.join("" if row.get(name) is None else str(row[name]) for name in header) for row in table]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_jsonl(path: Path, table: Rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in table))
    return path


def write_state(path: Path, table: Rows, **top: Any) -> Path:
    path.write_text(json.dumps({"log_history": table, **top}, indent=2))
    return path


def gzipped(content: bytes) -> bytes:
    """The same bytes at any time, for they name test cases."""
    return gzip.compress(content, mtime=0)
