"""Several operations as one: one work for all, and one array of many small ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from shardwise.backend.array import Shape
from shardwise.backend.cuda import is_cuda_array
from shardwise.backend.errors import ShapeError
from shardwise.collectives.form.operand import A, operands
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue.check import check_output
from shardwise.collectives.lane import Lane
from shardwise.collectives.layout import stretches
from shardwise.collectives.reduction import Reduction, check_reduction
from shardwise.collectives.work import Work
from shardwise.tensor import Tensor

__all__ = ["check_lists", "coalesced", "cut_flat"]

T = TypeVar("T")

_LARGE = 1 << 18  # bytes from which an array goes by itself


def check_lists(
    xs: Sequence[A],
    op: Reduction | None,
    shapes: Sequence[Shape],
    out: Sequence[A] | None,
    name: str,
    group: ProcessGroup,
) -> None:
    """Raise for what any of the operations would raise, before the first one begins.

    Parameters
    ----------
    op : Reduction or None
        None where nothing is reduced.
    shapes : sequence of tuples of int
        Of the results.
    """
    for x in xs:
        if op is not None:
            check_reduction(op, x.dtype, lambda: group.where(name))
    if out is None:
        return
    if len(out) != len(xs):
        raise ShapeError(f"{group.where(name)}: out has {len(out)} arrays, xs has {len(xs)}.")
    for x, shape, target in zip(xs, shapes, out, strict=True):
        room = target.data if isinstance(target, Tensor) else target
        on_device = is_cuda_array(x.data if isinstance(x, Tensor) else x)
        check_output(room, shape, x.dtype, lambda: group.where(name), on_device)


def coalesced(
    xs: Sequence[A],
    out: Sequence[A] | None,
    async_op: bool,
    group: ProcessGroup,
    operate: Callable[[Any, Any, bool], object],
    join: Callable[[Sequence[Any]], Any],
    cut: Callable[[Any, Sequence[Shape]], list[Any]],
    shape: Callable[[Shape], Shape] = lambda shape: shape,
) -> list[A] | Work[list[A]]:
    """Run one operation for each bucket of arrays.

    Parameters
    ----------
    operate : callable
        Runs it on (an array, where its result goes or None, whether to wait), and gives the result or a work.
    join : callable
        Makes one array of several.
    cut : callable
        Makes of the result of one array the results of several, whose shapes it is told.
    shape : callable
        Shape of a result from that of its array.
    """
    recorded = out is None and not async_op
    # Whatever is not recorded goes as arrays, and is wrapped at the end.
    rooms: Sequence[A | None] = [None] * len(xs) if out is None else out
    taken: list[Any] = [
        (x, None, None) if recorded else operands(x, room, "coalesced")
        for x, room in zip(xs, rooms, strict=True)
    ]
    begun: list[tuple[list[int], Any]] = []
    for places in _buckets(xs):
        first, room, _ = taken[places[0]]
        if len(places) == 1:
            begun.append((places, operate(first, room, not async_op)))
        else:
            begun.append((places, operate(join([taken[i][0] for i in places]), None, not async_op)))

    def finish() -> list[A]:
        results: list[Any] = [None] * len(xs)
        for places, result in begun:
            whole = result.wait() if isinstance(result, Work) else result
            parts = [whole] if len(places) == 1 else cut(whole, [shape(xs[i].shape) for i in places])
            for i, part in zip(places, parts, strict=True):
                _, room, wrap = taken[i]
                if room is not None and room is not part:
                    np.copyto(room, part)
                results[i] = part if wrap is None else wrap(part if room is None else room)
        return results

    works = [result for _, result in begun if isinstance(result, Work)]
    if works:
        return _bundled(works, finish)
    return group.note("all_reduce", None, np.dtype(np.uint8), (0,), finish) if async_op else finish()


def cut_flat(flat: Any, shapes: Sequence[Shape]) -> list[Any]:
    """Cut a flat array into arrays of these shapes, which lie one after the other in it."""
    parts = zip(stretches([math.prod(shape) for shape in shapes]), shapes, strict=True)
    return [flat[slice(*part)].reshape(shape) for part, shape in parts]


def _buckets(xs: Sequence[A]) -> list[list[int]]:
    """Give the places of the arrays that go together: small ones of a dtype, and each large one.

    A rank's byte order does not count: it is not sent, and others may have another.
    """
    small: dict[object, list[int]] = {}
    buckets: list[list[int]] = []
    for i, x in enumerate(xs):
        dtype = x.dtype.newbyteorder("=")
        if math.prod(x.shape) * x.dtype.itemsize >= _LARGE:
            buckets.append([i])
        elif dtype in small:
            small[dtype].append(i)
        else:
            small[dtype] = [i]
            buckets.append(small[dtype])
    return buckets


def _bundled(works: Sequence[Work[Any]], finish: Callable[[], T]) -> Work[T]:
    """Give a work that ends when all of `works` have ended."""
    first, lane = works[0], Lane()
    work = Work(lane, first.record, first.rank, first.timeout, lambda: _All(works), finish)
    lane.submit(work)
    return work


class _All:
    """Pending: works of which all must end."""

    open = False

    def __init__(self, works: Sequence[Work[Any]]) -> None:
        self._works = list(works)

    def test(self) -> bool:
        while self._works and self._works[-1].is_settled():
            self._works.pop()
        return not self._works

    def pause(self, waited: float, expected: float) -> None:
        if self._works:
            self._works[-1].pause(waited, expected)
