"""Compiled loops by name, which allocate nothing of their arguments' size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType

from shardwise.backend.kernels.jit import Fused

__all__ = ["Thunk", "loops"]

Thunk = Callable[[], object]


def loops(*modules: ModuleType) -> dict[str, Fused]:
    """Return what modules compile, by the names of the functions."""
    found = (loop for module in modules for value in vars(module).values() for loop in _inside(value))
    return {loop.name.partition(".")[2].lstrip("_"): loop for loop in found}


def _inside(value: object) -> Iterator[Fused]:
    if isinstance(value, Fused):
        yield value
    elif isinstance(value, tuple):
        yield from (part for part in value if isinstance(part, Fused))
