"""Where a model is cut: split points by name, markers in its code, and who watches its modules run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from shardwise.backend.errors import ScheduleError
from shardwise.nn import Module

__all__ = [
    "Anchor", "CallId", "Run", "SplitPoint", "Watcher", "annotate_split_points", "annotated", "check_spec",
    "pipe_split", "unwatched", "watch", "watched_by",
]  # fmt: skip


class SplitPoint(Enum):
    """Whether a model is cut before a module runs, or behind it."""

    BEGINNING = 1
    END = 2


class CallId(NamedTuple):
    """A module's path, and which of its calls in one forward of the model is meant."""

    path: str
    number: int


class Anchor(NamedTuple):
    """A place in the run of a model: before or behind a call of a module, or at a `pipe_split`.

    It is found again in any run, with other shapes and in the other mode, whatever ops there are.
    """

    kind: Literal["before", "behind", "marker"]
    call: CallId

    def __str__(self) -> str:
        path, number = self.call
        if self.kind == "marker":
            return f"pipe_split() number {number}"
        return f"{self.kind} {path}" + (f", call {number}" if number else "")


Run: TypeAlias = Callable[[tuple[Any, ...], dict[str, Any]], Any]
"""Runs a module between its hooks."""


class Watcher(Protocol):
    """Is asked to make each call of a watched module, and told of each `pipe_split`."""

    def call(self, path: str, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what ``run(args, kwargs)`` does, or something in its place."""

    def marker(self) -> None:
        """Note that the code passes a `pipe_split`."""


_watcher: ContextVar[Watcher | None] = ContextVar("shardwise_pipelining_watcher", default=None)


def pipe_split() -> None:
    """Cut the model here, when it is split by `pipeline`; everywhere else this does nothing.

    Examples
    --------
    >>> from shardwise import nn
    >>> class Model(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)
    ...
    ...     def forward(self, x):
    ...         x = self.first(x).relu()
    ...         pipe_split()
    ...         return self.second(x)
    """
    watcher = _watcher.get()
    if watcher is not None:
        watcher.marker()


def annotate_split_points(module: Module, spec: Mapping[str, SplitPoint]) -> None:
    """Note on submodules that the model is to be cut before or behind them, when `pipeline` splits it.

    Parameters
    ----------
    module : Module
    spec : mapping of str to SplitPoint
        By their paths.

    Raises
    ------
    ScheduleError
        There is no such submodule, or the value is no `SplitPoint`.
    """
    check_spec(module, spec)
    for path, point in spec.items():
        part = module.get_submodule(path)
        object.__setattr__(part, "split_points", (*getattr(part, "split_points", ()), point))


def annotated(module: Module) -> list[tuple[str, SplitPoint]]:
    """Return what `annotate_split_points` noted, by path."""
    return [
        (path, point)
        for path, part in module.named_modules()
        for point in dict.fromkeys(getattr(part, "split_points", ()))
    ]


def check_spec(module: Module, spec: Mapping[str, SplitPoint]) -> None:
    """Raise ScheduleError unless each key is a module's path and each value a `SplitPoint`."""
    paths = [path for path, _ in module.named_modules(remove_duplicate=False) if path]
    for path, point in spec.items():
        if not isinstance(point, SplitPoint):
            raise ScheduleError(
                f"split_spec[{path!r}] is {point!r}; wanted SplitPoint.BEGINNING or SplitPoint.END"
            )
        if path not in paths:
            near = [each for each in paths if each.split(".")[0] == path.split(".")[0]] or paths
            raise ScheduleError(
                f"split_spec names {path!r}, and {type(module).__name__} has no such submodule; it has "
                f"{', '.join(near[:12])}{', ...' if len(near) > 12 else ''}"
            )


def watch(root: Module) -> None:
    """Have the calls of all modules below `root` go through whoever watches; see `watched_by`."""
    for path, module in root.named_modules():
        if path:
            called = functools.partial(_called, path, module.call_with_hooks)
            object.__setattr__(module, "call_with_hooks", called)


def _called(path: str, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    watcher = _watcher.get()
    return run(args, kwargs) if watcher is None else watcher.call(path, run, args, kwargs)


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Let `watcher` make the calls of watched modules in a block."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


@contextmanager
def unwatched() -> Iterator[None]:
    """Let nobody watch in a block."""
    token = _watcher.set(None)
    try:
        yield
    finally:
        _watcher.reset(token)
