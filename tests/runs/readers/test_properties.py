"""What must hold in every format: what was written is read, whatever the order of rows and keys and whatever lacks."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboardX import SummaryWriter

from sde_grpo.errors import InputError
from sde_grpo.runs import read_runs
from sde_grpo.runs.readers import read_log

Rows = list[dict[str, Any]]
KEYS = ("reward", "kl", "learning_rate", "eval_reward", "grad_norm")


def json_lines(path: Path, rows: Rows) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def nested_lines(path: Path, rows: Rows) -> None:
    json_lines(path, [{"step": row["step"], "train": {k: v for k, v in row.items() if k != "step"}} for row in rows])


def json_list(path: Path, rows: Rows) -> None:
    path.write_text(json.dumps(rows, indent=1))


def state(path: Path, rows: Rows) -> None:
    path.write_text(json.dumps({"log_history": rows, "logging_steps": 1}))


def packed(path: Path, rows: Rows) -> None:
    json_lines(path, rows)
    path.write_bytes(gzip.compress(path.read_bytes()))


def table(path: Path, rows: Rows, delimiter: str = ",", encoding: str = "utf-8", line_end: str = "\n") -> None:
    header = ["step", *KEYS]
    lines = [header, *([str(row[key]) if row.get(key) is not None else "" for key in header] for row in rows)]
    path.write_bytes((line_end.join(delimiter.join(line) for line in lines) + line_end).encode(encoding))


def tabs(path: Path, rows: Rows) -> None:
    table(path, rows, "\t", "utf-8-sig", "\r\n")


def semicolons(path: Path, rows: Rows) -> None:
    table(path, rows, ";", "utf-16")


def parquet(path: Path, rows: Rows) -> None:
    pd.DataFrame(rows, columns=["step", *KEYS], dtype=float).to_parquet(path)


def mlflow(path: Path, rows: Rows) -> None:
    (path / "params").mkdir(parents=True)
    (path / "metrics").mkdir()
    for place, row in enumerate(rows):
        for key, value in row.items():
            if key != "step" and value is not None:
                with (path / "metrics" / key).open("a") as file:
                    file.write(f"{1766301063000 + place} {value} {row['step']}\n")


def tensorboard(path: Path, rows: Rows) -> None:
    with SummaryWriter(str(path)) as writer:
        for row in rows:
            for key, value in row.items():
                if key != "step" and value is not None:
                    writer.add_scalar(key, value, row["step"])


EXACT: list[Callable[[Path, Rows], None]] = [
    json_lines,
    nested_lines,
    json_list,
    state,
    packed,
    table,
    tabs,
    semicolons,
    parquet,
]
SPARSE: list[Callable[[Path, Rows], None]] = [mlflow, tensorboard]  # what lacks is not written, a row may vanish
CELLS = st.none() | st.floats(width=32) | st.integers(-1000, 1000)
ROWS = st.lists(
    st.fixed_dictionaries({"step": st.integers(0, 10**6)}, optional={key: CELLS for key in KEYS}),
    min_size=2,
    max_size=30,
)


def expected(cell: Any) -> float:
    return float(cell) if cell is not None and isfinite(cell) else float("nan")


@pytest.mark.parametrize("write", EXACT, ids=lambda write: write.__name__)
@settings(max_examples=25, deadline=None)
@given(rows=ROWS, names=st.permutations(["step", *KEYS]))
def test_what_was_written_is_read(tmp_path_factory, write, rows, names):
    path = tmp_path_factory.mktemp("log") / "log"
    write(path, [{name: row[name] for name in names if name in row} for row in rows])
    found = read_log(path).table
    assert found["step"].numbers.tolist() == [row["step"] for row in rows]
    for key in KEYS:
        cells = [expected(row.get(key)) for row in rows]
        name = f"train/{key}" if write is nested_lines else key
        if name in found:
            np.testing.assert_array_equal(found[name].numbers, cells)
        else:
            assert np.isnan(cells).all()


@pytest.mark.parametrize("write", SPARSE, ids=lambda write: write.__name__)
@settings(max_examples=20, deadline=None)
@given(rows=ROWS)
def test_points_that_were_written_are_read(tmp_path_factory, write, rows):
    path = tmp_path_factory.mktemp("log") / "log"
    write(path, rows)
    given_points = {key: [(r["step"], r[key]) for r in rows if r.get(key) is not None] for key in KEYS}
    if not any(given_points.values()):
        with pytest.raises(InputError):
            read_log(path)
        return
    found = read_log(path).table
    for key, points in given_points.items():
        if points:
            column = found[key]
            values = np.float32(column.numbers[column.present])
            assert found["step"].numbers[column.present].tolist() == [step for step, _ in points]
            np.testing.assert_array_equal(values, np.array([expected(value) for _, value in points], np.float32))


@pytest.mark.parametrize("write", [*EXACT, *SPARSE], ids=lambda write: write.__name__)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_rows_in_any_order_are_a_curve_or_refused(tmp_path_factory, write, data):
    count = data.draw(st.integers(20, 40))
    rewards = data.draw(st.lists(st.floats(-2, 2, width=32), min_size=count, max_size=count))
    order = data.draw(st.permutations(range(count)) | st.just(range(count)))
    lacking = data.draw(st.sets(st.integers(0, count - 1)) | st.just(set()))
    rows = [{"step": 3 * k, "reward": None if k in lacking else rewards[k], "kl": 0.5} for k in order]
    path = tmp_path_factory.mktemp("log") / "log"
    write(path, rows)
    try:
        (run,) = read_runs(path)
    except InputError:
        return
    assert (np.diff(run.steps) > 0).all()
    given_pairs = {3 * k: np.float32(rewards[k]) for k in range(count) if k not in lacking}
    assert {
        step: np.float32(value) for step, value in zip(run.steps, run.reward, strict=True)
    }.items() <= given_pairs.items()
    assert list(order) != list(range(count)) or len(run.steps) == len(given_pairs)


@pytest.mark.parametrize("write", [*EXACT, *SPARSE], ids=lambda write: write.__name__)
def test_a_curve_in_order_is_read(tmp_path, write):
    write(tmp_path / "log", [{"step": k, "reward": (k % 7) / 8, "kl": 0.5} for k in range(30)])
    (run,) = read_runs(tmp_path / "log")
    np.testing.assert_array_equal(run.steps, np.arange(30))
    np.testing.assert_array_equal(run.reward, np.arange(30) % 7 / 8)


@pytest.mark.parametrize("write", [json_lines, json_list, state, packed], ids=lambda write: write.__name__)
def test_names_and_texts_are_safe_to_show(tmp_path, write):
    rows = [{"step": k, "reward\x1b[2J": (k % 7) / 8, "run": "a\u202eb\n", "x\x07": 1} for k in range(30)]
    write(tmp_path / "log", rows)
    found = read_log(tmp_path / "log").table
    assert list(found.names) == ["step", r"reward\x1b[2J", "run", r"x\x07"]
    assert found["run"].text(0) == r"a\u202eb"
