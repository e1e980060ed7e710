"""What lies in a folder, without following links: the folder may be someone else's, and a link lead anywhere."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from sde_grpo.runs.source.limits import MOST_ENTRIES


def files_in(folder: Path) -> list[Path]:
    """The files of a folder that are not empty, in the order of their names; none where it cannot be read."""
    return _listed(folder, folders=False)


def folders_in(folder: Path) -> list[Path]:
    """The folders in a folder, likewise."""
    return _listed(folder, folders=True)


def _listed(folder: Path, folders: bool) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                Path(entry.path)
                for entry in islice(entries, MOST_ENTRIES)
                if (entry.is_dir(follow_symlinks=False) if folders else _is_filled_file(entry))
            )
    except (OSError, ValueError):
        return []


def _is_filled_file(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_size > 0
