"""Run a function on n ranks from Python, as threads of this process or as processes under MPI."""

from __future__ import annotations

import contextvars
import logging
import os
import pickle
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

from shardwise.backend.errors import CollectiveTimeoutError, LaunchError
from shardwise.collectives import run_threads
from shardwise.launch.child import IMPORTING
from shardwise.launch.cores import find_cores
from shardwise.launch.failure import SPEAKER, Verdict
from shardwise.launch.job import TIMED_OUT, Job
from shardwise.launch.output import Screen, TextSink
from shardwise.launch.parcel import Parcel, Unpacker
from shardwise.launch.plan import plan_job
from shardwise.launch.reach import Reach

__all__ = ["spawn"]

T = TypeVar("T")

_log = logging.getLogger(__name__)


def spawn(
    fn: Callable[..., T],
    args: tuple[object, ...] = (),
    nprocs: int | None = None,
    transport: Literal["threads", "mpi"] = "threads",
    timeout: float | None = None,
) -> list[T]:
    """Call ``fn(rank, *args)`` on each of `nprocs` ranks, and give what they return.

    Parameters
    ----------
    fn : callable
        With "mpi", a function at the top level of a module or of the script that runs.
    args : tuple
        Further arguments, the same for all ranks.
    nprocs : int, optional
        Number of ranks; the number of cores by default.
    transport : {"threads", "mpi"}
        Ranks as threads of this process, which need no MPI and share its memory; or as processes.
    timeout : float, optional
        Seconds after which to give up.

    Returns
    -------
    list
        The results, in rank order.

    Raises
    ------
    LaunchError
        If the ranks cannot be started, or one ended without an exception (``sys.exit``, a signal).
    CollectiveTimeoutError
        After `timeout`. Processes are ended; threads cannot be, and go on in the background.
    Exception
        Whatever the first rank to fail raised, with its traceback as a note.

    Notes
    -----
    Processes are told the function by name and import it, like those of `multiprocessing`. So a script that
    calls this does so under ``if __name__ == "__main__":``. What ranks print goes to ``sys.stdout`` and
    ``sys.stderr``, each line with its rank.

    Examples
    --------
    >>> import shardwise as sw
    >>> sw.spawn(lambda rank, base: base + rank, (10,), nprocs=3)
    [10, 11, 12]
    """
    if transport not in ("threads", "mpi"):
        raise LaunchError(f"spawn: transport must be 'threads' or 'mpi', got {transport!r}")
    if not isinstance(args, (tuple, list)):
        raise LaunchError(f"spawn: args must be a tuple, as in args=({args!r},), got {type(args).__name__}")
    if timeout is not None and not timeout > 0:
        raise LaunchError(f"spawn: timeout must be a positive number of seconds, got {timeout!r}")
    size = find_cores().count if nprocs is None else nprocs
    if transport == "threads":
        return _spawn_threads(fn, tuple(args), size, timeout)
    return _spawn_processes(fn, tuple(args), size, timeout)


def _spawn_threads(
    fn: Callable[..., T], args: tuple[object, ...], size: int, timeout: float | None
) -> list[T]:
    if timeout is None:
        return run_threads(fn, size, args)
    results: list[list[T]] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(run_threads(fn, size, args))
        except BaseException as error:  # raised again by the caller's thread
            errors.append(error)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(run,), name="spawn", daemon=True)
    thread.start()
    thread.join(timeout)
    if thread.is_alive():
        raise CollectiveTimeoutError(
            f"spawn: {size} ranks had not finished {_name(fn)} after {timeout:g} s. They are threads, which "
            "cannot be ended from outside and go on in the background; transport='mpi' would end them"
        )
    if errors:
        raise errors[0]
    return results[0]


def _spawn_processes(
    fn: Callable[..., T], args: tuple[object, ...], size: int, timeout: float | None
) -> list[T]:
    if IMPORTING in os.environ:
        raise LaunchError(
            "spawn was called while a rank imports the script that called it: put the call under "
            "`if __name__ == '__main__':`, so that it runs only in the script itself"
        )
    parcel = Parcel.pack(fn, args)
    with tempfile.TemporaryDirectory(prefix="shardwise-spawn-") as name:
        folder = Path(name)
        (folder / "parcel").write_bytes(pickle.dumps(parcel))
        plan = plan_job(Reach(size), ("-m", "shardwise.launch.child", name), os.environ)
        for warning in plan.warnings:
            _log.warning("%s", warning)
        screen = Screen(
            {"stdout": TextSink(sys.stdout), "stderr": TextSink(sys.stderr)}, frozenset(), prefixed=size > 1
        )
        verdict = Job(plan, os.environ, screen, timeout=timeout, reads_input=False).run()
        if verdict.code != 0:
            raise _error_of(verdict, folder, _name(fn), size, timeout)
        return [_result_of(folder / f"result.{rank}", rank, fn) for rank in range(size)]


def _result_of(path: Path, rank: int, fn: Callable[..., T]) -> T:
    if not path.exists():
        raise LaunchError(
            f"rank {rank} ended without an error before {_name(fn)} returned (sys.exit(0), os._exit(0)?)"
        )
    result: T = Unpacker(path).load()
    return result


def _error_of(verdict: Verdict, folder: Path, name: str, size: int, timeout: float | None) -> BaseException:
    """What to raise in the caller."""
    text = "\n".join(line.removeprefix(f"{SPEAKER}: ") for line in verdict.lines)
    root = verdict.root
    if root is None or root.kind != "failed":
        if verdict.code == TIMED_OUT:
            return CollectiveTimeoutError(f"spawn of {name} on {size} ranks: {text}")
        return LaunchError(f"spawn of {name} on {size} ranks: {text}")
    kept = folder / f"error.{root.rank}"
    error = Unpacker(kept).load() if kept.exists() else None
    if not isinstance(error, BaseException):
        error = LaunchError(f"spawn of {name}: rank {root.rank} of {size} failed with {root.summary}")
    error.add_note(f"raised by rank {root.rank} of {size}:\n\n{text}")
    return error


def _name(fn: Callable[..., object]) -> str:
    return getattr(fn, "__qualname__", repr(fn))
