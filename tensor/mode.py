"""What holds for the code that runs now: is grad recorded, are NaNs hunted, who listens at the door.

The mode is context-local: threads that run in a copied context start with the mode of their
parent and do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import _GeneratorContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, overload

__all__ = [
    "Door",
    "Mode",
    "Saver",
    "Timer",
    "backward_mode",
    "current_mode",
    "detect_anomaly",
    "enable_grad",
    "enter_mode",
    "intercept",
    "is_grad_enabled",
    "leave_mode",
    "no_grad",
    "override",
    "set_grad_enabled",
]

F = TypeVar("F", bound=Callable[..., Any])

Door = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
"""``door(function, args, params)``: runs an op, usually by calling `Function.apply` again."""


class Saver(Protocol):
    """Takes over the arrays that a tape node would keep for backward (see `recompute`)."""

    def pack(self, node: Any) -> None:
        """Take ``node.saved`` away; in its place goes something whose ``unpack()`` gives it back."""


class Timer(Protocol):
    """Is told when each op has run (see `timeline`)."""

    def module(self) -> str:
        """Path of the module whose forward runs."""

    def forward(self, function: Any, start: float) -> None:
        """Note that the forward of `function`, begun at `start`, has ended."""

    def backward(self, node: Any, ctx: Any, grads: list[Any]) -> Any:
        """Run the backward of a node and note when."""

    def block(self, name: str, start: float) -> None:
        """Note that a block of code, begun at `start`, has ended."""


@dataclass(frozen=True, slots=True)
class Mode:
    """The mode of the running context."""

    grad: bool = True
    anomaly: bool = False
    doors: tuple[Door, ...] = ()
    saver: Saver | None = None
    autocast: bool = False
    timer: Timer | None = None
    watched: bool = field(init=False, default=False)
    """Does something look at every op that is recorded."""

    def __post_init__(self) -> None:
        watched = self.anomaly or self.saver is not None or self.timer is not None
        object.__setattr__(self, "watched", watched)


_mode: ContextVar[Mode] = ContextVar("shardwise_mode", default=Mode())  # noqa: B039 (a frozen value)
current_mode = _mode.get
enter_mode, leave_mode = _mode.set, _mode.reset

_backward: tuple[Mode, bool, Mode] = (Mode(), True, Mode())  # the last one asked for, and the answer


def backward_mode(mode: Mode, create_graph: bool) -> Mode:
    """Give the mode in which the backward of ops runs that is called in `mode`."""
    global _backward
    asked, recorded, found = _backward
    if asked is not mode or recorded is not create_graph:
        found = replace(mode, grad=create_graph, doors=())
        _backward = (mode, create_graph, found)
    return found


@contextmanager
def override(**changes: Any) -> Iterator[None]:
    """Run a block with some fields of the mode replaced."""
    token = _mode.set(replace(_mode.get(), **changes))
    try:
        yield
    finally:
        _mode.reset(token)


@contextmanager
def _recording(grad: bool) -> Iterator[None]:
    with override(grad=grad):
        yield


@overload
def no_grad() -> _GeneratorContextManager[None]: ...


@overload
def no_grad(function: F) -> F: ...


def no_grad(function: Callable[..., Any] | None = None) -> Any:
    """Record nothing on the tape: a context manager, and a decorator with or without brackets."""
    return _recording(False) if function is None else _recording(False)(function)


@overload
def enable_grad() -> _GeneratorContextManager[None]: ...


@overload
def enable_grad(function: F) -> F: ...


def enable_grad(function: Callable[..., Any] | None = None) -> Any:
    """Record again inside `no_grad`: a context manager, and a decorator with or without brackets."""
    return _recording(True) if function is None else _recording(True)(function)


class set_grad_enabled:
    """Record, or not: from the call on, in a ``with`` block, or as a decorator.

    Parameters
    ----------
    mode : bool

    Examples
    --------
    >>> import shardwise as sw
    >>> with sw.set_grad_enabled(False):
    ...     sw.is_grad_enabled()
    False
    >>> _ = sw.set_grad_enabled(False)
    >>> sw.is_grad_enabled()
    False
    >>> _ = sw.set_grad_enabled(True)
    """

    def __init__(self, mode: bool) -> None:
        self._wanted = bool(mode)
        self._before = _mode.get().grad
        self._set(self._wanted)

    @staticmethod
    def _set(grad: bool) -> None:
        _mode.set(replace(_mode.get(), grad=grad))

    def __enter__(self) -> None:
        self._set(self._wanted)

    def __exit__(self, *exc: object) -> None:
        self._set(self._before)

    def __call__(self, function: F) -> F:
        self._set(self._before)  # a decorator changes nothing where it stands
        return _recording(self._wanted)(function)


@contextmanager
def detect_anomaly() -> Iterator[None]:
    """Return a context manager that names the op and source line of the first NaN.

    Forward outputs and backward gradients are checked while it is active; each op costs a
    pass over its results and a walk up the stack, so it is for debugging.
    """
    with override(anomaly=True):
        yield


def is_grad_enabled() -> bool:
    """Tell whether operations are being recorded."""
    return _mode.get().grad


@contextmanager
def intercept(door: Door) -> Iterator[None]:
    """Send every op of a block through `door` first: recording, tracing, autocast.

    Doors nest; the innermost sees an op first. Inside the call of a door only the outer doors
    are active, so a door that calls ``function.apply(*args, **params)`` passes the op on.
    """
    with override(doors=_mode.get().doors + (door,)):
        yield
