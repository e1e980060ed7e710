from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sde_grpo.errors import InputError
from sde_grpo.runs.readers.rollouts import Rollouts
from sde_grpo.runs.source import open_source
from tests.runs.readers.reading import numbers, read


def dump(path: Path, step: int | None, rewards: dict[str, list[float]], **more: object) -> Path:
    """As verl's rollout_data_dir, whose batches are reordered for balance."""
    rows = [
        {"input": prompt, "output": "x", "gts": None, "score": group[place], **({"step": step} if step else {}), **more}
        for place in range(len(next(iter(rewards.values()))))
        for prompt, group in rewards.items()
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_folder_in_the_order_of_steps(tmp_path):
    for step in (10, 9, 100):
        dump(tmp_path / f"{step}.jsonl", step, {"a": [1.0, 0.0], "b": [1.0, 1.0]})
    (tmp_path / "notes.txt").write_text("")
    log = read(Rollouts(), tmp_path)
    assert numbers(log, "step") == [9, 10, 100]
    assert numbers(log, "reward") == [0.75] * 3
    assert numbers(log, "group_size") == [2] * 3
    assert numbers(log, "prompts_per_step") == [2] * 3
    np.testing.assert_allclose(numbers(log, "within_group_std"), [0.5] * 3)
    assert (log.step_unit, log.warnings) == ("rollout", ())


def test_groups_by_uid_and_another_score(tmp_path):
    path = dump(tmp_path / "7.jsonl", None, {"a": [1.0, 0.0, 0.5]}, uid="u", acc=0.5)
    log = read(Rollouts(), path)
    assert (numbers(log, "step"), numbers(log, "reward"), numbers(log, "group_size")) == ([7], [0.5], [3])
    assert numbers(read(Rollouts(), path, "acc"), "reward") == [0.5]


def test_without_any_step(tmp_path):
    with pytest.raises(InputError, match="the rows have no step, and the file is not named by one"):
        read(Rollouts(), dump(tmp_path / "log.jsonl", None, {"a": [1.0]}))


def test_what_is_not_recognised(tmp_path):
    (tmp_path / "1.jsonl").write_text('{"step": 1, "reward": 0.5}\n')
    (tmp_path / "inner").mkdir()
    for path in (tmp_path, tmp_path / "1.jsonl", tmp_path / "inner"):
        assert not Rollouts().recognises(open_source(path))
