"""What lies in a folder, without following links: the folder may be someone else's, and a link lead anywhere."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from sde_grpo.runs.source.limits import MOST_ENTRIES


def files_in(folder: Path) -> list[Path]:
    """The regular files of a folder in the order of their names; none where it cannot be read."""
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
                if (entry.is_dir(follow_symlinks=False) if folders else entry.is_file(follow_symlinks=False))
            )
    except (OSError, ValueError):
        return []
