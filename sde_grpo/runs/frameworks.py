"""A trainer's own configuration in our terms: G, P, learning rate, momentum, KL weight, K_ref, under each one's names.

K_ref is the number of optimizer updates per sampled batch. It is, with the trainers' own words for the sizes,

- TRL, ms-swift, unsloth: steps_per_generation num_iterations / gradient_accumulation_steps
- verl: train_batch_size / ppo_mini_batch_size ppo_epochs, both counted in prompts
- EasyR1: rollout_batch_size / global_batch_size ppo_epochs
- OpenRLHF: rollout_batch_size n_samples_per_prompt / train_batch_size max_epochs
- NeMo-RL: num_prompts_per_step num_generations_per_prompt / train_global_batch_size
- open-instruct: num_mini_batches num_epochs; tinker-cookbook: num_substeps; prime-rl: 1
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sde_grpo.errors import InputError
from sde_grpo.runs.cells import number_or_none
from sde_grpo.runs.configuration import Configuration
from sde_grpo.runs.readers.base import RawConfig
from sde_grpo.runs.source import safe

MOST_KEYS = 20_000
DEEPEST = 20
CONSTANT = ("constant", "constant_with_warmup")


@dataclass
class Stated:
    """What a configuration states: fields of `Configuration`, the keys each came from, and further facts."""

    framework: str
    origin: str
    values: dict[str, Any] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def set(self, name: str, value: Any, *keys: str) -> None:
        """One field, unless the value is missing or out of range."""
        try:
            known = Configuration(**{name: value}).known()
        except InputError:
            return
        if known:
            self.values |= known
            self.keys[name] = ", ".join(map(safe, keys))


class Keys:
    """Look-up by the end of a dotted name: ``rollout.n`` finds ``actor_rollout_ref.rollout.n``."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._flat: dict[str, Any] = {}
        pending: list[tuple[str, Any, int]] = [("", values, 0)]
        while pending and len(self._flat) < MOST_KEYS:
            prefix, value, depth = pending.pop()
            if isinstance(value, Mapping) and set(value) <= {"value", "desc"} and "value" in value:
                value = value["value"]  # W&B's config.yaml
            if isinstance(value, Mapping) and depth < DEEPEST:
                for key, inner in list(value.items())[:MOST_KEYS]:
                    name = str(key).replace("/", ".")
                    pending.append((f"{prefix}.{name}" if prefix else name, inner, depth + 1))
            else:
                self._flat.setdefault(prefix, value)

    def find(self, *names: str) -> tuple[str, Any]:
        """The shortest key that is, or ends in, the first of `names` that has a value; ("", None) without any."""
        for name in names:
            ends = [key for key in self._flat if (key == name or key.endswith("." + name))]
            for key in sorted(ends, key=lambda key: (key.count("."), len(key))):
                if self._flat[key] is not None:
                    return key, self._flat[key]
        return "", None

    def value(self, *names: str) -> Any:
        """The value alone."""
        return self.find(*names)[1]

    def on(self, *names: str) -> bool:
        """Whether the value is true, as such or as text."""
        return str(self.value(*names)).lower() == "true"

    def number(self, *names: str) -> float | None:
        """The value as a number."""
        return number_or_none(self.value(*names))


def translate(raw: RawConfig) -> Stated | None:
    """What the configuration states, or None where it is not one of a trainer."""
    keys = Keys(raw.values)
    for framework, sign, read in _FRAMEWORKS:
        if keys.find(*sign)[0]:
            stated = Stated(framework, raw.origin)
            read(keys, stated)
            _read_common(keys, stated)
            return stated
    return None


def _read_common(keys: Keys, stated: Stated) -> None:
    version = keys.value("versions.trl", "trl_version", "trl")
    if isinstance(version, str) and re.fullmatch(r"\d+(\.\w+)*", version):
        stated.facts["trl_version"] = version
    for fact, names in {
        "scale_rewards": ("scale_rewards",),
        "multi_objective_aggregation": ("multi_objective_aggregation",),
        "reward_weights": ("reward_weights",),
    }.items():
        if (value := keys.value(*names)) is not None:
            stated.facts[fact] = value
    switches = (
        "filter_groups.enable",
        "online_filtering",
        "dynamic_filtering",
        "dynamic_sampling",
        "dynamic_sample",
        "use_dynamic_sampling",
        "filter_zero_std_samples",
        "active_sampling",
    )
    for name in switches:
        if keys.on(name):
            stated.facts["filtering"] = f"{stated.origin} ({safe(keys.find(name)[0])})"
    _read_lag(keys, stated)


def _read_lag(keys: Keys, stated: Stated) -> None:
    """How far sampling may run ahead of training, where the trainer lets it."""
    for switch, knob in _AHEAD:
        key, value = keys.find(knob)
        on = switch is None or keys.on(switch)
        if on and (keys.on(knob) or (number_or_none(value) or 0) > 0):
            stated.facts["lag"] = f"{safe(key)} {value} by {stated.origin}"
            return


_AHEAD: tuple[tuple[str | None, str], ...] = (
    (None, "async_generate"),  # ms-swift
    (None, "max_staleness"),  # TRL's asynchronous trainer
    (None, "orchestrator.max_off_policy_steps"),
    (None, "async_training.staleness_threshold"),  # verl
    ("async_grpo.enabled", "async_grpo.max_trajectory_age_steps"),  # NeMo-RL
    ("async_enable", "async_queue_size"),  # OpenRLHF
    (None, "async_steps"),  # open-instruct
)


def _count(stated: Stated, name: str, parts: Sequence[float | None], over: Sequence[float | None], *keys: str) -> None:
    """A whole number: the product of `parts` over the product of `over`."""
    value = 1.0
    for part in parts:
        if part is None:
            return
        value *= part
    for part in over:
        if not part:
            return
        value /= part
    if value == int(value):
        stated.set(name, int(value), *keys)


def _pick(keys: Keys, stated: Stated, name: str, *names: str) -> None:
    """One field, as it stands under the first of `names` that is there."""
    key, value = keys.find(*names)
    if key:
        value = number_or_none(value)
        counts = name in ("group_size", "prompts_per_step", "refresh_interval")
        stated.set(name, int(value) if counts and value is not None and value == int(value) else value, key)


def _rate(keys: Keys, stated: Stated, schedule: tuple[str, ...], *names: str) -> None:
    """The learning rate, unless a schedule changes it: then only that is noted."""
    scheduler = keys.value(*schedule)
    warm_up = max(keys.number("warmup_ratio", "lr_warmup_steps_ratio") or 0.0, keys.number("warmup_steps") or 0.0)
    if scheduler is not None and (str(scheduler).lower().split(".")[-1] not in CONSTANT):
        stated.facts["schedule"] = f"{safe(str(scheduler))} by {stated.origin}"
        return
    if str(scheduler) == "constant_with_warmup" and warm_up > 0:
        stated.facts["schedule"] = f"{safe(str(scheduler))} by {stated.origin}"
        return
    _pick(keys, stated, "learning_rate", *names)


def _betas(keys: Keys, stated: Stated, *names: str) -> None:
    """Adam's beta1 from a pair of betas, which may be text."""
    key, betas = keys.find(*names)
    if isinstance(betas, str):
        betas = re.findall(r"[\d.]+", betas)
    if isinstance(betas, (list, tuple)) and betas:
        stated.set("momentum", number_or_none(betas[0]), key)
        if "momentum" in stated.values:
            stated.set("momentum_kind", "ema", key)


def _trl(keys: Keys, stated: Stated) -> None:
    _pick(keys, stated, "group_size", "num_generations")
    size = keys.number("num_generations")
    per_device, accumulation = keys.number("per_device_train_batch_size"), keys.number("gradient_accumulation_steps")
    steps = keys.number("steps_per_generation") or accumulation
    world = keys.number("world_size", "num_processes")
    if keys.number("generation_batch_size"):
        batch = [keys.number("generation_batch_size")]
        _count(stated, "prompts_per_step", batch, [size], "generation_batch_size / num_generations")
    elif keys.number("prompts_per_generation_batch"):
        _pick(keys, stated, "prompts_per_step", "prompts_per_generation_batch")
    elif world:
        _count(
            stated,
            "prompts_per_step",
            [per_device, world, steps],
            [size],
            "per_device_train_batch_size world_size steps_per_generation / num_generations",
        )
    iterations = keys.number("num_iterations") or 1.0
    words = "steps_per_generation num_iterations / gradient_accumulation_steps"
    _count(stated, "refresh_interval", [steps, iterations], [accumulation], words)
    _rate(keys, stated, ("lr_scheduler_type",), "learning_rate")
    optimizer = str(keys.value("optim") or "").lower().split(".")[-1]
    if "adam" in optimizer or "lion" in optimizer:
        _pick(keys, stated, "momentum", "adam_beta1")
        if "momentum" in stated.values:
            stated.set("momentum_kind", "ema", "optim")
    elif optimizer == "sgd":
        given = re.search(r"momentum\s*=\s*([\d.eE+-]+)", str(keys.value("optim_args")))
        stated.set("momentum", number_or_none(given[1]) if given else 0.0, "optim_args" if given else "optim")
        stated.set("momentum_kind", "heavy_ball", "optim")
    _pick(keys, stated, "kl_weight", "beta")
    if logging_steps := keys.number("logging_steps"):
        stated.facts["logging_steps"] = logging_steps
    stated.set("step_unit", "optimizer", "the trainer counts optimizer steps")


def _verl(keys: Keys, stated: Stated) -> None:
    _pick(keys, stated, "group_size", "actor_rollout_ref.rollout.n", "rollout.n")
    _pick(keys, stated, "prompts_per_step", "data.train_batch_size")
    prompts, mini = keys.number("data.train_batch_size"), keys.number("actor.ppo_mini_batch_size")
    epochs = keys.number("actor.ppo_epochs") or 1.0
    words = "data.train_batch_size / ppo_mini_batch_size ppo_epochs"
    _count(stated, "refresh_interval", [prompts, epochs], [mini], words)
    _rate(keys, stated, ("actor.optim.lr_scheduler_type", "actor.optim.warmup_style"), "actor.optim.lr")
    _betas(keys, stated, "actor.optim.betas")
    if keys.on("actor.use_kl_loss"):
        _pick(keys, stated, "kl_weight", "actor.kl_loss_coef")
    elif keys.on("algorithm.use_kl_in_reward"):
        _pick(keys, stated, "kl_weight", "algorithm.kl_ctrl.kl_coef")
    elif keys.value("actor.use_kl_loss") is not None:
        stated.set("kl_weight", 0.0, "actor.use_kl_loss")
    stated.set("step_unit", "rollout", "one step is one rollout batch")


def _easyr1(keys: Keys, stated: Stated) -> None:
    _pick(keys, stated, "group_size", "worker.rollout.n")
    _pick(keys, stated, "prompts_per_step", "data.rollout_batch_size")
    prompts, batch = keys.number("data.rollout_batch_size"), keys.number("worker.actor.global_batch_size")
    epochs = keys.number("worker.actor.ppo_epochs") or 1.0
    words = "data.rollout_batch_size / worker.actor.global_batch_size ppo_epochs"
    _count(stated, "refresh_interval", [prompts, epochs], [batch], words)
    _rate(keys, stated, ("worker.actor.optim.lr_scheduler_type",), "worker.actor.optim.lr")
    _betas(keys, stated, "worker.actor.optim.betas")
    if keys.on("algorithm.disable_kl"):
        stated.set("kl_weight", 0.0, "algorithm.disable_kl")
    else:
        _pick(keys, stated, "kl_weight", "algorithm.kl_coef")
    stated.set("step_unit", "rollout", "one step is one rollout batch")


def _openrlhf(keys: Keys, stated: Stated) -> None:
    _pick(keys, stated, "group_size", "n_samples_per_prompt")
    _pick(keys, stated, "prompts_per_step", "rollout.batch_size", "rollout_batch_size")
    prompts, size = keys.number("rollout.batch_size", "rollout_batch_size"), keys.number("n_samples_per_prompt")
    batch = keys.number("train.batch_size", "train_batch_size")
    epochs = keys.number("train.max_epochs", "max_epochs") or 1.0
    words = "rollout_batch_size n_samples_per_prompt / train_batch_size max_epochs"
    _count(stated, "refresh_interval", [prompts, size, epochs], [batch], words)
    _rate(keys, stated, ("actor.lr_scheduler", "lr_scheduler"), "actor.adam.lr", "actor_learning_rate")
    _betas(keys, stated, "actor.adam.betas", "adam_betas")
    _pick(keys, stated, "kl_weight", "algo.kl.init_coef", "init_kl_coef")
    stated.set("step_unit", "rollout", "one step is one rollout batch")


def _nemo(keys: Keys, stated: Stated) -> None:
    _pick(keys, stated, "group_size", "num_generations_per_prompt")
    _pick(keys, stated, "prompts_per_step", "num_prompts_per_step")
    sizes = [keys.number("num_prompts_per_step"), keys.number("num_generations_per_prompt")]
    words = "num_prompts_per_step num_generations_per_prompt / train_global_batch_size"
    _count(stated, "refresh_interval", sizes, [keys.number("policy.train_global_batch_size")], words)
    _pick(keys, stated, "learning_rate", "policy.optimizer.kwargs.lr")
    _betas(keys, stated, "policy.optimizer.kwargs.betas")
    _pick(keys, stated, "kl_weight", "loss_fn.reference_policy_kl_penalty")
    stated.set("step_unit", "rollout", "one step is one rollout batch")


def _prime(keys: Keys, stated: Stated) -> None:
    names = ("orchestrator.group_size", "orchestrator.rollouts_per_example", "rollouts_per_example", "group_size")
    _pick(keys, stated, "group_size", *names)
    batch = keys.number("orchestrator.batch_size", "batch_size")
    _count(stated, "prompts_per_step", [batch], [keys.number(*names)], "batch_size / group_size")
    _rate(keys, stated, ("trainer.scheduler.type", "scheduler.type"), "trainer.optim.lr", "optim.lr")
    _pick(keys, stated, "momentum", "trainer.optim.betas1", "optim.betas1")
    if "momentum" in stated.values:
        stated.set("momentum_kind", "ema", stated.keys["momentum"])
    _pick(keys, stated, "kl_weight", "loss.kl_tau")
    stated.set("refresh_interval", 1, "the trainer takes one optimizer step a batch")
    stated.set("step_unit", "rollout", "one step is one rollout batch")


def _open_instruct(keys: Keys, stated: Stated) -> None:
    _pick(keys, stated, "group_size", "num_samples_per_prompt_rollout")
    _pick(keys, stated, "prompts_per_step", "num_unique_prompts_rollout")
    updates = [keys.number("num_mini_batches") or 1.0, keys.number("num_epochs") or 1.0]
    _count(stated, "refresh_interval", updates, [], "num_mini_batches num_epochs")
    _rate(keys, stated, ("lr_scheduler_type",), "learning_rate")
    _pick(keys, stated, "kl_weight", "beta")
    stated.set("step_unit", "rollout", "one step is one rollout batch")


def _own(keys: Keys, stated: Stated) -> None:
    """tinker-cookbook, and own loops that use the field's usual names."""
    _pick(keys, stated, "group_size", "group_size")
    _pick(keys, stated, "prompts_per_step", "prompts_per_step", "groups_per_batch", "n_prompts_per_rollout_batch")
    _pick(keys, stated, "refresh_interval", "refresh_interval", "num_substeps")
    passes, batch = keys.number("epochs_per_rollout_batch"), keys.number("rollout_batch_size")
    if passes and batch:
        if "prompts_per_step" not in stated.values:
            words = "rollout_batch_size / group_size"
            _count(stated, "prompts_per_step", [batch], [keys.number("group_size")], words)
        words = "epochs_per_rollout_batch rollout_batch_size / train_batch_size"
        _count(stated, "refresh_interval", [passes, batch], [keys.number("train_batch_size")], words)
    _rate(keys, stated, ("lr_scheduler_type", "lr_schedule"), "learning_rate", "lr")
    _pick(keys, stated, "momentum", "momentum", "adam_beta1", "beta1")
    kind = keys.value("momentum_kind")
    if "momentum" in stated.values:
        adam = stated.keys["momentum"].endswith("beta1")
        stated.set("momentum_kind", kind if kind is not None else "ema" if adam else None, stated.keys["momentum"])
        if kind is None and not adam:
            stated.keys.pop("momentum_kind", None)
    _pick(keys, stated, "kl_weight", "kl_weight", "kl_penalty_coef", "kl_coef")
    for name in ("lag_schedule", "step_unit"):
        key, value = keys.find(name)
        stated.set(name, value, key)


_FRAMEWORKS: tuple[tuple[str, tuple[str, ...], Callable[[Keys, Stated], None]], ...] = (
    ("NeMo-RL", ("num_generations_per_prompt",), _nemo),
    ("verl", ("actor_rollout_ref.rollout.n", "actor_rollout_ref.actor.optim.lr"), _verl),
    ("EasyR1", ("worker.rollout.n",), _easyr1),
    ("OpenRLHF", ("n_samples_per_prompt",), _openrlhf),
    ("open-instruct", ("num_samples_per_prompt_rollout",), _open_instruct),
    ("TRL", ("num_generations",), _trl),
    ("prime-rl", ("orchestrator.group_size", "rollouts_per_example"), _prime),
    ("own loop", ("group_size",), _own),
)
