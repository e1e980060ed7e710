"""TensorBoard: an event file, or the folder of one run with the files of all its launches."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sde_grpo.errors import require
from sde_grpo.runs.readers.base import Log, RawConfig
from sde_grpo.runs.readers.event_files import Damage, Value, looks_like_events, read_events
from sde_grpo.runs.readers.json_text import parse_line
from sde_grpo.runs.source import Source, files_in, folders_in, open_source, safe
from sde_grpo.runs.table import TableBuilder

NAME = "tfevents"
# Folders of single launches: TRL's runs/Dec01_04-48-25_host, and those of add_hparams, named by a time.
LAUNCH = re.compile(r"[A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2}_.*|\d{9,11}(\.\d+)?")
LAUNCHES = "runs"
MOST_FILES = 1_000
MOST_TAGS = 10_000
MOST_CONFIGS = 20
CONFIG_WORDS = ("args", "config", "hparam", "hyperparameter", "setting")
LONGEST_CONFIG = 2**20
HUGGING_FACE = "per_device_train_batch_size"


class TensorBoard:
    """Scalars by tag and step; texts that hold a JSON object, and hyperparameters, are configurations.

    The files of a folder belong to one run and are read in the order of their first wall time, so that a resumed
    launch follows the one it continues. Values at one step are one row, until a tag comes again.
    """

    format = "TensorBoard"

    def recognises(self, source: Source) -> bool:
        if source.is_folder:
            return bool(_event_files(source.path))
        return looks_like_events(source.head) or (NAME in source.path.name and b"\0" in source.head)

    def read(self, source: Source, wanted: frozenset[str]) -> Log:
        builder, configs, warnings = TableBuilder(wanted), [], []
        for file in _in_order(source):
            try:
                _read_file(file, builder, configs)
            except Damage as error:
                warnings.append(f"{file.name}: {error}; the file was read up to there. The run may still be writing.")
            if file is not source:
                warnings += file.warnings
        require(
            len(builder) > 0,
            f"{source.name}: the event file holds no scalars; name the file or the folder in which the reward was "
            f"logged.{' ' + warnings[0] if warnings else ''}",
        )
        trainer = next((config for config in configs if HUGGING_FACE in config.values), None)
        logging_steps = trainer.values.get("logging_steps") if trainer else None
        return Log(
            builder.table(),
            "row",
            step_unit="optimizer" if trainer else None,
            unit_source="log (Hugging Face's Trainer counts optimizer steps)" if trainer else "",
            logging_steps=float(logging_steps) if isinstance(logging_steps, (int, float)) else None,
            configs=tuple(configs),
            warnings=tuple(warnings),
        )


def _event_files(folder: Path) -> list[Path]:
    """Event files in the folder, in its launches' folders, or in those below ``runs``."""
    launches = [path for path in folders_in(folder) if LAUNCH.fullmatch(path.name)]
    runs = [path for path in folders_in(folder) if path.name == LAUNCHES]
    launches += [path for below in runs for path in folders_in(below) if LAUNCH.fullmatch(path.name)]
    return [file for place in (folder, *runs, *launches) for file in files_in(place) if NAME in file.name]


def _in_order(source: Source) -> list[Source]:
    if not source.is_folder:
        return [source]
    paths = _event_files(source.path)
    require(len(paths) <= MOST_FILES, f"{source.name} holds {len(paths)} event files; name the folder of one run.")
    return sorted(map(open_source, paths), key=lambda file: (_first_time(file), file.name))


def _first_time(file: Source) -> float:
    try:
        return next(read_events(file)).wall_time
    except (Damage, StopIteration):
        return 0.0


def _read_file(file: Source, builder: TableBuilder, configs: list[RawConfig]) -> None:
    step, row = None, {}
    try:
        for value in read_events(file):
            if not isinstance(value.content, float):
                _add_config(value, configs)
                continue
            if value.step != step or value.tag in row or len(row) >= MOST_TAGS:
                _add_row(builder, step, row)
                step, row = value.step, {}
            row[value.tag] = value.content
    finally:
        _add_row(builder, step, row)


def _add_row(builder: TableBuilder, step: int | None, row: dict[str, float]) -> None:
    if row:
        builder.add(len(builder) + 1, {"step": step, **row})


def _add_config(value: Value, configs: list[RawConfig]) -> None:
    values: Any = value.content
    if isinstance(values, str):
        start, end = values.find("{"), values.rfind("}")
        if not any(word in value.tag.lower() for word in CONFIG_WORDS) or not 0 <= start < end <= LONGEST_CONFIG:
            return
        try:
            values = parse_line(values[start : end + 1].encode())
        except (ValueError, RecursionError):
            return
    if isinstance(values, dict) and values:
        config = RawConfig(values, f"event text {safe(value.tag)}")
        if len(configs) < MOST_CONFIGS and all(config.values != known.values for known in configs):
            configs.append(config)
