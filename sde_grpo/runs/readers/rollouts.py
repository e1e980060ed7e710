"""One line of JSON per completion, in one file or one a step: verl, NeMo-RL, prime-rl, open-instruct, OpenRLHF."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sde_grpo.errors import require
from sde_grpo.runs.cells import number_or_none
from sde_grpo.runs.configuration import StepUnit
from sde_grpo.runs.readers.base import Log
from sde_grpo.runs.readers.json_lines import first_lines, objects
from sde_grpo.runs.readers.json_text import parse_line
from sde_grpo.runs.samples import Samples
from sde_grpo.runs.source import Source, files_in, folders_in, open_source

REWARDS = ("reward", "rewards", "score", "scores")
STEPS = ("step", "training_step", "global_step")
# What names a group: an identity where there is one, else the prompt itself.
GROUPS = ("uid", "group_id", "prompt_id", "example_id", "problem_id", "prompt", "input", "question", "query")
COMPLETIONS = frozenset({"completion", "output", "response", "generation", "rollout", "trajectory", "content"})
STEP_FILE = re.compile(r"(?:.*\D)?(\d{1,12})\.jsonl(?:\.gz)?")
STEP_FOLDER = re.compile(r"step_(\d{1,12})")
# prime-rl writes what it sampled, and what it trained on after filtering; the first is the policy's success.
TRACES = ("train/all/traces.jsonl", "train/effective/traces.jsonl")
# Name of the first file -> format; each dumps one file a rollout batch.
KNOWN = {
    re.compile(r"\d+\.jsonl(\.gz)?"): "verl rollouts",
    re.compile(r"train_data_step\d+\.jsonl(\.gz)?"): "NeMo-RL training data",
    re.compile(r"traces\.jsonl(\.gz)?"): "prime-rl rollouts",
}


class Rollouts:
    """Rows with a reward, a completion, and what names its group; the step stands in the row or in the file's name.

    A folder may hold a file for each step (``17.jsonl``, ``train_data_step17.jsonl``), or prime-rl's ``step_17``.
    """

    format = "completions (JSON Lines)"

    def recognises(self, source: Source) -> bool:
        if not source.is_folder:
            return _holds_completions(source)
        return any(_holds_completions(open_source(path)) for _, path in _step_files(source.path)[:1])

    def read(self, source: Source, wanted: frozenset[str]) -> Log:
        samples, warnings = Samples(), []
        files = [(step, open_source(path)) for step, path in _step_files(source.path)]
        for named, file in files if source.is_folder else [(_step_of(source.path), source)]:
            for number, row in objects(file, warnings):
                step = next((value for name in STEPS if (value := _number(row.get(name))) is not None), named)
                require(
                    step is not None,
                    f"{file.name}, line {number}: the row has no step, and the file is not named by one.",
                )
                reward = next((row[name] for name in (*wanted, *REWARDS) if name in row and name not in STEPS), None)
                samples.add(step or 0.0, _number(reward), _group(row))
            if file is not source:
                warnings += file.warnings
        name = files[0][1].path.name if source.is_folder else source.path.name
        known = next((found for pattern, found in KNOWN.items() if pattern.fullmatch(name)), None)
        unit: StepUnit | None = "rollout" if known else None
        return samples.log(
            wanted,
            format=known or self.format,
            step_unit=unit,
            unit_source=f"log ({known}, one file a rollout batch)" if known else "",
            warnings=dict.fromkeys(warnings),
        )


def _holds_completions(source: Source) -> bool:
    """Whether the first rows are completions; rows of different steps are rather a curve with an example in each."""
    rows = list(_first_rows(source))
    steps = {str(row[name]) for row in rows for name in STEPS if name in row}
    return bool(rows) and len(steps) <= 1 and all(map(_is_completion, rows))


def _first_rows(source: Source) -> Iterator[dict[str, Any]]:
    for line in first_lines(source, 3) if source.head.lstrip().startswith(b"{") else ():
        try:
            row = parse_line(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(row, dict):
            return
        yield row


def _is_completion(row: dict[str, Any]) -> bool:
    reward = next((row[name] for name in REWARDS if name in row), None)
    named = "content" in row or any(name in row for name in GROUPS)
    return named and not COMPLETIONS.isdisjoint(row) and _number(reward) is not None


def _step_files(folder: Path) -> list[tuple[float, Path]]:
    """The files of the steps, in their order."""
    found = [(float(name[1]), path) for path in files_in(folder) if (name := STEP_FILE.fullmatch(path.name))]
    for below in folders_in(folder):
        if name := STEP_FOLDER.fullmatch(below.name):
            paths = [path for trace in TRACES for path in files_in((below / trace).parent) if path == below / trace]
            found += [(float(name[1]), path) for path in paths[:1]]
    return sorted(found)


def _step_of(path: Path) -> float | None:
    name = STEP_FILE.fullmatch(path.name)
    folder = next((found for part in path.parts if (found := STEP_FOLDER.fullmatch(part))), None)
    return float(name[1]) if name else float(folder[1]) if folder else None


def _number(cell: Any) -> float | None:
    """As `number_or_none`, and of NeMo-RL's lists of one number that number."""
    return number_or_none(cell[0] if isinstance(cell, list) and len(cell) == 1 else cell)


def _group(row: dict[str, Any]) -> int | None:
    """The group by its name; with NeMo-RL's list of messages, by all but the last of these."""
    found = next((row[name] for name in GROUPS if row.get(name) is not None), None)
    if found is None and isinstance(row.get("content"), list):
        content = row["content"]
        while len(content) == 1 and isinstance(content[0], list):
            content = content[0]
        found = content[:-1] or None
    return None if found is None else hash(found if isinstance(found, str) else repr(found))
