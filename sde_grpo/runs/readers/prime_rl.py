"""The output folder of prime-rl: the orchestrator and the trainer each write a ``metrics.jsonl`` of their own."""

from __future__ import annotations

from pathlib import Path

from sde_grpo.runs.readers.base import Log
from sde_grpo.runs.readers.json_lines import objects
from sde_grpo.runs.source import Source, files_in, folders_in, open_source
from sde_grpo.runs.table import TableBuilder

ORCHESTRATOR, TRAINER = "orchestrator", "trainer"
FILE = "metrics.jsonl"


class PrimeRl:
    """Rewards are in the orchestrator's file, learning rate and entropy in the trainer's; rows share their steps."""

    format = "prime-rl output folder"

    def recognises(self, source: Source) -> bool:
        return source.is_folder and any(file.parent.name == ORCHESTRATOR for file in _files(source.path))

    def read(self, source: Source, wanted: frozenset[str]) -> Log:
        builder = TableBuilder(wanted)
        warnings: list[str] = []
        for file in _files(source.path):
            part = open_source(file)
            for _, item in objects(part, warnings):
                builder.add(len(builder) + 1, item)
            warnings += part.warnings
        return Log(
            builder.table(),
            "row",
            step_unit="rollout",
            unit_source="log (prime-rl takes one optimizer step a batch)",
            warnings=tuple(warnings),
        )


def _files(folder: Path) -> list[Path]:
    """The metrics files, the orchestrator's first."""
    files = [
        file
        for inner in folders_in(folder)
        if inner.name in (ORCHESTRATOR, TRAINER)
        for file in files_in(inner)
        if file.name.removesuffix(".gz") == FILE
    ]
    return sorted(files, key=lambda file: file.parent.name)
