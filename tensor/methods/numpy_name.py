"""NumPy's names of arguments, which PyTorch's methods take as well: ``x.sum(axis=0, keepdims=True)``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from shardwise.backend.errors import ArgumentError

__all__ = ["numpy_names"]

P = ParamSpec("P")
R = TypeVar("R")

_NAMES = {"axis": "dim", "keepdims": "keepdim"}


def numpy_names(method: Callable[P, R]) -> Callable[P, R]:
    """Have a method or function take ``axis`` for `dim` and ``keepdims`` for `keepdim`, too.

    The names are not in its signature: type checkers go on asking for PyTorch's.

    Examples
    --------
    >>> @numpy_names
    ... def total(x, dim=None, keepdim=False):
    ...     return dim, keepdim
    >>> total([], axis=1), total([], dim=1, keepdims=True)
    ((1, False), (1, True))
    """

    @wraps(method)
    def renamed(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs:
            _rename(method.__name__, kwargs)
        return method(*args, **kwargs)

    return renamed


def _rename(name: str, kwargs: dict[str, Any]) -> None:
    for theirs, ours in _NAMES.items():
        if theirs in kwargs:
            if ours in kwargs:
                raise ArgumentError(f"{name}: got {ours} and {theirs}, which mean the same; give one of them")
            kwargs[ours] = kwargs.pop(theirs)
