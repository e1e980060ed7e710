"""verl's rollout dumps: one line of JSON per completion, one file per step."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sde_grpo.errors import require
from sde_grpo.runs.cells import number_or_none
from sde_grpo.runs.readers.base import Log
from sde_grpo.runs.readers.json_lines import objects
from sde_grpo.runs.readers.json_text import parse_line
from sde_grpo.runs.samples import Samples
from sde_grpo.runs.source import Source, files_in, open_source

STEP_FILE = re.compile(r"(\d{1,12})\.jsonl(\.gz)?")
COLUMNS = {"input", "output", "score"}
GROUPS = ("uid", "input")


class Rollouts:
    """What ``trainer.rollout_data_dir`` receives: a folder of ``<step>.jsonl``, or one of these files.

    The completions of one prompt (the same ``uid``, or else the same ``input``) are a group.
    """

    format = "verl rollouts"

    def recognises(self, source: Source) -> bool:
        files = _step_files(source.path) if source.is_folder else []
        if source.is_folder and not files:
            return False
        try:
            head = open_source(files[0][1]).head if files else source.head
            first = parse_line(head.split(b"\n", 1)[0])
        except (ValueError, RecursionError):
            return False
        return isinstance(first, dict) and first.keys() >= COLUMNS

    def read(self, source: Source, wanted: frozenset[str]) -> Log:
        files = [(step, open_source(path)) for step, path in _step_files(source.path)] if source.is_folder else []
        if not source.is_folder:
            name = STEP_FILE.fullmatch(source.path.name)
            files = [(float(name[1]) if name else None, source)]
        samples, warnings = Samples(), []
        score = next((name for name in wanted if name not in ("step", *COLUMNS)), "score")
        for named, file in files:
            for _, row in objects(file, warnings):
                step = number_or_none(row.get("step"))
                step = named if step is None else step
                require(step is not None, f"{file.name}: the rows have no step, and the file is not named by one.")
                samples.add(float(step or 0.0), number_or_none(row.get(score)), _group(row))
            if file is not source:
                warnings += file.warnings
        return samples.log(
            wanted,
            step_unit="rollout",
            unit_source="log (verl dumps one file a rollout batch)",
            warnings=dict.fromkeys(warnings),
        )


def _step_files(folder: Path) -> list[tuple[float, Path]]:
    matched = [(STEP_FILE.fullmatch(path.name), path) for path in files_in(folder)]
    return sorted((float(name[1]), path) for name, path in matched if name)


def _group(row: dict[str, Any]) -> int | None:
    found = next((row[name] for name in GROUPS if row.get(name) is not None), None)
    return None if found is None else hash(found if isinstance(found, str) else repr(found))
