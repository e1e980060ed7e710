"""Work sent to a Dask cluster comes back as if it had been done here."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sde_grpo import InputError
from sde_grpo.cli.workers import here, on_dask
from sde_grpo.errors import require
from tests.cli.commands import DATA, invoke

JOBS = [(name, (number, 5)) for name, number in zip("abcdefg", range(13, 20), strict=True)]
LOGS = (DATA / "near-G8-s0.csv", DATA / "far-G8-s0.csv")


def test_every_job_comes_back_with_its_result() -> None:
    assert sorted(on_dask(divmod, JOBS, "local")) == list(here(divmod, JOBS))


def test_our_own_errors_come_back_with_their_job() -> None:
    jobs = [("good", (True, "")), ("bad", (False, "this log will not do"))]
    for way in (here(require, jobs), on_dask(require, jobs, "local")):
        errors = {done.job: done.error for done in way}
        assert errors["good"] is None
        assert str(errors["bad"]) == "this log will not do"


def test_other_errors_are_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        list(on_dask(divmod, [("a", (1, 0))], "local"))


def test_nobody_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no scheduler answers there"):
        list(on_dask(divmod, JOBS, "127.0.0.1:9"))
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'sde-grpo\[dask\]'"):
        list(on_dask(divmod, JOBS, "local"))


def test_a_cluster_gives_the_same_fits(tmp_path: Path) -> None:
    found = []
    for name, extra in (("here", ()), ("there", ("--dask", "local"))):
        result = invoke("fit", *LOGS, "--engine", "laplace", "--out", tmp_path / name, *extra)
        assert result.exit_code == 0, result.output
        found.append([json.loads((tmp_path / name / log.stem / "summary.json").read_text()) for log in LOGS])
        assert (tmp_path / name / "runs.csv").read_text().count("fitted") == len(LOGS)
    for one, other in zip(*found, strict=True):
        assert one["parameters"] == other["parameters"]
        assert one["checks"] == other["checks"]
