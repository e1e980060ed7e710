"""The configuration of every trainer in our terms, and the files it is looked for in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sde_grpo.runs import Configuration, read_run
from sde_grpo.runs.frameworks import Keys, translate
from sde_grpo.runs.readers.base import RawConfig
from sde_grpo.runs.sidecars import find_sidecars
from tests.runs.writing import rows, write_csv

TRL = {"num_generations": 8, "gradient_accumulation_steps": 4, "per_device_train_batch_size": 8}
ADAM = {"momentum": 0.9, "momentum_kind": "ema"}
SWITCH = {"actor_rollout_ref": {"actor": {"use_kl_loss": True, "kl_loss_coef": 0.001}, "rollout": {"n": 5}}}

STATED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("TRL", TRL, {"group_size": 8, "refresh_interval": 1}),
    ("TRL", TRL | {"steps_per_generation": 16, "num_iterations": 2}, {"group_size": 8, "refresh_interval": 8}),
    ("TRL", TRL | {"world_size": 2}, {"group_size": 8, "prompts_per_step": 8, "refresh_interval": 1}),
    ("TRL", TRL | {"generation_batch_size": 64}, {"group_size": 8, "prompts_per_step": 8, "refresh_interval": 1}),
    (
        "TRL",
        TRL | {"optim": "OptimizerNames.PAGED_ADAMW_8BIT", "adam_beta1": 0.9},
        {"group_size": 8, "refresh_interval": 1} | ADAM,
    ),
    (
        "TRL",
        TRL | {"optim": "sgd", "optim_args": "momentum=0.97, nesterov=False"},
        {"group_size": 8, "refresh_interval": 1, "momentum": 0.97, "momentum_kind": "heavy_ball"},
    ),
    (
        "TRL",
        TRL | {"optim": "sgd"},
        {"group_size": 8, "refresh_interval": 1, "momentum": 0.0, "momentum_kind": "heavy_ball"},
    ),
    (
        "TRL",
        TRL | {"learning_rate": 1e-6, "lr_scheduler_type": "constant", "beta": 0.04},
        {"group_size": 8, "refresh_interval": 1, "learning_rate": 1e-6, "kl_weight": 0.04},
    ),
    ("TRL", TRL | {"learning_rate": 1e-6, "lr_scheduler_type": "linear"}, {"group_size": 8, "refresh_interval": 1}),
    ("TRL", {"_wandb": {"value": {}}, "num_generations": {"value": 4, "desc": None}}, {"group_size": 4}),
    (
        "verl",
        {
            "data": {"train_batch_size": 1024},
            "actor_rollout_ref": {
                "rollout": {"n": 8},
                "actor": {
                    "ppo_mini_batch_size": 256,
                    "ppo_epochs": 2,
                    "use_kl_loss": False,
                    "optim": {"lr": 1e-6, "betas": [0.9, 0.999], "warmup_style": "constant"},
                },
            },
            "algorithm": {"use_kl_in_reward": True, "kl_ctrl": {"kl_coef": 0.005}},
        },
        {"group_size": 8, "prompts_per_step": 1024, "refresh_interval": 8, "learning_rate": 1e-6, "kl_weight": 0.005}
        | ADAM,
    ),
    ("verl", SWITCH, {"group_size": 5, "kl_weight": 0.001}),
    (
        "OpenRLHF",
        {
            "n_samples_per_prompt": 8,
            "rollout_batch_size": 128,
            "train_batch_size": 256,
            "max_epochs": 1,
            "actor_learning_rate": 5e-7,
            "adam_betas": "(0.9, 0.95)",
            "init_kl_coef": 0.01,
            "lr_scheduler": "constant",
        },
        {"group_size": 8, "prompts_per_step": 128, "refresh_interval": 4, "learning_rate": 5e-7, "kl_weight": 0.01}
        | ADAM,
    ),
    (
        "OpenRLHF",
        {
            "rollout": {"n_samples_per_prompt": 8, "batch_size": 128},
            "train": {"batch_size": 256, "max_epochs": 2},
            "actor": {"adam": {"lr": 5e-7, "betas": [0.9, 0.95]}},
            "algo": {"kl": {"init_coef": 0.01}},
        },
        {"group_size": 8, "prompts_per_step": 128, "refresh_interval": 8, "learning_rate": 5e-7, "kl_weight": 0.01}
        | ADAM,
    ),
    (
        "NeMo-RL",
        {
            "grpo": {"num_generations_per_prompt": 16, "num_prompts_per_step": 32},
            "policy": {"train_global_batch_size": 512, "optimizer": {"kwargs": {"lr": 5e-6, "betas": [0.9, 0.999]}}},
            "loss_fn": {"reference_policy_kl_penalty": 0.01},
        },
        {"group_size": 16, "prompts_per_step": 32, "refresh_interval": 1, "learning_rate": 5e-6, "kl_weight": 0.01}
        | ADAM,
    ),
    (
        "prime-rl",
        {
            "orchestrator": {"group_size": 16, "batch_size": 512},
            "trainer": {"optim": {"lr": 1e-6, "betas1": 0.9}},
            "loss": {"kl_tau": 0.001},
        },
        {"group_size": 16, "prompts_per_step": 32, "refresh_interval": 1, "learning_rate": 1e-6, "kl_weight": 0.001}
        | ADAM,
    ),
    (
        "open-instruct",
        {
            "num_samples_per_prompt_rollout": 4,
            "num_unique_prompts_rollout": 16,
            "num_mini_batches": 2,
            "num_epochs": 1,
            "learning_rate": 1e-6,
            "lr_scheduler_type": "constant",
            "beta": 0.05,
        },
        {"group_size": 4, "prompts_per_step": 16, "refresh_interval": 2, "learning_rate": 1e-6, "kl_weight": 0.05},
    ),
    (
        "EasyR1",
        {
            "worker": {"rollout": {"n": 5}, "actor": {"global_batch_size": 128, "optim": {"lr": 1e-6}}},
            "data": {"rollout_batch_size": 512},
            "algorithm": {"disable_kl": True},
        },
        {"group_size": 5, "prompts_per_step": 512, "refresh_interval": 4, "learning_rate": 1e-6, "kl_weight": 0.0},
    ),
    (
        "own loop",
        {
            "group_size": 8,
            "rollout_batch_size": 256,
            "train_batch_size": 128,
            "epochs_per_rollout_batch": 2,
            "learning_rate": 4e-5,
            "adam_beta1": 0.9,
        },
        {"group_size": 8, "prompts_per_step": 32, "refresh_interval": 4, "learning_rate": 4e-5} | ADAM,
    ),
]


@pytest.mark.parametrize(("framework", "raw", "known"), STATED, ids=[f"{k}-{s[0]}" for k, s in enumerate(STATED)])
def test_a_configuration_is_translated(framework, raw, known):
    stated = translate(RawConfig(raw, "a file"))
    assert stated is not None
    assert stated.framework == framework
    values = {name: value for name, value in stated.values.items() if name != "step_unit"}
    assert values == known
    assert stated.values.keys() == stated.keys.keys()
    assert stated.values.get("step_unit", "rollout") == ("optimizer" if framework == "TRL" else "rollout")
    Configuration(**stated.values)


@pytest.mark.parametrize("raw", [{}, {"hidden_size": 64, "model_type": "llama"}, {"num_generations": None}])
def test_what_is_no_training_configuration(raw):
    assert translate(RawConfig(raw, "a file")) is None


@pytest.mark.parametrize("value", ["many", -8, 0, 2.5, [8], {"n": 8}, float("nan"), True])
def test_values_that_cannot_be_are_passed_over(value):
    stated = translate(RawConfig({"num_generations": value, "learning_rate": "fast", "beta": -1}, "a file"))
    assert stated is None or not stated.values.keys() & {"group_size", "learning_rate", "kl_weight"}


def test_keys_take_the_shallowest():
    keys = Keys({"a": {"b": {"lr": 1}}, "lr": None, "c": {"lr": 2}})
    assert keys.find("lr") == ("c.lr", 2)
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"x": deep}
    assert Keys(deep).find("lr") == ("", None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.json", json.dumps({"group_size": 4})),
        ("experiment_config.json", json.dumps({"worker": {"rollout": {"n": 4}}})),
        ("config.yaml", "grpo:\n  num_generations_per_prompt: 4\n"),
        ("hparams.yml", "num_generations: {value: 4, desc: null}\n"),
        ("args.toml", "[orchestrator]\ngroup_size = 4\n"),
        ("log_config.json", json.dumps({"group_size": 4})),
        (".hydra/config.yaml", "actor_rollout_ref: {rollout: {n: 4}}\n"),
        ("files/config.yaml", "num_generations: 4\n"),
    ],
)
def test_files_beside_a_log(tmp_path, name, text):
    path = write_csv(tmp_path / "log.csv", rows())
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    run = read_run(path)
    assert run.configuration.group_size == 4
    assert run.provenance["group_size"].startswith(f"{name.split('/')[-1]} beside the log (")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", b'{"group_size": 4'),
        ("config.json", b'{"a":' * 100_000),
        ("config.json", b"\xff\xfe\x00"),
        ("config.json", b'{"x": "' + b"a" * (2 << 20) + b'", "group_size": 4}'),
        ("config.yaml", b"a: &a [1]\nb: *a\ngroup_size: 4"),
        ("config.yaml", b"group_size: !!python/object/apply:os.system ['touch trap']"),
        ("config.yaml", b"[" * 5000),
        ("args.toml", b"group_size = "),
        ("notes.json", b'{"group_size": 4}'),
    ],
)
def test_hostile_and_foreign_files_are_passed_over(tmp_path, name, content, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write_csv(tmp_path / "log.csv", rows())
    (tmp_path / name).write_bytes(content)
    assert read_run(path).configuration.group_size is None
    assert not (tmp_path / "trap").exists()


def test_the_key_a_setting_came_from_is_safe_to_show(tmp_path):
    nasty = "\x1b]0;owned\x07" + "x" * 30_000
    (tmp_path / "config.json").write_text(json.dumps({nasty: {"num_generations": 4}}))
    origin = read_run(write_csv(tmp_path / "log.csv", rows())).provenance["group_size"]
    assert origin.isprintable()
    assert len(origin) < 200


def test_links_are_not_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "config.json").write_text('{"group_size": 4}')
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").symlink_to(tmp_path / "elsewhere" / "config.json")
    assert list(find_sidecars(tmp_path / "run" / "log.csv")) == []


def test_the_log_wins_over_the_file_beside_it_and_says_so(tmp_path):
    (tmp_path / "config.json").write_text('{"group_size": 4, "kl_coef": 0.1}')
    run = read_run(write_csv(tmp_path / "log.csv", rows(group_size=8)))
    assert (run.configuration.group_size, run.configuration.kl_weight) == (8, 0.1)
    assert any(
        "group_size is 8 by log (group_size column), but 4 by config.json beside the log (group_size); 8 is used." in w
        for w in run.warnings
    )
