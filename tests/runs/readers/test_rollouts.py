from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sde_grpo.errors import InputError
from sde_grpo.runs.readers.rollouts import Rollouts
from sde_grpo.runs.source import open_source
from tests.runs.readers.reading import numbers, read

GROUPS = {"a": [1.0, 0.0], "b": [1.0, 1.0]}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def dump(step: int | None = None, groups: dict[str, list[float]] = GROUPS, **more: object) -> list[dict[str, Any]]:
    """As verl's rollout_data_dir, whose batches are reordered for balance."""
    return [
        {"input": prompt, "output": "x", "gts": None, "score": group[place], **({"step": step} if step else {}), **more}
        for place in range(len(next(iter(groups.values()))))
        for prompt, group in groups.items()
    ]


def check_statistics(log, steps: list[float]) -> None:
    assert numbers(log, "step") == steps
    assert numbers(log, "reward") == [0.75] * len(steps)
    assert numbers(log, "group_size") == [2] * len(steps)
    assert numbers(log, "prompts_per_step") == [2] * len(steps)
    assert numbers(log, "zero_variance_share") == [0.5] * len(steps)
    np.testing.assert_allclose(numbers(log, "within_group_std"), [0.5] * len(steps))


def test_verl(tmp_path):
    for step in (10, 9, 100):
        write(tmp_path / f"{step}.jsonl", dump(step))
    write(tmp_path / "11.jsonl", [])
    (tmp_path / "notes.txt").write_text("")
    log = read(Rollouts(), tmp_path)
    check_statistics(log, [9, 10, 100])
    assert (log.format, log.step_unit, log.warnings) == ("verl rollouts", "rollout", ())


def test_nemo_rl(tmp_path):
    for step in (2, 10):
        rows = [
            {"content": [[f"prompt {prompt}", "answer"]], "rewards": [reward], "advantages": [0.1], "idx": place}
            for prompt, group in GROUPS.items()
            for place, reward in enumerate(group)
        ]
        write(tmp_path / f"train_data_step{step}.jsonl", rows)
    log = read(Rollouts(), tmp_path)
    check_statistics(log, [2, 10])
    assert log.format == "NeMo-RL training data"
    one = [{"content": "prompt and answer", "rewards": 0.5}] * 4
    log = read(Rollouts(), write(tmp_path / "train_data_step3.jsonl", one))
    assert (numbers(log, "step"), numbers(log, "reward"), "group_size" in log.table) == ([3], [0.5], False)


def test_prime_rl_prefers_what_was_sampled(tmp_path):
    rows = [
        {"example_id": place, "prompt": [{"role": "user"}], "completion": [], "reward": reward}
        for place, group in enumerate(GROUPS.values())
        for reward in group
    ]
    for step in (1, 2):
        write(tmp_path / f"step_{step}" / "train" / "all" / "traces.jsonl", rows)
        write(tmp_path / f"step_{step}" / "train" / "effective" / "traces.jsonl", rows[:2])
    write(tmp_path / "step_3" / "train" / "effective" / "traces.jsonl", rows)
    log = read(Rollouts(), tmp_path)
    check_statistics(log, [1, 2, 3])
    assert log.format == "prime-rl rollouts"
    check_statistics(read(Rollouts(), tmp_path / "step_2" / "train" / "all" / "traces.jsonl"), [2])


def test_one_file_with_steps(tmp_path):
    rows = [
        {"prompt": prompt, "response": "x", "reward": str(reward), "training_step": step}
        for step in (4, 8)
        for prompt, group in GROUPS.items()
        for reward in group
    ]
    log = read(Rollouts(), write(tmp_path / "rollouts.jsonl", rows))
    check_statistics(log, [4, 8])
    assert (log.format, log.step_unit) == ("completions (JSON Lines)", None)


def test_lines_longer_than_the_head_of_the_file(tmp_path):
    rows = [row | {"output": "x" * 100_000} for row in dump(7)]
    check_statistics(read(Rollouts(), write(tmp_path / "7.jsonl", rows)), [7])


def test_groups_by_uid_and_another_score(tmp_path):
    path = write(tmp_path / "7.jsonl", dump(None, {"a": [1.0, 0.0, 0.5]}, uid="u", acc=0.25))
    log = read(Rollouts(), path)
    assert (numbers(log, "step"), numbers(log, "reward"), numbers(log, "group_size")) == ([7], [0.5], [3])
    assert numbers(read(Rollouts(), path, "acc"), "reward") == [0.25]


def test_rewards_that_are_missing(tmp_path):
    rows = dump(1)
    rows[-1]["score"] = None
    log = read(Rollouts(), write(tmp_path / "1.jsonl", rows))
    assert log.warnings == ("1 completions without a reward were left out.",)


def test_without_any_step(tmp_path):
    with pytest.raises(InputError, match=r"line 1: the row has no step, and the file is not named by one"):
        read(Rollouts(), write(tmp_path / "log.jsonl", dump()))


@pytest.mark.parametrize(
    "rows",
    [
        [{"step": 1, "reward": 0.5}],
        [{"step": step, "reward": 0.5, "prompt": "a", "completion": "b"} for step in (1, 2)],  # an example a step
        [{"step": 1, "prompt": "a", "completion": "b"}],
        [{"prompt": "a", "completion": "b", "reward": {"mean": 0.5}}],
        [],
    ],
)
def test_what_is_not_recognised(tmp_path, rows):
    path = write(tmp_path / "1.jsonl", rows)
    assert not Rollouts().recognises(open_source(tmp_path))
    if rows:
        assert not Rollouts().recognises(open_source(path))
