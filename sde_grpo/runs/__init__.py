"""Reward curves of GRPO runs: read from a trainer's log, cleaned, and checked. See the README of this folder."""

from __future__ import annotations

from sde_grpo.runs.configuration import Configuration
from sde_grpo.runs.read import read_run, read_runs, run_from_arrays
from sde_grpo.runs.run import Run, Series

__all__ = ["Configuration", "Run", "Series", "read_run", "read_runs", "run_from_arrays"]
