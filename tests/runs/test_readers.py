from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sde_grpo.errors import InputError, NothingToFitError
from sde_grpo.runs import read_run
from tests.runs.writing import curve, rows, write_csv, write_jsonl, write_state


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_tables(tmp_path, delimiter):
    run = read_run(write_csv(tmp_path / "log", rows(), delimiter))
    np.testing.assert_array_equal(run.reward, curve())
    np.testing.assert_array_equal(run.steps, np.arange(1, 31))
    assert (run.source, run.reward_column, run.warnings) == ("log", "reward", ())


def test_json_lines_list_and_state_agree(tmp_path):
    paths = [write_jsonl(tmp_path / "a", rows()), tmp_path / "b", write_state(tmp_path / "c", rows())]
    paths[1].write_text(json.dumps(rows()))
    for path in paths:
        np.testing.assert_array_equal(read_run(path).reward, curve())


def test_nested_keys_are_flattened(tmp_path):
    table = [{"step": row["step"], "critic": {"rewards": {"mean": row["reward"]}}} for row in rows()]
    run = read_run(write_jsonl(tmp_path / "log", table))
    assert run.reward_column == "critic/rewards/mean"
    assert run.configuration.step_unit == "rollout"


def test_byte_order_mark_and_windows_line_ends(tmp_path):
    path = write_csv(tmp_path / "log.csv", rows())
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert len(read_run(path).reward) == 30


def test_one_column_is_numbered(tmp_path):
    run = read_run(write_csv(tmp_path / "log.csv", [{"reward": row["reward"]} for row in rows()]))
    np.testing.assert_array_equal(run.steps, np.arange(1, 31))
    assert any("numbered from 1" in warning and "--step-column" in warning for warning in run.warnings)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"step,reward\n1,\x00", "binary file"),
        (b"step,reward\n1,\xff\n", "column reward is 'ÿ', not a number"),
        (b"\x1f\x8b\x08", "is empty"),
        (b"PK\x03\x04", "is a zip archive; unpack it first"),
        (b"hello\nworld\n", "format is not known .*'hello'"),
        (b"step,reward\n", "header line but no rows"),
        (b"1,0.5\n2,0.6\n", "first line holds numbers"),
        (b"step,reward,reward\n1,2,3\n", "column reward appears more than once"),
        (b"step,reward\n1,0.5\n2,0.5,7\n3,0.5\n", r"line 3: 3 cells, but the header has 2 \(parted by a comma\)"),
        (b'{"runs": [1, 2], "step": 3}', "an object with the keys runs, step.*log_history"),
        (b'{\n"runs": [1, 2]\n}', "an object with the keys runs.*log_history"),
        (b"[]", "JSON list is empty"),
        (b"[1, [2]]", "entry 1: found a number where a row was expected"),
        (b'{"log_history": []}', "log_history is empty"),
        (b'{"log_history": 3}', "log_history is not a list"),
        (b'{\n "log_history": [\n  {"step": 1, "rew', "cut off at line 3, character"),
        (b'[\n {"step": 1},\n', "cut off at line 3"),
        (b'[\n {"step": 1} 5\n]', "the JSON is broken at line 2"),
        (b'{"step": 1}\n{"step": \n{"step": 3}\n', "line 2: the JSON is broken"),
        (b'{"step": 1}\n[3]\n{"step": 3}\n', "line 2: found a list where a row was expected"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"step": 1}\n' + b'{"a":' * 100_000 + b"\n{}", "line 2: the JSON is nested too deeply"),
        (b'[{"step": ' + b"1" * 5000 + b"}]", "the JSON cannot be read"),
    ],
)
def test_broken_files(tmp_path, content, message):
    path = tmp_path / "log"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_run(path)


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        read_run(tmp_path / "absent.csv")
    with pytest.raises(InputError, match="is a directory; name the log file inside it"):
        read_run(tmp_path)


def test_messages_hold_no_path(tmp_path):
    with pytest.raises(InputError) as caught:
        read_run(tmp_path / "absent.csv")
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize(("write", "cut"), [(write_jsonl, 8), (write_csv, 19)])
def test_a_last_line_that_breaks_off_is_dropped(tmp_path, write, cut):
    path = write(tmp_path / "log", rows(seed="a long enough cell"))
    path.write_text(path.read_text()[:-cut])
    run = read_run(path)
    if write is write_csv:
        path.write_text("\n".join([*path.read_text().splitlines(), "31"]))
        run = read_run(path)
    assert len(run.reward) in (29, 30)
    assert any("breaks off and was dropped" in warning for warning in run.warnings)


def test_nan_constants_are_missing(tmp_path):
    path = write_jsonl(tmp_path / "log", rows())
    path.write_text(path.read_text() + '{"step": 31, "reward": NaN}\n{"step": 32, "reward": -Infinity}\n')
    run = read_run(path)
    assert len(run.reward) == 30
    assert any(warning.startswith("2 of 32 rows were dropped") for warning in run.warnings)


CELLS = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False)


@settings(max_examples=40, deadline=None)
@given(
    reward=st.lists(CELLS, min_size=20, max_size=40),
    first=st.integers(-5, 10_000),
    order=st.permutations(["step", "reward", "note", "loss"]),
    delimiter=st.sampled_from([",", ";", "\t"]),
)
def test_round_trip(tmp_path_factory, reward, first, order, delimiter):
    table = [{"step": first + k, "reward": y, "note": "x", "loss": -y} for k, y in enumerate(reward)]
    path = tmp_path_factory.mktemp("round") / "log.csv"
    write_csv(path, [{name: row[name] for name in order} for row in table], delimiter)
    try:
        run = read_run(path)
    except NothingToFitError:
        assert len(reward) - max(reward.count(value) for value in reward) <= 2
        return
    np.testing.assert_array_equal(run.reward, reward)
    np.testing.assert_array_equal(run.steps, first + np.arange(len(reward)))
    np.testing.assert_array_equal(run.times, run.steps)
