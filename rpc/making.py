"""`remote` makes a value on another worker and gives a reference to it; `stream` iterates over one there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from shardwise.backend.source import source_place
from shardwise.rpc.call import call_timeout, checked_call
from shardwise.rpc.current import current_agent
from shardwise.rpc.destination import find_worker
from shardwise.rpc.remote_iterator import RemoteIterator, open_source
from shardwise.rpc.rref import RRef
from shardwise.rpc.rref_table import RRefTable
from shardwise.rpc.worker_info import WorkerInfo

__all__ = ["remote", "stream"]

T = TypeVar("T")


def remote(
    to: str | int | WorkerInfo,
    func: Callable[..., T],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = -1,
    *,
    ordered: bool = False,
) -> RRef[T]:
    """Call ``func(*args, **kwargs)`` on a worker, which keeps the result; give a reference to it at once.

    Parameters
    ----------
    to : str, int or WorkerInfo
    func : callable
        A function or class of a module, so that it can go by reference.
    args, kwargs : optional
        Arguments. They are pickled here and now.
    timeout : float
        Seconds that making the value may take; 0 for no limit, -1 for the default of the agent.
    ordered : bool
        Make the value an actor: calls by ``rpc_sync()`` and ``rpc_async()`` of its references run one at a
        time, and those from one worker in the order in which it made them. One that waits for a call to the
        same actor waits for itself.

    Returns
    -------
    RRef

    Raises
    ------
    TypeError
        If `func` is not callable.
    RpcError
        If there is no agent, or no such worker.

    Notes
    -----
    What the call raises, a time-out included, is raised when the reference is used.
    """
    agent = current_agent()
    call = checked_call(func, args, kwargs)
    destination = find_worker(agent, to).id
    patience = call_timeout(timeout)
    table: RRefTable = agent.parts[RRefTable]
    reference, fork = table.begin(destination, source_place(), ordered)
    try:
        answer = agent.send(destination, "rref.create", (*call, reference.id, fork, ordered), patience)
    except BaseException:
        table.drop_begun(reference)
        raise
    table.made(reference, answer)
    return RRef.over(table, reference)


def stream(
    to: str | int | WorkerInfo,
    func: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = -1,
    *,
    window: int = 16,
) -> RemoteIterator:
    """Iterate here over what ``func(*args, **kwargs)`` gives on a worker, a generator for example.

    Parameters
    ----------
    to, func, args, kwargs
        As for `remote`.
    timeout : float
        Seconds that each request may take, which is for half of the window.
    window : int
        Values that are made before they are asked for, at most.

    Returns
    -------
    RemoteIterator
        For a plain loop, or ``async for``. Its ``close()``, or leaving its ``with`` block, ends the
        generator.

    Raises
    ------
    Exception
        In the loop: what the generator has raised, behind the values that it gave before.
    """
    patience = call_timeout(timeout)
    source = remote(to, open_source, checked_call(func, args, kwargs), timeout=timeout, ordered=True)
    return RemoteIterator(source, window, patience)
