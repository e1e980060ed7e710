"""The configuration files that lie beside a log: looked for, parsed without running anything, and bounded."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sde_grpo.runs.readers.base import RawConfig
from sde_grpo.runs.source import files_in, safe

LARGEST = {".json": 1 << 20, ".yaml": 1 << 18, ".yml": 1 << 18, ".toml": 1 << 18}
# In the order in which they are looked for; a file named after the log comes before all of them.
NAMES = (
    "experiment_config",  # EasyR1
    "config",
    "args",  # ms-swift
    "grpo_config",
    "training_args",
    "run_config",
    "hparams",
    "params",
    "hyperparameters",
    "resolved_config",
    "training_metadata",
)
# Folders of a run in which its log lies one level below its configuration.
INNER = re.compile(
    r"checkpoint-\d+|runs|logs?|tensorboard|files|completions|orchestrator|trainer|[A-Z][a-z]{2}\d\d_\d\d-\d\d-\d\d_.*"
)


def find_sidecars(path: Path) -> Iterator[RawConfig]:
    """The configurations beside a log, the likeliest first; what cannot be parsed is passed over."""
    folder = path if path.is_dir() else path.parent
    folders = [folder, folder / ".hydra", folder / "files"]
    while INNER.fullmatch(folder.name) and len(folders) < 9:
        folder = folder.parent
        folders += [folder, folder / ".hydra"]
    stem = path.name.split(".")[0]
    for place in folders:
        for file in _likely(place, stem):
            if file != path and (values := _parse(file)) is not None:
                yield RawConfig(values, f"{safe(file.name)} beside the log")


def _likely(folder: Path, stem: str) -> list[Path]:
    ranks = {}
    for file in files_in(folder):
        name = file.name.split(".")[0].lower()
        if file.suffix not in LARGEST:
            continue
        if name in (f"{stem}_config".lower(), f"{stem}-config".lower()) or file.name == f"{stem}.config.json":
            ranks[file] = -1
        elif name in NAMES:
            ranks[file] = NAMES.index(name)
        elif name == stem.lower() and file.suffix != ".json":
            ranks[file] = -1
    return sorted(ranks, key=lambda file: (ranks[file], file.name))


def _parse(file: Path) -> dict[str, Any] | None:
    try:
        if file.stat().st_size > LARGEST[file.suffix]:
            return None
        text = file.read_text(encoding="utf-8-sig")
        values = {".json": json.loads, ".toml": tomllib.loads}.get(file.suffix, _yaml)(text)
    except (OSError, ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _yaml(text: str) -> Any:
    """YAML without aliases, which can make a short file unfold without end. Raises `ValueError`."""
    import yaml

    class Plain(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("the file uses aliases")
            return super().compose_node(parent, index)

    try:
        return yaml.load(text, Loader=Plain)  # a SafeLoader: plain values only
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
