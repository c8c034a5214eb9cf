"""Which random bits come next.

Every draw takes a *stream*: 64 bits that depend on the seed's state and never on rank, mesh or
order of execution. Outside modules, streams are counted (`manual_seed` starts the count again).
Inside a module's forward, the stream is made of the module's path, the number of the draw in it,
and the number of the forward, so that it does not change when the model is cut into stages or
run again by `recompute`. A `row_window` says which rows of the global batch this rank holds.

The state is a frozen value in a context variable: contexts that were copied draw independently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from shardwise.backend.errors import ArgumentError
from shardwise.backend.position import Place, placed
from shardwise.tensor.signature import Part

__all__ = [
    "Draw", "Scope", "enter", "initial_seed", "manual_seed", "next_draw", "next_forward", "replay",
    "row_window", "scope", "snapshot",
]  # fmt: skip


class Scope:
    """One forward of a root module: who is running, and how often each module has drawn."""

    __slots__ = ("_paths", "counts", "number", "paths", "stack")

    def __init__(self, paths: Callable[[], dict[int, str]], number: int | None = None) -> None:
        self.paths = paths  # gives {id(module): path}; called at the first draw only
        self._paths: dict[int, str] | None = None
        self.stack: list[Any] = []
        self.counts: dict[str, int] = {}
        self.number = number  # assigned at the first draw, so that forwards that draw nothing don't count

    def path(self) -> str:
        """Return the path of the innermost running module."""
        if self._paths is None:
            self._paths = self.paths()
        paths = self._paths
        inner: list[str] = []
        for module in reversed(self.stack):
            known = paths.get(id(module))
            if known is not None:
                return "/".join([known, *reversed(inner)])
            inner.append(type(module).__name__)
        return "/".join(reversed(inner))


@dataclass(frozen=True, slots=True)
class _State:
    seed: int = 0
    draws: int = 0  # outside modules
    forwards: int = 0  # of root modules, those that drew
    scope: Scope | None = None
    window: tuple[int, int] | None = None  # first row, number of rows


_state: ContextVar[_State] = ContextVar("shardwise_random", default=_State())  # noqa: B039 (a frozen value)


@dataclass(frozen=True, slots=True)
class Draw:
    """Where the bits of one draw come from."""

    seed: int
    stream: int
    window: tuple[int, int] | None

    def offset(self, shape: tuple[int, ...]) -> int:
        """Return the global flat index of the first element of a local array of `shape`.

        An array has a place in the global batch if its first dim is the batch, alone or merged
        with the dims behind it (then its size is a multiple of the window's rows).
        """
        if self.window is None or not shape:
            return 0
        first, rows = self.window
        size = 1
        for n in shape:
            size *= n
        return first * (size // rows) if rows and shape[0] % rows == 0 else 0

    def place(self, part: Part) -> Place:
        """Return where a part of a local array lies in the global batch."""
        return placed(self.offset(part.whole), *part)


def manual_seed(seed: int) -> None:
    """Start all random streams again from `seed`, an integer of 64 bits.

    Call it with the same seed on all ranks: bits depend on the global index of an element, so
    that ranks get different bits where they hold different parts and equal ones where they hold
    the same.
    """
    if not isinstance(seed, (int, np.integer)):
        raise ArgumentError(f"manual_seed: the seed must be an integer, got {seed!r}")
    _state.set(replace(_state.get(), seed=int(seed) & (2**64 - 1), draws=0, forwards=0))


def initial_seed() -> int:
    """Return the seed in force (0, if `manual_seed` was never called)."""
    return _state.get().seed


def next_draw() -> Draw:
    """Take the next stream of the running context."""
    state = _state.get()
    scope = state.scope
    if scope is None:
        _state.set(replace(state, draws=state.draws + 1))
        return Draw(state.seed, _hash(f"draw {state.draws}"), state.window)
    if scope.number is None:
        scope.number = state.forwards
        _state.set(replace(state, forwards=state.forwards + 1))
    path = scope.path()
    count = scope.counts.get(path, 0)
    scope.counts[path] = count + 1
    return Draw(state.seed, _hash(f"forward {scope.number} module {path} draw {count}"), state.window)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def scope() -> Scope | None:
    """Return the scope of the running root module, if there is one."""
    return _state.get().scope


@contextmanager
def enter(scope: Scope) -> Iterator[None]:
    """Run a root module's forward: draws in the block belong to `scope`."""
    before = _state.get().scope
    _state.set(replace(_state.get(), scope=scope))
    try:
        yield
    finally:  # not a reset: the count of forwards must survive
        _state.set(replace(_state.get(), scope=before))


def next_forward() -> int:
    """Take the number of the next forward of a root module, for one that runs in pieces."""
    state = _state.get()
    _state.set(replace(state, forwards=state.forwards + 1))
    return state.forwards


@contextmanager
def row_window(first: int, rows: int) -> Iterator[None]:
    """Say that local batches of the block are rows ``first : first + rows`` of the global batch."""
    before = _state.get().window
    _state.set(replace(_state.get(), window=(first, rows)))
    try:
        yield
    finally:
        _state.set(replace(_state.get(), window=before))


def snapshot() -> Any:
    """Remember where the streams are, for `replay`."""
    state = _state.get()
    if state.scope is not None and state.scope.number is None:
        state.scope.number = state.forwards  # the replay must get the number that the first run gets
        state = replace(state, forwards=state.forwards + 1)
        _state.set(state)
    return replace(state, scope=_copy(state.scope))


def _copy(scope: Scope | None) -> Scope | None:
    if scope is None:
        return None
    copy = Scope(scope.paths, scope.number)
    copy.stack, copy.counts, copy._paths = list(scope.stack), dict(scope.counts), scope._paths
    return copy


@contextmanager
def replay(remembered: Any) -> Iterator[None]:
    """Run a block with the streams as they were at a `snapshot`."""
    token = _state.set(replace(remembered, scope=_copy(remembered.scope)))
    try:
        yield
    finally:
        _state.reset(token)
