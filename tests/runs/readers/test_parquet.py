"""Parquet files written by pyarrow, and by pandas as TRL does."""

from __future__ import annotations

import gzip
import subprocess
import sys
import tracemalloc
from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sde_grpo.errors import InputError
from sde_grpo.runs.readers.parquet import Parquet
from sde_grpo.runs.source import open_source
from tests.runs.readers.reading import numbers, read


def completions(step: int, rewards: Mapping[str, Sequence[float | None]], **functions: list[float]) -> pd.DataFrame:
    """As TRL's log_completions: the completions of a prompt are adjacent."""
    rows = [(prompt, reward) for prompt, group in rewards.items() for reward in group]
    return pd.DataFrame(
        {
            "step": step,
            "prompt": [prompt for prompt, _ in rows],
            "completion": "x" * 50,
            "correct": [reward for _, reward in rows],
            **functions,
            "advantage": 0.0,
        }
    )


def test_the_history_of_a_run(tmp_path):
    path = tmp_path / "0000.parquet"
    table = pa.table(
        {
            "_step": [0, 1, 2],
            "train/reward": [0.25, None, 0.5],
            "train/kl": [0.1, float("nan"), 0.2],
            "notes": ["a", "b", "c"],
            "critic": [{"score": {"mean": 0.25}}, {"score": {"mean": 0.5}}, None],
        }
    )
    pq.write_table(table, path)
    log = read(Parquet(), path)
    np.testing.assert_array_equal(numbers(log, "train/reward"), [0.25, np.nan, 0.5])
    assert numbers(log, "_step") == [0, 1, 2]
    assert numbers(log, "critic/score/mean")[:2] == [0.25, 0.5]
    assert set(log.table.names) == {*table.column_names, "critic/score/mean"} - {"critic"} | (
        {"critic"} & set(log.table.names)
    )
    assert "notes" not in log.table.columns
    assert "notes" in read(Parquet(), path, "notes").table.columns


def test_the_parts_of_a_folder(tmp_path):
    for part in (1, 0):
        pq.write_table(
            pa.table({"step": [2 * part, 2 * part + 1], "reward": [0.5, 0.25]}), tmp_path / f"{part:04}.parquet"
        )
    assert numbers(read(Parquet(), tmp_path), "step") == [0, 1, 2, 3]


def test_completions_give_the_statistics_of_groups(tmp_path):
    for step, rewards in {
        20: {"1+1=": [1.0, 1.0, 0.0, 0.0], "1+2=": [1.0, 1.0, 1.0, 1.0]},
        40: {"2+1=": [0.0, 0.0, 0.0, 1.0], "2+2=": [0.0, 0.0, 0.0, 0.0]},
    }.items():
        completions(step, rewards).to_parquet(tmp_path / f"completions_{step:05}.parquet")
    log = read(Parquet(), tmp_path)
    assert numbers(log, "step") == [20, 40]
    assert numbers(log, "reward") == [0.75, 0.125]
    assert numbers(log, "group_size") == [4, 4]
    assert numbers(log, "prompts_per_step") == [2, 2]
    assert numbers(log, "zero_variance_share") == [0.5, 0.5]
    np.testing.assert_allclose(numbers(log, "within_group_std"), [(1 / 3 / 2) ** 0.5, (0.25 / 2) ** 0.5])
    assert (log.format, log.step_unit, log.warnings) == ("TRL completions (parquet)", "optimizer", ())


def test_completions_without_a_step_column_take_it_from_the_name(tmp_path):
    path = tmp_path / "completions_00060.parquet"
    completions(60, {"a": [1.0, 0.0]}).drop(columns="step").to_parquet(path)
    assert numbers(read(Parquet(), path), "step") == [60]


def test_several_reward_functions(tmp_path):
    path = tmp_path / "completions_00020.parquet"
    completions(20, {"a": [1.0, None]}, digits=[0.5, 1.0]).to_parquet(path)
    log = read(Parquet(), path)
    assert numbers(log, "reward") == [1.25]
    assert any("the plain sum of correct, digits" in warning for warning in log.warnings)
    one = read(Parquet(), path, "correct")
    assert (numbers(one, "reward"), one.warnings) == ([1.0], ("1 completions without a reward were left out.",))


def test_chats_as_prompts(tmp_path):
    path = tmp_path / "completions_00020.parquet"
    frame = completions(20, {"a": [1.0, 0.0], "b": [1.0, 1.0]})
    chats = [[{"role": "user", "content": prompt}] for prompt in frame["prompt"]]
    frame.assign(prompt=pd.Series(chats)).to_parquet(path)
    assert numbers(read(Parquet(), path), "zero_variance_share") == [0.5]


def test_a_packed_file(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"step": [1], "reward": [0.5]}), path)
    packed = tmp_path / "a.parquet.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert numbers(read(Parquet(), packed), "reward") == [0.5]


def test_broken_files(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"step": list(range(1000)), "reward": [0.5] * 1000}), path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"a.parquet: the parquet file cannot be read \(.*copy it again"):
        read(Parquet(), path)
    pq.write_table(pa.table({"step": pa.array([], pa.int64())}), path)
    with pytest.raises(InputError, match="holds no rows"):
        read(Parquet(), path)
    pq.write_table(pa.table({"prompt": ["a"], "completion": ["b"]}), path)
    with pytest.raises(InputError, match="holds completions, but no column of rewards"):
        read(Parquet(), path)


def test_a_file_of_too_many_rows_is_refused_by_its_footer(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"step": list(range(100)), "reward": [0.5] * 100}), path)
    monkeypatch.setattr("sde_grpo.runs.readers.parquet.MOST_ROWS", 50)
    with pytest.raises(InputError, match="has more than 50 rows"):
        read(Parquet(), path)


def test_a_small_file_that_stands_for_a_huge_table_is_refused_before_it_is_unpacked(tmp_path):
    """Each of these takes kilobytes on the disk, and gigabytes of memory as rows."""
    path, nothing = tmp_path / "a.parquet", pa.array(np.zeros(2_000_000))
    pq.write_table(pa.table({name: nothing for name in ("step", "reward", "kl", "entropy", "epoch")}), path)
    with pytest.raises(InputError, match="expands more than 250 times"):
        read(Parquet(), path)
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2000, np.int32)), ["a" * 10**7])
    for prompts in (text, pa.ListArray.from_arrays(np.arange(2001, dtype=np.int32), text)):
        cells = {"prompt": prompts, "completion": ["x"] * 2000, "reward": [0.0] * 2000}
        pq.write_table(pa.table(cells), path, compression="zstd")
        tracemalloc.start()
        with pytest.raises(InputError, match="expands more than 250 times"):
            read(Parquet(), path)
        assert tracemalloc.get_traced_memory()[1] < 2**28
        tracemalloc.stop()


def test_a_footer_that_lies_of_its_columns_does_not_end_the_process(tmp_path):
    """Found by mutation: asked for such a column, pyarrow aborts."""
    from tests.runs.fuzzing.case import broken

    seed, content = broken(7006223)
    assert seed.name.endswith(".parquet")
    (tmp_path / "a.parquet").write_bytes(content)
    script = f"from sde_grpo.runs import read_run; read_run({str(tmp_path / 'a.parquet')!r})"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "InputError: a.parquet: the parquet file cannot be read" in ended.stderr


def test_the_extra_is_named(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"step": [1], "reward": [0.5]}), path)
    for module in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"needs the package pyarrow.*sde-grpo\[parquet\]"):
        read(Parquet(), path)


def test_what_is_not_recognised(tmp_path):
    (tmp_path / "log").write_text("PAR")
    assert not Parquet().recognises(open_source(tmp_path / "log"))
    assert not Parquet().recognises(open_source(tmp_path))


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {}, optional={"step": st.integers(0, 10**9), "reward": st.floats(), "kl": st.none() | st.floats()}
        ),
        min_size=1,
        max_size=20,
    ),
    compression=st.sampled_from(["none", "snappy", "zstd", "gzip"]),
)
def test_round_trip(tmp_path_factory, rows, compression):
    path: Path = tmp_path_factory.mktemp("round") / "a.parquet"
    pd.DataFrame(rows, columns=["step", "reward", "kl"], dtype=float).to_parquet(path, compression=compression)
    table = read(Parquet(), path).table
    for name in ("step", "reward", "kl"):
        given_values = [row.get(name) for row in rows]
        expected = [
            np.nan if value is None or isnan(value) or abs(value) == np.inf else value for value in given_values
        ]
        np.testing.assert_array_equal(table[name].numbers, expected)
