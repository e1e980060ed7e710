from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from sde_grpo.errors import InputError
from sde_grpo.runs import Configuration

WRONG: list[tuple[str, Any, str]] = [
    ("group_size", 0, "group_size is 0; it must be a whole number, at least 1"),
    ("group_size", 2.5, "group_size is 2.5; it must be a whole number"),
    ("group_size", True, "group_size is True"),
    ("prompts_per_step", -1, "prompts_per_step is -1"),
    ("refresh_interval", "4", "refresh_interval is '4'; it must be a whole number"),
    ("learning_rate", 0.0, "learning_rate is 0.0; it must be a number above 0"),
    ("learning_rate", float("nan"), "learning_rate is nan"),
    ("momentum", 1.0, r"momentum is 1.0; it must be a number in \[0, 1\)"),
    ("momentum_kind", "adam", "momentum_kind is 'adam'; it must be 'heavy_ball' or 'ema'"),
    ("lag_schedule", "none", "lag_schedule is 'none'; it must be 'periodic' or 'constant'"),
    ("kl_weight", -0.1, "kl_weight is -0.1; it must be a number, at least 0"),
    ("rows_averaged", 0.5, "rows_averaged is 0.5; it must be a number, at least 1"),
    ("reward_range", (1.0, 0.0), "reward_range is .*; it must be two numbers, low < high"),
    ("reward_range", 1.0, "reward_range is 1.0; it must be two numbers"),
    ("step_unit", "epoch", "step_unit is 'epoch'; it must be 'optimizer' or 'rollout'"),
]


@pytest.mark.parametrize(("name", "value", "message"), WRONG)
def test_each_field_states_its_range(name, value, message):
    with pytest.raises(InputError, match=message):
        Configuration(**{name: value})


def test_values_become_plain_python():
    known = Configuration(group_size=np.int64(8), learning_rate=np.float64(1e-3))  # pyright: ignore[reportArgumentType]
    assert type(known.group_size) is int
    assert type(known.learning_rate) is float


def test_merged_prefers_what_the_other_knows():
    merged = Configuration(group_size=8, momentum=0.9).merged(Configuration(group_size=4))
    assert merged == Configuration(group_size=4, momentum=0.9)


def test_as_dict_is_json_and_comes_back():
    known = Configuration(group_size=8, reward_range=(0, 1))
    values = json.loads(json.dumps(known.as_dict()))
    assert values["momentum"] is None
    assert Configuration(**values) == known


@pytest.mark.parametrize("head", ["", "[run]\n"])
def test_toml_flat_or_in_a_table(tmp_path, head):
    path = tmp_path / "run.toml"
    path.write_text(head + 'group_size = 8\nmomentum = 0\nmomentum_kind = "ema"\nreward_range = [-1, 1]\n')
    known = Configuration(group_size=8, momentum=0.0, momentum_kind="ema", reward_range=(-1.0, 1.0))
    assert Configuration.from_toml(path) == known


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("groupsize = 8", "run.toml: unknown key groupsize; allowed are group_size, prompts_per_step,"),
        ("group_size = 8\n[run]\ngroup_size = 8", "group_size given both in"),
        ('group_size = "8"', "run.toml: group_size is '8'; it must be a whole number"),
        ("run = 3", "run is 3; it must be a table"),
        ("group_size 8", "run.toml is not valid TOML"),
    ],
)
def test_toml_errors(tmp_path, text, message):
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        Configuration.from_toml(path)


def test_toml_missing(tmp_path):
    with pytest.raises(InputError, match=r"run.toml: the configuration file cannot be read .*check --config"):
        Configuration.from_toml(tmp_path / "run.toml")
