"""Set-up common to all tests: float64, no display, and the folder of real traces where it exists."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

os.environ["MPLBACKEND"] = "Agg"
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="sde-grpo-tests-")  # nothing is written to the user's

import jax

jax.config.update("jax_enable_x64", True)


@pytest.fixture
def traces() -> Path:
    """The folder of real traces beside the checkout; skips the test where it is missing."""
    folder = Path(__file__).parents[2] / "shared" / "traces"
    if not folder.is_dir():
        pytest.skip("../shared/traces is not here: real logs are read where the folder exists")
    return folder
