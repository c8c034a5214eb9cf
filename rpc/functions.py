"""Marks on functions that remote calls look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["async_execution", "is_async"]

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "_shardwise_async_execution"


def async_execution(fn: F) -> F:
    """Mark a function that gives a Future of its result: who serves it does not wait for that.

    The call is answered when the Future is done, and no thread waits until then. Under ``@staticmethod`` or
    ``@classmethod`` this is the inner of the two decorators. Called on the spot, the function is what it was.

    Parameters
    ----------
    fn : callable
        Returns a `Future`; what it raises is raised at the caller's.

    Raises
    ------
    TypeError
        For something that is no function.

    Examples
    --------
    >>> from shardwise import rpc
    >>> @rpc.functions.async_execution
    ... def later(x):
    ...     future = rpc.Future()
    ...     future.set_result(x + 1)
    ...     return future
    >>> later(1).wait()
    2
    """
    if isinstance(fn, staticmethod | classmethod):
        raise TypeError(
            f"async_execution got a {type(fn).__name__}; write @{type(fn).__name__} above @async_execution."
        )
    if not callable(fn):
        raise TypeError(f"async_execution marks functions; got {fn!r}.")
    setattr(fn, _MARK, True)
    return fn


def is_async(fn: object) -> bool:
    """Say whether a function, or method, was marked."""
    return bool(getattr(fn, _MARK, False))
