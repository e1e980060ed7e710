"""Console output: the dicts that Hugging Face's Trainer prints, verl's ``step:N - key:value`` lines, and any other
text in which a step is followed by a reward, such as ``Step 3 | reward 0.5`` or NeMo-RL's paragraphs.

Nothing is evaluated: pairs are picked out of the text. Trainer dicts have no step, so their steps are reconstructed.
With rows i = 1 ... n of one stretch of training, epochs e_i and S optimizer steps per epoch,

    logging_steps = round(S median(e_{i+1} - e_i)),  step_i = round(S e_1) + (i - 1) logging_steps,

where S is the last step of the progress bar over the last epoch. A stretch ends where the epoch goes back: there a
restarted run was appended. Without a progress bar the rows are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

from sde_grpo.errors import InputError, require
from sde_grpo.runs.cells import number_or_none
from sde_grpo.runs.readers.base import Log, RawConfig
from sde_grpo.runs.source import Source
from sde_grpo.runs.table import TableBuilder

LONGEST = 1 << 16
MOST_PAIRS = 500
_DICT = re.compile(r"\{'[^{}]{1,65536}\}")
_DICT_PAIR = re.compile(r"'([^'\n]{1,200})': (?:'([^']{0,200})'|(?:[a-z][\w.]{1,40}\()?([^,'}()\]]{1,60}))")
_VERL = re.compile(r"(?:^|[\s)\]])step:(\d+) - ")
_VERL_PAIR = re.compile(r"(?:^| - )([A-Za-z][^\s:]{0,200}):(?:np\.\w+\()?([-+.\w]{1,40})\)?(?= - |\s*$)")
_BAR = re.compile(r"\s*\d{1,3}%\|[^|]{0,40}\| (\d{1,12})/(\d{1,12}) \[")
_ESCAPE = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_SETTING = re.compile(
    r"(?:^|[\s{(,])['\"]?(?:--)?([A-Za-z][\w.\-]{1,80})['\"]?\s{0,3}[:= ]\s{0,3}"
    r"['\"]?([-+.\w]{1,40})['\"]?(?=[\s,;)}]|$)"
)
_STEP = re.compile(r"\b(?:global[_ ])?step\W{0,3}(\d{1,9})(?![\d.])", re.IGNORECASE)
_REWARD = re.compile(
    r"(?<![\w/])((?:avg|average|mean|train)?[_ /]?rewards?(?:[_/ ]?(?:mean|avg))?)['\"]?\s{0,3}[:=|]?\s{0,3}"
    r"([-+]?\d{1,12}\.\d{1,20}(?:e[-+]?\d{1,3})?)",
    re.IGNORECASE,
)
_GROUP = re.compile(r"\bG ?= ?(\d{1,4})\b")
_SETTINGS = (
    "num_generations",
    "group_size",
    "num_iterations",
    "steps_per_generation",
    "gradient_accumulation_steps",
    "generation_batch_size",
    "n_samples_per_prompt",
    "rollout_batch_size",
    "train_batch_size",
    "ppo_mini_batch_size",
    "ppo_epochs",
    "num_samples_per_prompt_rollout",
    "num_unique_prompts_rollout",
    "rollout.n",
    "optim.lr",
    "kl_loss_coef",
    "use_kl_loss",
)


@dataclass
class _Seen:
    """What the lines between the rows said."""

    step: str | None = None
    last_step: int = 0
    whole: int = 0
    settings: dict[str, str] = field(default_factory=dict)


class Console:
    """Text that a trainer printed, progress bars and other output between the rows."""

    format = "console output"

    def recognises(self, source: Source) -> bool:
        head = source.head.decode("utf-8", errors="replace")
        if head.lstrip()[:1] in "{[":
            head = head.lstrip()
            return head.startswith("{'")
        signs = bool(_DICT.search(head) or _VERL.search(head) or "it/s]" in head or "***** Running training" in head)
        return signs or (len(_STEP.findall(head)) > 1 and len(_REWARD.findall(head)) > 1)

    def read(self, source: Source, wanted: frozenset[str]) -> Log:
        seen, verl, said, dicts = _Seen(), TableBuilder(wanted), TableBuilder(wanted), []
        for number, line in source.lines():
            for segment in line.split(b"\r"):
                text = _ESCAPE.sub("", segment[:LONGEST].decode("utf-8", errors="replace"))
                step = _VERL.search(text)
                if step is not None:
                    pairs = {name: value for name, value in _VERL_PAIR.findall(text[step.end() - 3 :])}
                    verl.add(number, {"step": step[1], **pairs})
                    continue
                found = [cells for cells in _dicts(text) if not _is_setting(cells)]
                dicts += [(number, cells) for cells in found]
                if not found:
                    _note(text, seen)
                    _hear(text, number, seen, said)
        configs = (RawConfig(seen.settings, "console output"),) if seen.settings else ()
        if len(said) > len(verl) + len(dicts):
            return Log(said.table(), "line", configs=configs)
        require(
            len(verl) > 0 or any(not _is_summary(cells) for _, cells in dicts),
            f"{source.name} looks like console output, but has no line with metrics (a dict with 'reward', or "
            "step:1 - ...); has the run logged anything yet?",
        )
        if len(verl) > len(dicts):
            return Log(verl.table(), "line", format="verl console output", configs=configs)
        return _trainer(dicts, seen, configs, wanted, source.name)


def _dicts(text: str) -> Iterator[dict[str, Any]]:
    for match in _DICT.finditer(text):
        cells: dict[str, Any] = {}
        for name, quoted, bare in _DICT_PAIR.findall(match[0]):
            cells[name] = quoted or bare.strip()
        if len(cells) > 1 and any(number_or_none(value) is not None for value in cells.values()):
            yield cells


def _note(text: str, seen: _Seen) -> None:
    bar = _BAR.match(text)
    if bar is not None:
        done, whole = int(bar[1]), int(bar[2])
        # The trainer's bar opens first; those of evaluations come later, and one of a longer run once it is finished.
        if not seen.whole or (whole > seen.whole == seen.last_step and done < seen.whole):
            seen.whole = whole
        if whole == seen.whole:
            seen.last_step = max(seen.last_step, done)
        return
    if len(seen.settings) >= MOST_PAIRS:
        return
    for name, value in _SETTING.findall(text):
        if name.lstrip("-").replace("-", "_").endswith(_SETTINGS):
            seen.settings.setdefault(name.lstrip("-").replace("-", "_"), value)
    group = _GROUP.search(text)
    if group is not None:
        seen.settings.setdefault("num_generations", group[1])


def _hear(text: str, number: int, seen: _Seen, said: TableBuilder) -> None:
    """The reward of a line that names one, at the last step that was named, in it or before it."""
    step, reward = _STEP.search(text), _REWARD.search(text)
    if step is not None:
        seen.step = step[1]
    if reward is not None and seen.step is not None:
        name = re.sub(r"[_ /]+", "_", reward[1].strip().lower()).replace("average", "avg").removesuffix("s")
        said.add(number, {"step": seen.step, name: reward[2]})


def _is_setting(cells: dict[str, Any]) -> bool:
    """Whether the trainer printed its arguments, rather than what it measured."""
    return not cells.keys() & {"loss", "reward"} and any(name.endswith(_SETTINGS) for name in cells)


def _is_summary(cells: dict[str, Any]) -> bool:
    return "train_runtime" in cells or (
        not cells.keys() & {"loss", "reward", "learning_rate", "grad_norm"}
        and not any(name.startswith(("eval_", "rewards/")) for name in cells)
    )


def _is_eval(cells: dict[str, Any]) -> bool:
    return any(name.startswith("eval_") for name in cells) and "reward" not in cells


def _trainer(
    dicts: list[tuple[int, dict[str, Any]]],
    seen: _Seen,
    configs: tuple[RawConfig, ...],
    wanted: frozenset[str],
    source: str,
) -> Log:
    rows = [(number, cells) for number, cells in dicts if not _is_summary(cells)]
    training = [cells for _, cells in rows if not _is_eval(cells)]
    if not training:
        raise InputError(f"{source}: the console output has no training row (a dict with 'reward').")
    builder = TableBuilder(wanted)
    if all("step" in cells or "global_step/max_steps" in cells for cells in training):
        for number, cells in rows:
            builder.add(number, cells)
        return Log(builder.table(), "line", format="console output of Hugging Face's Trainer", configs=configs)
    legs = _legs(training)
    per_epoch, every = _pace(training, legs, seen)
    steps: list[int] = []
    for leg in legs:
        epoch = number_or_none(training[leg[0]].get("epoch"))
        first = round(per_epoch * epoch) if per_epoch and epoch is not None else 0
        if leg is legs[0] or not first:
            first = every if abs(first - every) <= 1 or not first else first
        steps += [first + every * k for k in range(len(leg))]
    stamped = dict(zip(map(id, training), steps, strict=True))
    step = 0
    for number, cells in rows:
        step = stamped.get(id(cells), step)
        builder.add(number, {"step": step, **cells})
    why = f"counted {every} at a time, by the progress bar and the epochs" if every > 1 else "counted"
    return Log(
        builder.table(),
        "line",
        format="console output of Hugging Face's Trainer",
        step_unit="optimizer",
        unit_source="log (the trainer counts optimizer steps)",
        logging_steps=float(every),
        configs=configs,
        warnings=(f"The printed rows have no step: their steps were {why}.",),
    )


def _legs(rows: list[dict[str, Any]]) -> list[list[int]]:
    """The stretches of rows in which the epoch does not go back."""
    legs: list[list[int]] = [[]]
    last = float("-inf")
    for place, cells in enumerate(rows):
        epoch = number_or_none(cells.get("epoch"))
        if epoch is not None:
            if epoch < last:
                legs.append([])
            last = epoch
        legs[-1].append(place)
    return [leg for leg in legs if leg]


def _pace(rows: list[dict[str, Any]], legs: list[list[int]], seen: _Seen) -> tuple[float | None, int]:
    """Optimizer steps per epoch, where they can be told, and per row."""
    epochs = [number_or_none(cells.get("epoch")) for cells in rows]
    last = epochs[legs[-1][-1]]
    per_epoch = seen.last_step / last if seen.last_step and last else None
    gaps = [
        after - before
        for leg in legs
        for a, b in pairwise(leg)
        if (before := epochs[a]) is not None and (after := epochs[b]) is not None and after > before
    ]
    if per_epoch and gaps and len(legs) > 1:
        return per_epoch, max(1, round(per_epoch * median(gaps)))
    if seen.last_step and len(legs) == 1:
        return per_epoch, max(1, round(seen.last_step / len(rows)))
    first = epochs[legs[0][-1]]
    return (len(legs[0]) / first if first else None), 1
