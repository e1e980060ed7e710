"""Compiled programs that outlive the process: what was compiled once is neither traced nor compiled again.

JAX's own cache saves the compiler's time, not that of tracing and lowering a model, which is as long as a fit itself.
Here the finished machine code is kept, in the folder ``programs`` of JAX's compilation cache. It is switched on as that
cache is, by ``jax_compilation_cache_dir`` (the command line does so); without it programs live as long as the process.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import os
import pickle
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jaxlib.lapack
import jaxlib.xla_client
import numpy as np
from jax.experimental.serialize_executable import deserialize_and_load, serialize

from sde_grpo.files import write_atomically

LARGEST = 256 * 2**20  # bytes of programs kept; those unused for longest go first
_PACKAGE = Path(__file__).parent


class _Signature(NamedTuple):
    """What a program is compiled for: the tree of its arguments, its arrays' shapes and types, everything else."""

    tree: Any
    arrays: tuple[tuple[tuple[int, ...], Any], ...]
    static: tuple[tuple[type, Any] | None, ...]  # one per leaf of the tree, None for an array


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic)


@functools.cache
def _package_digest() -> str:
    """Of every source file of this package, and of the packages whose code is traced with it."""
    digest = hashlib.sha256()
    for file in sorted(_PACKAGE.rglob("*.py")):
        digest.update(str(file.relative_to(_PACKAGE)).encode() + file.read_bytes())
    digest.update(repr([version(name) for name in ("jax", "jaxlib", "numpyro", "equinox")]).encode())
    return digest.hexdigest()


def _device() -> Any:
    default = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    return default if isinstance(default, jax.Device) else jax.devices(default)[0]


def _describe(leaf: Any) -> str | None:
    """Text that is the same in every process, or None: a function of another package may change unseen."""
    if callable(leaf):
        module, name = getattr(leaf, "__module__", None) or "", getattr(leaf, "__qualname__", "<")
        return None if module.partition(".")[0] != __package__ or "<" in name else f"{module}:{name}"
    return None if " at 0x" in repr(leaf) else repr(leaf)


def _digest(function: Callable[..., Any], options: Mapping[str, Any], signature: _Signature) -> str | None:
    """Names a program on this machine, or None where it cannot be named."""
    static = [_describe(function), *("array" if leaf is None else _describe(leaf[1]) for leaf in signature.static)]
    tree, device = str(signature.tree), _device()
    if None in static or " at 0x" in tree:
        return None
    topology = jaxlib.xla_client.get_topology_for_devices([device])  # knows what the processor can do
    machine = (topology.fingerprint(), device.client.platform_version, device.id, os.cpu_count())
    told = (sorted(jax.config.values.items()), os.environ.get("XLA_FLAGS"))
    shapes = [(shape, str(dtype)) for shape, dtype in signature.arrays]
    return hashlib.sha256(repr((_package_digest(), options, machine, told, tree, shapes, static)).encode()).hexdigest()[
        :32
    ]


def _folder() -> Path | None:
    cache = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    return Path(cache) / "programs" if cache else None


def _load(file: Path, count: int) -> Callable[..., Any]:
    """The program of a file, whose arguments are `count` arrays; raises whatever is wrong with the file."""
    machine_code, skeleton, lapack = pickle.loads(gzip.decompress(file.read_bytes()))
    if lapack:
        jaxlib.lapack.prepare_lapack_call("potrf_ffi", np.float64)  # its library is opened by lowering alone
    with suppress(OSError):
        os.utime(file)  # used just now
    inputs, outputs = jax.tree.structure(((0,) * count, {})), jax.tree.structure(skeleton)
    device = _device()
    return deserialize_and_load(machine_code, inputs, outputs, device.client, [device])


def _keep(program: jax.stages.Compiled, lapack: bool, file: Path) -> None:
    """Write a program, and remove what has become too much; a folder that cannot be written is no error."""
    try:
        machine_code, _, outputs = serialize(program)
    except (NotImplementedError, ValueError):  # this program, or this device, has no form that could be kept
        return
    skeleton = jax.tree.unflatten(outputs, range(outputs.num_leaves))
    content = gzip.compress(pickle.dumps((machine_code, skeleton, lapack)), 1)
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, lambda place: place.write_bytes(content))
        total = 0
        for kept in sorted(file.parent.glob("*.program"), key=lambda p: p.stat().st_mtime, reverse=True):
            total += kept.stat().st_size
            if total > LARGEST:
                kept.unlink(missing_ok=True)


class Program[**P, R]:
    """`function`, compiled as `jax.jit` does: arrays among the leaves of its arguments are inputs, all else is static.

    Called while JAX traces another function, it is that function itself. Threads that call it at once compile it once.
    A `quick` program takes less of the compiler's time and a little more of its own: for what runs once in a fit.
    """

    def __init__(self, function: Callable[P, R], *, quick: bool = False) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._options: dict[str, bool | str] = {"xla_backend_optimization_level": "1"} if quick else {}
        self._programs: dict[_Signature, Callable[..., Any]] = {}
        self._lock = threading.Lock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        leaves, tree = jax.tree.flatten((args, kwargs))
        if jax.config.jax_disable_jit or any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):  # pyright: ignore[reportAttributeAccessIssue]
            return self._function(*args, **kwargs)
        arrays = [leaf for leaf in leaves if _is_array(leaf)]
        static = tuple(None if _is_array(leaf) else (type(leaf), leaf) for leaf in leaves)
        signature = _Signature(tree, tuple((a.shape, a.dtype) for a in arrays), static)
        with self._lock:
            if signature not in self._programs:
                self._programs[signature] = self._obtain(signature)
        return self._programs[signature](*arrays)

    def _obtain(self, signature: _Signature) -> Callable[..., R]:
        """The program that was kept, or one compiled now, and kept."""
        digest, folder = _digest(self._function, self._options, signature), _folder()
        if digest is None or folder is None:
            return self._lower(signature).compile(self._options)
        file = folder / f"{self._function.__name__.strip('_')}-{digest}.program"
        with suppress(Exception):  # whatever is wrong with a file, the remedy is the same
            return _load(file, len(signature.arrays))
        lowered = self._lower(signature)
        program = lowered.compile(self._options)
        _keep(program, "lapack_" in lowered.as_text(), file)
        return program

    def _lower(self, signature: _Signature) -> jax.stages.Lowered:
        function: Callable[..., R] = self._function

        def on_arrays(*arrays: Any) -> R:
            rest = iter(arrays)
            leaves = [next(rest) if value is None else value[1] for value in signature.static]
            args, kwargs = jax.tree.unflatten(signature.tree, leaves)
            return function(*args, **kwargs)

        # A name of its own: a program that JAX's cache returned cannot be written down again.
        on_arrays.__name__ = f"{self._function.__name__}_{uuid.uuid4().hex}"
        shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in signature.arrays]
        return jax.jit(on_arrays).lower(*shapes)
