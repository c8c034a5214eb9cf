"""The collectives on Python objects: pickled, and sent as bytes.

Only unpickle what ranks of one's own job have sent: these functions trust the other ranks. Arrays inside an
object arrive without a copy and may be written.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

import numpy as np

from shardwise.backend.array import Array
from shardwise.collectives.chain import Chain
from shardwise.collectives.composed import (
    all_gather_uneven,
    all_to_all_uneven,
    gather_uneven,
    scatter_uneven,
)
from shardwise.collectives.context import entered_group
from shardwise.collectives.form.pickled import check_pickled, failed, packed, unpacked
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue.check import check_root
from shardwise.collectives.layout import stretches
from shardwise.collectives.pending import Pending
from shardwise.collectives.transport import Channel

__all__ = [
    "all_gather_object",
    "all_to_all_object",
    "broadcast_object",
    "broadcast_object_list",
    "gather_object",
    "scatter_object_list",
]

T = TypeVar("T")

_BYTE = np.dtype(np.uint8)

Links = Generator[tuple[Pending, bool], None, None]


def all_gather_object(obj: T, group: ProcessGroup | None = None) -> list[T]:
    """Give every rank's `obj` to every rank.

    Parameters
    ----------
    obj : object
        Anything that can be pickled.
    group : ProcessGroup, optional
        By default all ranks.

    Returns
    -------
    list
        One object per rank, in the order of the group: copies, also of this rank's own.

    Raises
    ------
    CollectiveError
        On all ranks, if one cannot pickle its object.
    """
    op = "all_gather_object"
    group = entered_group(group, op)
    payload, size = packed(obj)
    sizes = np.empty((group.size, 1), np.int64)
    came = _Parcel()

    def links(channel: Channel) -> Links:
        yield channel.all_gather(size, sizes), True
        came.expect(sizes)
        yield all_gather_uneven(channel, payload, came.data, came.counts), False

    def finish() -> list[T]:
        return came.objects(group.ranks, group.where(op))

    return _run(op, None, group, payload.size, links, finish)


def gather_object(obj: T, dst: int = 0, group: ProcessGroup | None = None) -> list[T] | None:
    """Give every rank's `obj` to global rank `dst`.

    Parameters
    ----------
    obj : object
        Anything that can be pickled.
    dst : int
        Global rank.
    group : ProcessGroup, optional
        By default all ranks.

    Returns
    -------
    list or None
        On `dst`, one object per rank, in the order of the group; None on the others.

    Raises
    ------
    CollectiveError
        If `dst` is not in the group; if a rank cannot pickle its object, there and on `dst`.
    """
    op = "gather_object"
    group = entered_group(group, op)
    root = check_root(dst, "dst", op, group)
    payload, size = packed(obj)
    sizes = np.empty((group.size, 1), np.int64)
    came = _Parcel()

    def links(channel: Channel) -> Links:
        yield channel.all_gather(size, sizes), True
        if group.rank == root:
            came.expect(sizes)
        counts = np.abs(sizes).ravel().tolist()
        yield gather_uneven(channel, payload, came.data if came.sizes else None, counts, root), False

    def finish() -> list[T] | None:
        if came.sizes:
            return came.objects(group.ranks, group.where(op))
        check_pickled([payload], size.tolist(), [group.transport.rank], group.where(op))
        return None

    return _run(op, dst, group, payload.size, links, finish)


def broadcast_object(obj: T | None = None, src: int = 0, group: ProcessGroup | None = None) -> T:
    """Give the `obj` of global rank `src` to every rank.

    Parameters
    ----------
    obj : object
        On `src`, anything that can be pickled; not looked at elsewhere.
    src : int
        Global rank.
    group : ProcessGroup, optional
        By default all ranks.

    Returns
    -------
    object
        A copy, also on `src`.

    Raises
    ------
    CollectiveError
        If `src` is not in the group; on all ranks, if it cannot pickle its object.
    """
    op = "broadcast_object"
    group = entered_group(group, op)
    root = check_root(src, "src", op, group)
    payload, size = packed(obj if group.rank == root else None)
    came = _Parcel()

    def links(channel: Channel) -> Links:
        yield channel.broadcast(size, root), True
        came.expect(size)
        if group.rank == root:
            came.data = payload
        yield channel.broadcast(came.data, root), False

    def finish() -> T:
        objects: list[T] = came.objects([src], group.where(op))
        return objects[0]

    return _run(op, src, group, payload.size, links, finish)


def broadcast_object_list(objects: list[T], src: int = 0, group: ProcessGroup | None = None) -> list[T]:
    """Fill every rank's list with the objects in the list of global rank `src`, as PyTorch's function does.

    Parameters
    ----------
    objects : list
        On `src`, anything that can be pickled; elsewhere what it holds is replaced.
    src : int
        Global rank.
    group : ProcessGroup, optional
        By default all ranks.

    Returns
    -------
    list
        `objects`.

    Raises
    ------
    CollectiveError
        If `src` is not in the group; on all ranks, if it cannot pickle its objects.
    """
    objects[:] = broadcast_object(objects, src, group)
    return objects


def scatter_object_list(
    objects: Sequence[T] | None = None, src: int = 0, group: ProcessGroup | None = None
) -> T:
    """Give every rank its object of the list of global rank `src`.

    Parameters
    ----------
    objects : sequence, optional
        On `src`, one object for each rank of the group, that can be pickled; not looked at elsewhere.
    src : int
        Global rank.
    group : ProcessGroup, optional
        By default all ranks.

    Returns
    -------
    object
        A copy, also on `src`.

    Raises
    ------
    CollectiveError
        If `src` is not in the group; on all ranks, if it cannot pickle its objects, or has not one for each.
    """
    op = "scatter_object"
    group = entered_group(group, op)
    root = check_root(src, "src", op, group)
    parcels = _for_each(objects, group) if group.rank == root else []
    going = np.concatenate([data for data, _ in parcels]) if parcels else np.empty(0, _BYTE)
    sizes = np.array([size for _, size in parcels]) if parcels else None
    size = np.empty(1, np.int64)
    came = _Parcel()

    def links(channel: Channel) -> Links:
        yield channel.scatter(sizes, size, root), True
        came.expect(size)
        counts = [data.size for data, _ in parcels] or [0] * group.size
        yield scatter_uneven(channel, going if parcels else None, came.data, counts, root), False

    def finish() -> T:
        got: list[T] = came.objects([src], group.where("scatter_object_list"))
        return got[0]

    return _run(op, src, group, going.size, links, finish)


def all_to_all_object(objects: Sequence[T], group: ProcessGroup | None = None) -> list[T]:
    """Give object i of this rank's list to rank i of the group, and get one from each.

    Parameters
    ----------
    objects : sequence
        One object for each rank of the group, that can be pickled.
    group : ProcessGroup, optional
        By default all ranks.

    Returns
    -------
    list
        One object per rank, in the order of the group: copies, also of this rank's own.

    Raises
    ------
    CollectiveError
        On all ranks, if one cannot pickle its objects, or has not one for each.
    """
    op = "all_to_all_object"
    group = entered_group(group, op)
    parcels = _for_each(objects, group)
    going = np.concatenate([data for data, _ in parcels])
    sent = [data.size for data, _ in parcels]
    said = np.array([size for _, size in parcels])
    sizes = np.empty((group.size, 1), np.int64)
    came = _Parcel()

    def links(channel: Channel) -> Links:
        yield channel.all_to_all(said, sizes), True
        came.expect(sizes)
        yield all_to_all_uneven(channel, going, came.data, sent, came.counts), False

    def finish() -> list[T]:
        return came.objects(group.ranks, group.where(op))

    return _run(op, None, group, going.size, links, finish)


class _Parcel:
    """What comes from other ranks, once their lengths are known."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.counts: list[int] = []
        self.data: Array = np.empty(0, _BYTE)

    def expect(self, sizes: Array) -> None:
        self.sizes = sizes.ravel().tolist()
        self.counts = [abs(size) for size in self.sizes]
        self.data = np.empty(sum(self.counts), _BYTE)

    def objects(self, ranks: Sequence[int], where: str) -> list[Any]:
        rows = [self.data[slice(*part)] for part in stretches(self.counts)]
        check_pickled(rows, self.sizes, ranks, where)
        return [unpacked(row) for row in rows]


def _for_each(objects: Sequence[object] | None, group: ProcessGroup) -> list[tuple[Array, Array]]:
    """Pack one object for each rank; if one cannot be, everyone gets to know why."""
    if objects is None or len(objects) != group.size:
        count = "no" if objects is None else len(objects)
        parcels = [failed(f"gave {count} objects; wanted {group.size}, one for each rank")]
    else:
        parcels = [packed(obj) for obj in objects]
    wrong = next((parcel for parcel in parcels if parcel[1][0] < 0), None)
    return parcels if wrong is None else [wrong] * group.size


def _run(
    op: str,
    how: int | None,
    group: ProcessGroup,
    nbytes: int,
    links: Callable[[Channel], Links],
    finish: Callable[[], T],
) -> T:
    work = group.submit(op, how, _BYTE, (nbytes,), lambda channel: Chain(links(channel)), finish, False)
    return work.wait()
