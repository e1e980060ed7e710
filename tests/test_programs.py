"""Programs that are kept: used by other processes, named by everything they depend on, and not trusted blindly."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sde_grpo import programs
from sde_grpo.programs import Program

TRACED: list[str] = []


class Line(eqx.Module):
    """A tree of arrays with a static part."""

    slope: jax.Array | np.ndarray
    name: str = eqx.field(static=True)


def doubled(x: jax.Array) -> jax.Array:
    """A static argument; as one of the package's, its name stands for what it does."""
    return 2 * x


def drawn(key: jax.Array, line: Line, function, power: float = 1.0) -> dict[str, jax.Array]:
    """Arrays, keys and static parts in; a tree with a key out."""
    TRACED.append(line.name)
    key, other = jax.random.split(key)
    covariance = jnp.eye(2) * function(line.slope)[0]
    return {"key": key, "value": jax.random.normal(other, (2,)) @ jnp.linalg.cholesky(covariance) ** power}


for ours in (drawn, doubled):
    ours.__module__ = "sde_grpo.stand_in"
ARGS = (jax.random.key(1), Line(np.array([2.0, 3.0]), "a"), doubled)


@pytest.fixture
def folder(tmp_path: Path):
    """A cache folder for JAX, and so for us."""
    before = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    TRACED.clear()
    yield tmp_path / "programs"
    jax.config.update("jax_compilation_cache_dir", before)


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.program"))


def test_the_result_is_that_of_the_function(folder: Path) -> None:
    expected, found = drawn(*ARGS), Program(drawn)(*ARGS)
    np.testing.assert_allclose(found["value"], expected["value"], rtol=1e-14)
    assert jnp.array_equal(jax.random.key_data(found["key"]), jax.random.key_data(expected["key"]))


def test_what_is_kept_is_not_traced_again(folder: Path) -> None:
    first = Program(drawn)(*ARGS)
    again = Program(drawn)(*ARGS)  # as another process would
    assert TRACED == ["a"]
    np.testing.assert_array_equal(first["value"], again["value"])
    other = Program(drawn)(jax.random.key(2), Line(np.array([5.0, 3.0]), "a"), doubled)
    assert TRACED == ["a"]
    assert not np.allclose(other["value"], first["value"])


@pytest.mark.parametrize(
    "args",
    [
        (ARGS[0], Line(np.array([2.0, 3.0]), "b"), doubled),
        (ARGS[0], Line(np.array([2.0, 3.0, 4.0]), "a"), doubled),
        (ARGS[0], Line(np.array([2, 3]), "a"), doubled),
        (*ARGS, 2.0),
        (*ARGS, 1),
    ],
    ids=["static part", "shape", "type", "static argument", "type of a static argument"],
)
def test_whatever_a_program_depends_on_makes_another(folder: Path, args) -> None:
    Program(drawn)(*ARGS, 1.0)
    Program(drawn)(*args)
    assert len(TRACED) == len(files(folder)) == 2


def test_another_source_makes_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Program(drawn)(*ARGS)
    monkeypatch.setattr(programs, "_package_digest", lambda: "another version")
    Program(drawn)(*ARGS)
    assert len(TRACED) == len(files(folder)) == 2


def test_functions_of_others_are_not_kept(folder: Path) -> None:
    """Their source may change and their name stay."""
    for function in (jnp.exp, lambda x: 2 * x):
        Program(drawn)(*ARGS[:2], function)
    Program(jnp.exp)(np.ones(2))
    assert len(TRACED) == 2
    assert files(folder) == []


@pytest.mark.parametrize("content", [b"", b"no program", None], ids=["empty", "other", "cut short"])
def test_a_damaged_file_is_replaced(folder: Path, content: bytes | None) -> None:
    expected = Program(drawn)(*ARGS)
    (file,) = files(folder)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if content is None else content)
    np.testing.assert_array_equal(Program(drawn)(*ARGS)["value"], expected["value"])
    assert files(folder) == [file]
    assert len(TRACED) == 2
    Program(drawn)(*ARGS)
    assert len(TRACED) == 2


def test_a_folder_that_cannot_be_written_is_no_error(folder: Path) -> None:
    folder.write_text("a file in its place")
    Program(drawn)(*ARGS)
    Program(drawn)(*ARGS)
    assert TRACED == ["a", "a"]


def test_the_oldest_make_room(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Program(drawn)(*ARGS)
    (old,) = files(folder)
    os.utime(old, (0, 0))
    monkeypatch.setattr(programs, "LARGEST", old.stat().st_size * 3 // 2)
    Program(drawn)(*ARGS, 2.0)
    assert len(files(folder)) == 1
    assert not old.exists()


def test_threads_compile_it_once() -> None:
    TRACED.clear()
    program = Program(drawn)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: program(*ARGS)["value"], range(8)))
    assert TRACED == ["a"]
    for value in found:
        np.testing.assert_array_equal(value, found[0])


def test_within_another_trace_it_is_the_function() -> None:
    program = Program(doubled)
    np.testing.assert_allclose(jax.vmap(jax.grad(program))(jnp.arange(3.0)), 2.0)
    with jax.disable_jit():
        assert program(jnp.asarray(1.0)) == 2


OTHER_PROCESS = """
    import jax
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_compilation_cache_dir", {folder!r})
    import tests.test_programs as t
    for _ in range(2):
        print(t.Program(t.drawn)(*t.ARGS)["value"].tolist(), len(t.TRACED))
"""


def test_processes_share_programs_and_may_start_together(folder: Path) -> None:
    """Linear algebra included, which needs a library that only lowering would open."""
    command = [sys.executable, "-c", textwrap.dedent(OTHER_PROCESS).format(folder=str(folder.parent))]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.communicate(timeout=120)[0].splitlines() for process in started]
    assert [process.returncode for process in started] == [0, 0]
    later = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=True).stdout.splitlines()
    values = {line.rpartition(" ")[0] for lines in (*told, later) for line in lines}
    assert values == {str(drawn(*ARGS)["value"].tolist())}
    assert [line.rpartition(" ")[2] for line in later] == ["0", "0"]
    assert len(files(folder)) == 1
