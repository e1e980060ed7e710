"""Event files written by the writers themselves: tensorboardX, and tensorboard's own."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]
from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue]
from tensorboard.compat.proto.tensor_pb2 import TensorProto  # pyright: ignore[reportAttributeAccessIssue]
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboardX import SummaryWriter

from sde_grpo.errors import InputError
from sde_grpo.runs.readers.base import Log
from sde_grpo.runs.readers.event_files import LARGEST_RECORD
from sde_grpo.runs.readers.tensorboard import TensorBoard
from sde_grpo.runs.source import open_source
from tests.runs.readers.reading import numbers
from tests.runs.readers.reading import read as read_with

ARGS = {"num_generations": 8, "per_device_train_batch_size": 16, "adam_beta1": 0.9, "logging_steps": 2}


def read(path: Path, *wanted: str) -> Log:
    return read_with(TensorBoard(), path, *wanted)


def write(folder: Path, rewards: dict[int, float], **texts: object) -> Path:
    """As the callback of Hugging Face's Trainer: the texts first, then each tag of a step on its own."""
    with SummaryWriter(str(folder)) as writer:
        for tag, text in texts.items():
            writer.add_text(tag, json.dumps(text))
        for step, reward in rewards.items():
            writer.add_scalar("train/reward", reward, step)
            writer.add_scalar("train/learning_rate", 5e-4, step)
            if step % 5 == 0:
                writer.add_scalar("eval/reward", 0.5, step)
    (path,) = [path for path in folder.iterdir() if "tfevents" in path.name]
    return path


def test_scalars_and_the_configuration(tmp_path):
    log = read(write(tmp_path, {step: step / 64 for step in range(1, 11)}, args=ARGS, note={"a": 1}))
    assert numbers(log, "step") == list(range(1, 11))
    assert numbers(log, "train/reward") == [step / 64 for step in range(1, 11)]
    assert set(numbers(log, "train/learning_rate")) == {5e-4}  # in the file it is 0.0005000000237
    assert np.flatnonzero(log.table["eval/reward"].finite).tolist() == [4, 9]
    (config,) = log.configs
    assert (config.values, config.origin) == (ARGS, "event text args/text_summary")
    assert (log.step_unit, log.logging_steps, log.warnings) == ("optimizer", 2.0, ())


def test_hyperparameters(tmp_path):
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_scalar("reward", 0.5, 1)
        writer.add_hparams({"lr": 0.25, "norm": True, "loss": "dr_grpo"}, {}, name="1766301063.5")
    log = read(tmp_path)
    assert [config.values for config in log.configs] == [{"lr": 0.25, "norm": True, "loss": "dr_grpo"}]


def test_scalars_as_tensors(tmp_path):
    writer = EventFileWriter(str(tmp_path))
    for step in (1, 2):
        tensors = {
            "train/reward": TensorProto(dtype=2, double_val=[step / 8]),
            "train/kl": TensorProto(dtype=1, tensor_content=np.float32(0.1).tobytes()),
        }
        values = [Summary.Value(tag=tag, tensor=tensor) for tag, tensor in tensors.items()]
        writer.add_event(Event(step=step, summary=Summary(value=values)))
    writer.close()
    log = read(tmp_path)
    assert numbers(log, "train/reward") == [0.125, 0.25]
    assert numbers(log, "train/kl") == [0.1, 0.1]


def test_what_is_no_scalar_is_passed_over(tmp_path):
    writer = EventFileWriter(str(tmp_path))
    vast = TensorProto(dtype=1, float_val=[0.5])
    for size in (2**31, 2**31):
        vast.tensor_shape.dim.add(size=size)
    values = [
        Summary.Value(tag="train/reward", simple_value=0.5),
        Summary.Value(tag="a", tensor=TensorProto(dtype=1, float_val=[1, 2])),
        Summary.Value(tag="b", tensor=TensorProto(dtype=7, string_val=[b"\xff"])),
        Summary.Value(tag="train/kl", tensor=vast),
        Summary.Value(tag="args", tensor=TensorProto(dtype=7, string_val=[b'{"a": ' * 3000])),
        Summary.Value(tag="picture", image=Summary.Image(encoded_image_string=bytes(LARGEST_RECORD))),
    ]
    for value in values:
        writer.add_event(Event(step=1, summary=Summary(value=[value])))
    writer.close()
    log = read(tmp_path)
    assert (numbers(log, "train/reward"), numbers(log, "train/kl"), log.configs) == ([0.5], [0.5], ())


def test_the_launches_of_a_folder_follow_each_other(tmp_path):
    first, second = tmp_path / "runs" / "Dec01_04-48-25_host", tmp_path / "runs" / "Dec01_04-48-32_host"
    late = write(first, {step: 0.25 for step in range(7, 11)}, args=ARGS)
    late.rename(second.parent / "events.out.tfevents.late")  # whatever the folders are called, time decides
    write(second, {step: 0.5 for step in range(5, 9)}, args=ARGS)
    (tmp_path / "runs" / "other").mkdir()
    write(tmp_path / "runs" / "other", {1: 0.0})
    (tmp_path / "events.out.tfevents.empty").touch()
    log = read(tmp_path)
    assert numbers(log, "step") == [7, 8, 9, 10, 5, 6, 7, 8]
    assert len(log.configs) == 1


def test_repeated_tags_of_a_step_are_rows_of_their_own(tmp_path):
    with SummaryWriter(str(tmp_path)) as writer:
        for reward in (0.25, 0.5):
            writer.add_scalar("reward", reward, 1)
    assert numbers(read(tmp_path), "reward") == [0.25, 0.5]


@pytest.mark.parametrize("cut", [1, 20, 40])
def test_a_file_that_breaks_off(tmp_path, cut):
    path = write(tmp_path, {step: 0.5 for step in range(1, 8)})
    path.write_bytes(path.read_bytes()[:-cut])
    log = read(path)
    assert numbers(log, "step")[:6] == list(range(1, 7))
    assert any("breaks off; the file was read up to there" in warning for warning in log.warnings)


def test_damage_is_named(tmp_path):
    path = write(tmp_path, {step: 0.5 for step in range(1, 8)})
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    (warning,) = read(path).warnings
    assert "record 16 fails its checksum; the file was read up to there" in warning


def test_a_packed_file(tmp_path):
    path = write(tmp_path, {1: 0.5, 2: 0.25})
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert numbers(read(packed), "train/reward") == [0.5, 0.25]


def test_files_without_scalars(tmp_path):
    path = write(tmp_path / "a", {}, args=ARGS)
    with pytest.raises(InputError, match="the event file holds no scalars"):
        read(path)
    path.write_bytes(b"")
    assert not TensorBoard().recognises(open_source(tmp_path / "a"))
    other = tmp_path / "events.out.tfevents.broken"
    other.write_bytes(bytes(range(200)))
    with pytest.raises(InputError, match=r"holds no scalars.* the length of record 1 fails its checksum"):
        read(other)


def test_what_is_not_recognised(tmp_path):
    (tmp_path / "link").symlink_to(write(tmp_path / "real", {1: 0.5}).parent)
    os.symlink(write(tmp_path / "real2", {1: 0.5}), tmp_path / "events.out.tfevents.link")
    assert not TensorBoard().recognises(open_source(tmp_path))
    (tmp_path / "log").write_text("step,reward\n")
    assert not TensorBoard().recognises(open_source(tmp_path / "log"))


@pytest.mark.parametrize("package", ["tensorboard", "google_crc32c"])
def test_the_extra_is_named(tmp_path, monkeypatch, package):
    path = write(tmp_path, {1: 0.5})
    for module in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        InputError, match=rf"event file; reading it needs the package {package}.*sde-grpo\[tensorboard\]"
    ):
        read(path)


TAGS = st.sampled_from(["train/reward", "train/kl", "eval/reward", "other"])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2**40), st.dictionaries(TAGS, st.floats(width=32), min_size=1)), max_size=20))
def test_round_trip(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("round")
    with SummaryWriter(str(folder)) as writer:
        for step, row in rows:
            for tag, value in row.items():
                writer.add_scalar(tag, value, step)
    if not rows:
        with pytest.raises(InputError, match="no scalars"):
            read(folder)
        return
    table = read(folder, "other").table
    for tag in {tag for _, row in rows for tag in row}:
        logged = [(step, row[tag]) for step, row in rows if tag in row]
        column = table[tag]
        steps, values = table["step"].numbers[column.present], column.numbers[column.present]
        np.testing.assert_array_equal(steps, [step for step, _ in logged])
        np.testing.assert_array_equal(np.float32(values), [v if np.isfinite(v) else np.nan for _, v in logged])
