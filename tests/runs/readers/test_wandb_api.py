"""The W&B client is played by a stand-in, for there is no server here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sde_grpo.errors import InputError
from sde_grpo.runs.readers.wandb_api import is_address, read_wandb
from tests.runs.readers.reading import numbers


class Run:
    config: ClassVar = {"num_generations": 8, "_wandb": {"t": {}}, "nested": {"lr": 1e-6}}

    def scan_history(self, page_size: int) -> Any:
        for step in range(2500):
            yield {"_step": step, "train/reward": step / 2500, "train/kl": None, "table": {"_type": "table-file"}}


class Client:
    def __init__(self, run: Any):
        self._run = run
        self.asked: list[str] = []

    def run(self, path: str) -> Any:
        self.asked.append(path)
        if isinstance(self._run, Exception):
            raise self._run
        return self._run


@pytest.mark.parametrize(
    "address",
    [
        "wandb:team/project/1a2b",
        "wandb://team/project/1a2b",
        "https://wandb.ai/team/project/runs/1a2b",
        str(Path("https://wandb.ai/team/project/runs/1a2b/overview")),
        "https://wandb.ai/team/project/runs/1a2b?nw=nwuser",
    ],
)
def test_addresses(address):
    client = Client(Run())
    assert is_address(address)
    log = read_wandb(address, client=client)
    assert client.asked == ["team/project/1a2b"]
    assert numbers(log, "train/reward") == [step / 2500 for step in range(2500)]
    assert log.configs[0].values == {"num_generations": 8, "nested": {"lr": 1e-6}}
    assert log.format == "W&B run"


def test_paths_are_no_addresses(tmp_path):
    assert not is_address(str(tmp_path / "wandb" / "run"))
    for address in ("wandb:project/run", "https://elsewhere.org/a/b/runs/c", "wandb:a/b"):
        with pytest.raises(InputError, match="is not the address of a W&B run; write wandb:entity/project/run"):
            read_wandb(address, client=Client(Run()))


@pytest.mark.parametrize("error", [ValueError("Could not find run \x1b[31m"), ConnectionError(), RuntimeError("401")])
def test_what_the_server_refuses(error):
    with pytest.raises(InputError, match=r"W&B did not give the run \((Could not find run .x1b|ConnectionError|401)"):
        read_wandb("wandb:a/b/c", client=Client(error))


def test_an_empty_run():
    empty = type("Empty", (), {"config": {}, "scan_history": lambda self, page_size: iter(())})()
    with pytest.raises(InputError, match="holds no rows"):
        read_wandb("wandb:a/b/c", client=Client(empty))


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(InputError, match=r"needs the package wandb.*sde-grpo\[wandb\]"):
        read_wandb("wandb:a/b/c")


def test_a_client_that_cannot_log_in(monkeypatch):
    broken = type("Broken", (), {"Api": staticmethod(lambda: 1 / 0)})()
    monkeypatch.setitem(sys.modules, "wandb", broken)
    with pytest.raises(InputError, match="logged in"):
        read_wandb("wandb:a/b/c")
