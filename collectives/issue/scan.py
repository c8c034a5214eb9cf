"""Scans over the ranks, on arrays: checked, and issued as the collectives in `alike.py` are."""

from __future__ import annotations

from typing import TypeVar

from shardwise.backend.array import Array
from shardwise.backend.errors import DTypeError
from shardwise.backend.shape import ShapeArray
from shardwise.collectives.composed import scan
from shardwise.collectives.context import entered_group
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue.buffer import output
from shardwise.collectives.issue.operation import Wrap, dry, given, submit
from shardwise.collectives.reduction import Reduction, check_reduction
from shardwise.collectives.work import Work

__all__ = ["issue_scan"]

T = TypeVar("T")


def issue_scan(
    x: Array,
    op: Reduction,
    group: ProcessGroup | None,
    exclusive: bool,
    reverse: bool,
    out: Array | None,
    wrap: Wrap[T],
    background: bool,
) -> Work[T]:
    """Begin to reduce the `x` of the ranks up to this one, with or without it."""
    name = "exscan" if exclusive else "scan"
    group = entered_group(group, name)
    x = given(x, name, group)
    check_reduction(op, x.dtype, lambda: group.where(name))
    if op == "avg":
        raise DTypeError(
            f"{group.where(name)}: a mean of means is not a mean; use op='sum', and divide by the number of "
            f"ranks so far."
        )
    if isinstance(x, ShapeArray):
        return dry(name, op, group, x, x.shape, wrap)
    filled, finish = output(out, x.shape, x, name, group, wrap)
    rank, size = group.member(name), group.size
    flat, room = x.reshape(-1), filled.reshape(-1)
    return submit(
        name,
        op,
        group,
        x,
        lambda on: scan(on, flat, room, op, rank, size, exclusive, reverse),
        finish,
        background,
    )
