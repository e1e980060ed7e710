"""Help answers at once: nothing heavy is imported for it, and the public names load when they are used."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

import sde_grpo
from sde_grpo.cli import main
from tests.cli.commands import invoke

LIGHT = """
import sys
import sde_grpo
from sde_grpo.cli.app import app
for arguments in (["--help"], *([name, "--help"] for name in ("inspect", "fit", "check", "stability", "simulate"))):
    try:
        app(arguments)
    except SystemExit as stop:
        assert not stop.code, arguments
heavy = {"jax", "numpyro", "arviz", "pandas", "matplotlib", "diffrax", "equinox", "scipy", "xarray", "h5py"}
print("imported:", *sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize("command", [(), ("inspect",), ("fit",), ("check",), ("stability",), ("simulate",)], ids=str)
def test_help(command):
    result = invoke(*command, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.stdout
    assert result.stderr == ""


def test_nothing_heavy_is_imported_for_help():
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "imported:"


def test_entry_point():
    (script,) = entry_points(group="console_scripts", name="sde-grpo")
    assert script.load() is main


def test_public_names():
    assert len(sde_grpo.__all__) <= 25
    assert list(sde_grpo.__all__) == sorted(set(sde_grpo.__all__))
    for name in sde_grpo.__all__:
        assert getattr(sde_grpo, name) is not None
    assert dir(sde_grpo) == sde_grpo.__all__
    with pytest.raises(AttributeError, match=r"no attribute 'fit_rum'; public names: Configuration, Fit"):
        _ = sde_grpo.fit_rum
