"""Bring a sharded array from one layout into another."""

from __future__ import annotations

from contextlib import nullcontext

from shardwise.collectives import implicit
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.redistribute.many import run_many
from shardwise.dtensor.redistribute.plan import plan
from shardwise.dtensor.redistribute.run import run, start
from shardwise.dtensor.sharded_array import ShardedArray

__all__ = ["all_moved", "moved", "moved_later"]


def moved(array: ShardedArray, target: Layout, asked: bool = False) -> ShardedArray:
    """Return the same values in another layout.

    Parameters
    ----------
    array : ShardedArray
    target : Layout
        Of the same shape; the dtype stays that of `array`.
    asked : bool
        Whether the user asked for it; the ledger calls it implicit otherwise.
    """
    if array.layout is target:
        return array
    if target.dtype != array.layout.dtype:
        target = target.with_dtype(array.layout.dtype)
        if array.layout is target:
            return array
    steps = plan(array.layout, target)
    if asked:
        return ShardedArray(run(steps, array.local), target)
    with implicit():
        return ShardedArray(run(steps, array.local), target)


def moved_later(array: ShardedArray, target: Layout) -> ShardedArray:
    """Begin to bring an array into another layout; the first use of the result waits."""
    if array.layout is target:
        return array
    later = ShardedArray.__new__(ShardedArray)
    later.layout = target
    later.pending = start(plan(array.layout, target), array.local)
    return later


def all_moved(pairs: list[tuple[ShardedArray, Layout]], asked: bool = False) -> list[ShardedArray]:
    """Bring several arrays into other layouts; small ones that need the same operation share it."""
    if len(pairs) == 1:
        return [moved(*pairs[0], asked)]
    targets = [target.with_dtype(array.layout.dtype) for array, target in pairs]
    items = [
        (plan(array.layout, target), array.local) for (array, _), target in zip(pairs, targets, strict=True)
    ]
    with nullcontext() if asked else implicit():
        parts = run_many(items)
    return [ShardedArray(part, target) for part, target in zip(parts, targets, strict=True)]


ShardedArray.relaid = staticmethod(all_moved)
