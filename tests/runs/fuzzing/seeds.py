"""A small sound log of every format, from which broken ones are made."""

from __future__ import annotations

import io
import json
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq
from tensorboardX import SummaryWriter

from tests.runs.writing import gzipped, rows

ROWS = 24
CONFIG = {
    "num_generations": 8,
    "per_device_train_batch_size": 16,
    "learning_rate": 1e-6,
    "adam_beta1": 0.9,
    "beta": 0.04,
    "lr_scheduler_type": "constant",
    "reward_weights": [1.0, 0.5],
    "logging_steps": 1,
    "trl_version": "0.28.0",
}


def _whole(content: bytes) -> bytes:
    return content


@dataclass(frozen=True)
class Seed:
    """A file's `content` before `wrap` packs it, so that what is broken inside gets past gzip and checksums.

    Beside a configuration file lies a sound `log`, which is the one that is read.
    """

    name: str
    content: bytes
    wrap: Callable[[bytes], bytes] = _whole
    log: bytes | None = None


@cache
def seeds() -> tuple[Seed, ...]:
    """One or two of each format that a reader knows."""
    table = rows(ROWS, learning_rate=1e-5, kl=0.1, note="x")
    lines = _lines(table)
    nested = _lines([{"step": row["step"], "critic": {"rewards": {"mean": row["reward"]}}} for row in table])
    verl = _lines([{"step": row["step"], "data": {"critic/rewards/mean": row["reward"]}} for row in table])
    completions = _lines(
        [{"input": f"p{k // 4}", "output": "o", "score": k % 3 / 2, "step": 1 + k // 8} for k in range(24 * 8)]
    )
    state = json.dumps({"log_history": table, "logging_steps": 1, "max_steps": ROWS}).encode()
    trl = "".join(f"{{'loss': 0.1, 'reward': {row['reward']}, 'epoch': {row['step'] / 10}}}\n" for row in table)
    bars = "".join(
        f"\r {k}%|#| {k}/{ROWS} [00:01<00:02]{{'reward': '{k / 30:.4g}', 'kl': '0.1'}}\n" for k in range(ROWS)
    )
    console = "".join(f"(pid=1) step:{r['step']} - critic/rewards/mean:np.float64({r['reward']})\n" for r in table)
    csv = "step,reward,kl,seed\n" + "".join(f"{r['step']},{r['reward']},0.1,1\n" for r in table)
    chart = 'Step,"a - reward","a - reward__MIN","a - reward__MAX"\n'
    chart += "".join(",".join([str(r["step"]), *3 * [str(r["reward"])]]) + "\n" for r in table)
    columns = {name: [row[name] for row in table] for name in ("step", "reward", "kl", "note")}
    curve = json.dumps({"runs": [{"group_size": 4, "reward_trace": [r["reward"] for r in table]}] * 2}).encode()
    return (
        Seed("lines.jsonl", lines),
        Seed("lines.jsonl.gz", lines, gzipped),
        Seed("raw.jsonl.gz", gzipped(lines)),
        Seed("nested.jsonl", nested),
        Seed("verl.jsonl", verl),
        Seed("1.jsonl", completions),
        Seed("trainer_state.json", state),
        Seed("list.json", json.dumps(table, indent=1).encode()),
        Seed("curves.json", curve),
        Seed("console.log", trl.encode()),
        Seed("bars.log", bars.encode()),
        Seed("verl.log", console.encode()),
        Seed("table.csv", csv.encode()),
        Seed("table.tsv", csv.replace(",", "\t").encode()),
        Seed("wide.csv", csv.encode("utf-16")),
        Seed("chart.csv", chart.encode()),
        Seed("tensorboard.csv", ("Wall time,Step,Value\n" + "".join(f"1,{k},0.5\n" for k in range(30))).encode()),
        Seed("metric", "".join(f"1766301063000 {r['reward']} {r['step']}\n" for r in table).encode()),
        Seed("events.out.tfevents.raw", _events()),
        Seed("events.out.tfevents.framed", b"".join(_records(_events())), _framed),
        Seed("table.parquet", _parquet(columns)),
        Seed(
            "completions.parquet",
            _parquet({"step": [1] * 8, "prompt": ["a", "b"] * 4, "completion": ["x"] * 8, "f": [0.0, 1.0] * 4}),
        ),
        Seed("config.json", json.dumps(CONFIG, indent=1).encode(), log=lines),
        Seed(
            "config.yaml",
            b"actor_rollout_ref:\n  rollout:\n    n: 8\n  actor: {optim: {lr: 1.0e-6}}\nseed: 2001-01-01\n",
            log=lines,
        ),
        Seed("config.toml", b"[orchestrator]\ngroup_size = 8\n[trainer.optim]\nlr = 1e-6\n", log=lines),
    )


def _lines(table: list[dict]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in table).encode()


def _parquet(columns: dict[str, list]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def _events() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        with SummaryWriter(folder) as writer:
            writer.add_text("args", json.dumps({"num_generations": 8, "learning_rate": 1e-5}))
            for row in rows(ROWS):
                writer.add_scalar("train/reward", row["reward"], row["step"])
                writer.add_scalar("train/kl", 0.1, row["step"])
        (path,) = Path(folder).iterdir()
        return path.read_bytes()


def _records(content: bytes) -> list[bytes]:
    records = []
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        records.append(struct.pack("<I", length) + content[12 : 12 + length])
        content = content[16 + length :]
    return records


def _framed(content: bytes) -> bytes:
    """Records, each with its length before it, framed with sound checksums."""
    framed = b""
    while len(content) > 4:
        (length,) = struct.unpack("<I", content[:4])
        record, content = content[4 : 4 + length], content[4 + length :]
        size = struct.pack("<Q", len(record))
        framed += size + _check(size) + record + _check(record)
    return framed


def _check(content: bytes) -> bytes:
    value = google_crc32c.value(content)
    return struct.pack("<I", (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF)
