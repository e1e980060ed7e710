"""Untrusted files: opened, unpacked, decoded and made safe to show. See the README of this folder."""

from __future__ import annotations

from sde_grpo.runs.source.folders import files_in, folders_in
from sde_grpo.runs.source.safe import safe, safe_cell
from sde_grpo.runs.source.source import Source, lines_of, open_source
from sde_grpo.runs.source.unpacking import require_bounded

__all__ = ["Source", "files_in", "folders_in", "lines_of", "open_source", "require_bounded", "safe", "safe_cell"]
