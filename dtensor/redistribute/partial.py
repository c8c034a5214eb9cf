"""Terms of a value: what each rank holds so that their reduction gives the value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.dtensor.layout import Coordinate, Layout
from shardwise.dtensor.placement import Partial

__all__ = ["divided", "embedded", "identity", "partitioned", "within"]

_IDEMPOTENT = ("avg", "min", "max", "band", "bor")  # of equal terms these give the term


def identity(op: str, dtype: np.dtype[Any]) -> float | int | bool:
    """Give the number that changes no result of a reduction."""
    if op in ("sum", "avg", "bor", "bxor"):
        return 0
    if op == "prod":
        return 1
    if dtype.kind == "b":
        return op in ("min", "band")
    if op == "band":
        return -1 if dtype.kind == "i" else int(np.iinfo(dtype).max)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return int(limits.max if op == "min" else limits.min)
    return math.inf if op == "min" else -math.inf


def partitioned(x: Array, target: Layout, axes: tuple[int, ...], at: Coordinate) -> Array:
    """Make terms along some axes of a value that all have along them.

    The first rank along an axis keeps the value and the others get what changes nothing, which is exact;
    where equal terms give the term, all keep it, and `x` itself is returned.
    """
    for axis in axes:
        placement = target.placements[axis]
        op = placement.reduce_op if isinstance(placement, Partial) else "avg"
        if op not in _IDEMPOTENT and at[axis]:
            return np.full_like(x, identity(op, x.dtype))
    return x


def embedded(x: Array, source: Layout, target: Layout, axis: int, at: Coordinate) -> Array:
    """Make terms along an axis of pieces along it: each rank's piece in its place, and around it nothing."""
    placement = target.placements[axis]
    op = placement.reduce_op if isinstance(placement, Partial) else "sum"
    if op == "avg":
        x = x * target.mesh.shape[axis]
    whole, part = target.box(at), source.box(at)
    out = np.full_like(x, identity(op, x.dtype), shape=whole.shape)
    if x.size:
        out[within(whole.offset, part.offset, part.shape)] = x
    return out


def within(origin: Shape, offset: Shape, shape: Shape) -> tuple[slice, ...]:
    """Give the index of a box in an array that starts at `origin`."""
    return tuple([slice(at - o, at - o + n) for o, at, n in zip(origin, offset, shape, strict=True)])


def divided(x: Array, divisor: int) -> Array:
    """Divide a new array by a number, in its dtype."""
    return x if divisor == 1 else (x / divisor).astype(x.dtype)
