"""Where the work of many fits is done: here, one after the other, or on the workers of a Dask cluster.

A job is a call of a function that can be sent, with arguments that can be sent, whose result is the content of files:
workers need no file system in common with this machine. As results arrive they are handed on, so no more than a few
are held at once, whatever the number of jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

from sde_grpo.errors import InputError, require

LOCAL = "local"
IN_FLIGHT = 2  # jobs a worker, so that none waits for its next


class Done(NamedTuple):
    """What became of a job: its result, or the error of our own that it raised."""

    job: Any
    result: Any
    error: InputError | None


def here(work: Callable[..., Any], jobs: Iterable[tuple[Any, tuple[Any, ...]]]) -> Iterator[Done]:
    """`work(*arguments)` of every (job, arguments), in order."""
    for job, arguments in jobs:
        try:
            yield Done(job, work(*arguments), None)
        except InputError as error:
            yield Done(job, None, error)


def on_dask(work: Callable[..., Any], jobs: Iterable[tuple[Any, tuple[Any, ...]]], address: str) -> Iterator[Done]:
    """The same on the cluster at `address`, or on one started here for ``"local"``, as they are done.

    Raises `InputError` where Dask is not installed, or no scheduler answers.
    """
    try:
        import distributed
    except ImportError as error:
        raise InputError("--dask needs Dask, which is not installed: pip install 'sde-grpo[dask]'.") from error
    dask: Any = distributed  # its annotations do not tell the blocking calls from the awaited ones
    with ExitStack() as stack:
        place: Any = address
        if address == LOCAL:
            place = stack.enter_context(dask.LocalCluster(threads_per_worker=1, dashboard_address=None))
        try:
            client = stack.enter_context(dask.Client(place, timeout=10))
        except (OSError, ValueError) as error:
            raise InputError(
                f"--dask {address}: no scheduler answers there. Give the address that dask-scheduler printed, such as "
                f"tcp://host:8786, or 'local' to start a cluster on this machine."
            ) from error
        require(bool(client.ncores()), f"--dask {address}: the cluster has no workers; start some first.")
        pending: dict[Any, Any] = {}

        def arrived() -> Iterator[Done]:
            for future in dask.wait(list(pending), return_when="FIRST_COMPLETED").done:
                job, error = pending.pop(future), future.exception()
                if error is not None and not isinstance(error, InputError):
                    raise error
                yield Done(job, None if error else future.result(), error)

        for job, arguments in jobs:
            pending[client.submit(work, *arguments, pure=False)] = job
            if len(pending) >= IN_FLIGHT * len(client.ncores()):
                yield from arrived()
        while pending:
            yield from arrived()
