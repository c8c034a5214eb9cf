"""What all collectives on arrays share: taking the input, and going into a lane or only into the ledger."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from shardwise.backend.array import Array, Shape
from shardwise.backend.cuda import is_cuda_array
from shardwise.backend.select import get_backend
from shardwise.backend.shape import ShapeArray
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue.buffer import is_plain, readable
from shardwise.collectives.pending import Pending
from shardwise.collectives.transport import Channel
from shardwise.collectives.work import Work

__all__ = ["Wrap", "dry", "given", "nothing", "submit"]

T = TypeVar("T")

Wrap: TypeAlias = Callable[[Array], T]
"""Makes the result of an operation of the array that it has filled."""


def given(x: Array, op: str, group: ProcessGroup) -> Array:
    """Give an input as a transport reads it; one without data as it is."""
    if is_plain(x) or isinstance(x, ShapeArray):
        return x
    return readable(x, op, lambda: group.where(op))


def submit(
    op: str,
    how: str | int | None,
    group: ProcessGroup,
    x: Array,
    start: Callable[[Channel], Pending],
    finish: Callable[[], T],
    background: bool,
    splits: Sequence[Sequence[int]] = (),
) -> Work[T]:
    """Issue an operation in the lane of its group."""
    like = x if is_cuda_array(x) else None
    return group.submit(op, how, x.dtype, x.shape, start, finish, background, like, splits)


def dry(
    op: str, how: str | int | None, group: ProcessGroup, x: Array, shape: Shape, wrap: Wrap[T]
) -> Work[T]:
    """Write an operation to the ledger whose input has no data, and give an array without data."""
    return group.note(op, how, x.dtype, x.shape, lambda: wrap(get_backend("shape").empty(shape, x.dtype)))


def nothing() -> None:
    """Give what a rank gets that gets nothing."""
