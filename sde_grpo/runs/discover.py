"""The logs below a folder: every file or folder that a reader recognises, each run once.

Links are not followed, and at most `MOST_FOLDERS` folders of at most `DEEPEST` levels are looked at.

A trainer may leave the same run several times: Hugging Face's as trainer_state.json, in every checkpoint, as event
files, and on the console. Then the first of these is taken, and the newest checkpoint where there is none at the top.
"""

from __future__ import annotations

import re
from pathlib import Path

from sde_grpo.errors import InputError
from sde_grpo.runs.readers import READERS, Reader
from sde_grpo.runs.readers.json_document import JsonDocument
from sde_grpo.runs.readers.json_lines import JsonLines
from sde_grpo.runs.sidecars import INNER, NAMES
from sde_grpo.runs.source import files_in, folders_in, open_source
from sde_grpo.runs.source.limits import HEAD

DEEPEST = 8
MOST_FOLDERS = 5_000
MOST_FILES = 20_000
SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".log", ".txt", ".out", ".parquet")
OTHERS = re.compile(r"tokenizer|vocab|.*\.index")  # large JSON files of a model
_KEYS = tuple(
    (kind, re.compile(rb'"[^"\n]{0,80}(?:' + words + rb')[^"\n]{0,80}"\s{0,9}:', re.IGNORECASE))
    for kind, words in ((JsonDocument, rb"reward|score|acc"), (JsonLines, rb"reward|score|acc|step|iteration"))
)
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_STATE, _FOLDER, _CHECKPOINTED, _INNER = range(4)  # records of one run, the best first


def find_logs(folder: Path) -> list[Path]:
    """The logs below `folder`, itself included, sorted by path; files that are no log are passed over."""
    logs: list[Path] = []
    records: dict[Path, list[tuple[int, int, Path]]] = {}
    pending = [(folder, 0)]
    looked_at = files = 0
    while pending and looked_at < MOST_FOLDERS and files < MOST_FILES:
        place, depth = pending.pop()
        looked_at += 1
        whole = _reader(place)
        if whole is not None:
            records.setdefault(_run_folder(place, folder), []).append((_FOLDER, 0, place))
        if depth < DEEPEST:
            inner = folders_in(place)
            pending += [(f, depth + 1) for f in inner if whole is None or not INNER.fullmatch(f.name)]
        for file in files_in(place):
            files += 1
            state = file.name.removesuffix(".gz") == "trainer_state.json"
            if (not state and (whole is not None or not _may_be_a_log(file))) or (reader := _reader(file)) is None:
                continue
            checkpoint = _CHECKPOINT.fullmatch(place.name)
            run = _run_folder(place, folder)
            if checkpoint and state:
                records.setdefault(run, []).append((_CHECKPOINTED, -int(checkpoint[1]), file))
            elif state:
                records.setdefault(run, []).append((_STATE, 0, file))
            elif reader.format in ("TensorBoard", "console output") or run != place:
                records.setdefault(run, []).append((_INNER, 0, file))
            else:
                logs.append(file)
    for ranked in records.values():
        best = min(ranked)
        logs += [path for rank, _, path in ranked if rank == best[0]] if best[0] in (_FOLDER, _INNER) else [best[2]]
    return sorted(logs)


def _run_folder(place: Path, top: Path) -> Path:
    """The folder of the run that a file in `place` belongs to."""
    while place != top and INNER.fullmatch(place.name):
        place = place.parent
    return place


def _may_be_a_log(file: Path) -> bool:
    name = file.name.removesuffix(".gz")
    if ".tfevents." in name:
        return True
    stem = name.rpartition(".")[0]
    if stem.split(".")[0].lower() in NAMES or OTHERS.fullmatch(stem) or file.name.startswith("."):
        return False
    return name.lower().endswith(SUFFIXES)


def _reader(path: Path) -> Reader | None:
    try:
        source = open_source(path)
        reader = next((reader for reader in READERS if reader.recognises(source)), None)
    except InputError:
        return None
    key = next((key for kind, key in _KEYS if isinstance(reader, kind)), None)
    if key is not None and not (key.search(source.head) or len(source.head) == HEAD):
        return None  # the configuration of a model, the prompts, ...
    return reader
