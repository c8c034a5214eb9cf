"""Ranks as threads of this process: run a function on each, and take the results."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from threadpoolctl import threadpool_limits

from shardwise.backend.errors import LaunchError, WorldAbortedError
from shardwise.collectives.blas import allowed_cores
from shardwise.collectives.context import rank_thread
from shardwise.collectives.thread.hub import Hub
from shardwise.collectives.thread.transport import ThreadsTransport

__all__ = ["run_threads"]

T = TypeVar("T")

_STOP = 5.0  # seconds for the ranks to notice that the caller was interrupted


def run_threads(fn: Callable[..., T], nprocs: int, args: Sequence[object] = ()) -> list[T]:
    """Run ``fn(rank, *args)`` on `nprocs` ranks, which are threads of this process.

    Each rank has a world of its own, in a copy of the caller's context.

    Parameters
    ----------
    fn : callable
        Gets the rank, then `args`.
    nprocs : int
        Number of ranks, at least 1.
    args : sequence
        The same objects for all ranks.

    Returns
    -------
    list
        What each rank returned, in rank order.

    Raises
    ------
    LaunchError
        If `nprocs` is not a positive number.
    BaseException
        What the first rank to fail has raised, with a note that says which it was, and what others raised by
        themselves.

    Examples
    --------
    >>> from shardwise import collectives
    >>> run_threads(lambda rank, base: int(collectives.all_reduce(base + rank)), 3, (10,))
    [33, 33, 33]
    """
    if nprocs < 1:
        raise LaunchError(f"run_threads: nprocs={nprocs}; wanted at least one rank.")
    crew = _Crew(nprocs)
    results: dict[int, T] = {}

    def run(rank: int) -> None:
        with rank_thread(partial(ThreadsTransport, crew.hub, rank)):
            try:
                results[rank] = fn(rank, *args)
            except BaseException as error:
                crew.failed(rank, error)
            else:
                crew.hub.leave(rank)

    # daemon: a rank that is stuck outside a collective does not keep the process from ending
    threads = [
        threading.Thread(
            target=contextvars.copy_context().run, args=(run, rank), name=f"rank {rank}", daemon=True
        )
        for rank in range(nprocs)
    ]
    with threadpool_limits(limits=crew.blas_threads(), user_api="blas"):
        for thread in threads:
            thread.start()
        crew.join(threads)
    crew.raise_first()
    return [results[rank] for rank in range(nprocs)]


class _Crew:
    """The ranks of one `run_threads`, and which of them failed, in the order of time."""

    def __init__(self, size: int) -> None:
        self.hub = Hub(size)
        self._size = size
        self._failures: list[tuple[int, BaseException]] = []

    def blas_threads(self) -> int | None:
        """Give each rank its part of the cores; leave alone what a single rank has."""
        return max(1, len(allowed_cores()) // self._size) if self._size > 1 else None

    def failed(self, rank: int, error: BaseException) -> None:
        """Note a failure, and stop the others."""
        self._failures.append((rank, error))
        self.hub.fail(rank, _summary(error))

    def join(self, threads: Sequence[threading.Thread]) -> None:
        """Wait for all threads; interrupted, stop them first."""
        try:
            for thread in threads:
                thread.join()
        except BaseException as error:
            self.hub.fail(None, type(error).__name__)
            for thread in threads:
                thread.join(_STOP)
            raise
        finally:
            if self.hub.phases is not None:
                self.hub.phases.close()

    def raise_first(self) -> None:
        """Raise the first failure, if there is one; those that are no consequence of it become notes."""
        if not self._failures:
            return
        rank, first = self._failures[0]
        first.add_note(f"raised by rank {rank} of {self._size}")
        for other, error in self._failures[1:]:
            if not isinstance(error, WorldAbortedError):
                first.add_note(f"rank {other} raised {_summary(error)}")
        raise first


def _summary(error: BaseException) -> str:
    """One line about an error of the user's, which may not know how to show itself."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return f"{type(error).__name__}, whose text could not be made"
