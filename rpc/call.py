"""Call functions on other workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from shardwise.backend.errors import ArgumentError, RpcError
from shardwise.rpc.agent import Agent, Request
from shardwise.rpc.current import current_agent
from shardwise.rpc.destination import find_worker
from shardwise.rpc.functions import is_async
from shardwise.rpc.future import Future, wait_all
from shardwise.rpc.worker_info import WorkerInfo

__all__ = [
    "UNSET_RPC_TIMEOUT",
    "attach_calls",
    "call_timeout",
    "checked_call",
    "invoke",
    "rpc_async",
    "rpc_sync",
    "wait_all_calls",
]

T = TypeVar("T")

UNSET_RPC_TIMEOUT = -1.0
"""A time-out of -1: that of the agent."""

_CALL = "call"

_collected: ContextVar[list[Future[Any]] | None] = ContextVar("shardwise_rpc_collected", default=None)


def rpc_sync(
    to: str | int | WorkerInfo,
    func: Callable[..., T],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = UNSET_RPC_TIMEOUT,
) -> T:
    """Call ``func(*args, **kwargs)`` on another worker, wait, and return the result.

    As `rpc_async`, whose Future it waits for.

    Examples
    --------
    >>> import operator
    >>> from shardwise import rpc
    >>> from shardwise.collectives import run_threads
    >>> def program(rank):
    ...     rpc.init_rpc(f"worker{rank}")
    ...     found = rpc.rpc_sync("worker1", operator.add, (rank, 40))
    ...     rpc.shutdown()
    ...     return found
    >>> run_threads(program, 2)
    [40, 41]
    """
    return _call(to, func, args, kwargs, timeout).wait()


def rpc_async(
    to: str | int | WorkerInfo,
    func: Callable[..., T],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = UNSET_RPC_TIMEOUT,
) -> Future[T]:
    """Call ``func(*args, **kwargs)`` on another worker, and return a Future of the result.

    Parameters
    ----------
    to : str, int or WorkerInfo
        May be this worker, which also gets a copy of the arguments and gives one of the result.
    func : callable
        A function, class, or method, sent by reference: `to` imports it under its name. The instance of a
        bound method is copied.
    args : sequence, optional
    kwargs : mapping, optional
        They are pickled here, at once; the memory of arrays is sent as it is then. Writing it before the
        Future is done is a race.
    timeout : float
        Seconds until the Future fails, counted from here; 0 for no limit; -1 for that of the options.
        The function may run on; its result is dropped.

    Returns
    -------
    Future
        Of what the function returns; or fails with what it raised, whose cause is the traceback there. Waits
        for room only if more is under way to this worker than the window allows.

    Raises
    ------
    TypeError
        If `func` cannot be called.
    ArgumentError
        If `to` or `timeout` is nothing of the kind.
    RpcError
        If there is no such worker, or RPC was not initialized.
    Exception
        What the pickling of an argument raises.
    """
    future = _call(to, func, args, kwargs, timeout)
    collected = _collected.get()
    if collected is not None:
        collected.append(future)
    return future


@contextmanager
def wait_all_calls() -> Iterator[None]:
    """Wait, at the end of a block, for every Future that `rpc_async` gave in it; raise the first error."""
    if _collected.get() is not None:
        raise RpcError("_wait_all inside of _wait_all: the outer one waits for everything already.")
    futures: list[Future[Any]] = []
    token = _collected.set(futures)
    try:
        yield
        wait_all(futures)
    finally:
        _collected.reset(token)


def attach_calls(agent: Agent) -> None:
    """Have an agent serve calls."""
    agent.on(_CALL, _serve, "pool")


def call_timeout(timeout: float | None) -> float | None:
    """Give the time-out for `Agent.send`: None for that of the agent.

    Raises
    ------
    ArgumentError
        If it is negative, and not -1.
    TypeError
        If it is no number.
    """
    if timeout is None or timeout == UNSET_RPC_TIMEOUT:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"timeout={timeout!r} is a {type(timeout).__name__}; wanted a number of seconds.")
    if not timeout >= 0:
        raise ArgumentError(
            f"timeout={timeout!r}; wanted seconds from 0 up, 0 for no limit, or -1 for the default."
        )
    return timeout


def checked_call(
    func: Callable[..., T], args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None
) -> tuple[Callable[..., T], tuple[Any, ...], dict[str, Any]]:
    """Give a call as it is sent; see `invoke`.

    Raises
    ------
    TypeError
        If it is none.
    """
    if not callable(func):
        raise TypeError(f"func should be a callable, got {func!r}, a {type(func).__name__}.")
    return func, tuple(args) if args else (), dict(kwargs) if kwargs else {}


def invoke(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
    """Do a call that has come: gives its result, or a Future of it if the function is marked for that.

    Raises
    ------
    RpcError
        If a marked function returns something else, or another one a Future.
    """
    result = func(*args, **kwargs)
    marked = is_async(func)
    if marked and not isinstance(result, Future):
        raise RpcError(
            f"Functions decorated with @rpc.functions.async_execution must return a Future object; "
            f"{getattr(func, '__qualname__', func)} returned a {type(result).__name__}."
        )
    if isinstance(result, Future) and not marked:
        raise RpcError(
            f"cannot pickle a Future: {getattr(func, '__qualname__', func)} returned one. Decorate it with "
            f"@rpc.functions.async_execution, or let it wait and return the value."
        )
    return result


def _call(
    to: str | int | WorkerInfo,
    func: Callable[..., T],
    args: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
    timeout: float,
) -> Future[T]:
    agent = current_agent()
    call = checked_call(func, args, kwargs)
    return agent.send(find_worker(agent, to).id, _CALL, call, call_timeout(timeout))


def _serve(request: Request) -> object:
    return invoke(*request.payload)
