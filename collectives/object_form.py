"""The collectives and messages on Python objects: pickled, and sent as bytes.

Only unpickle what ranks of one's own job have sent: these functions trust the other ranks.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator
from typing import TypeVar

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveError
from shardwise.collectives.chain import Chain
from shardwise.collectives.check import check_root
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue_message import check_peer
from shardwise.collectives.pending import Pending
from shardwise.collectives.tag import wire_tag
from shardwise.collectives.transport import Channel, Transport
from shardwise.collectives.world import entered_group, get_world

__all__ = ["all_gather_object", "broadcast_object", "gather_object", "recv_object", "send_object"]

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
    payload, size = _pickled(obj)
    sizes = np.empty((group.size, 1), np.int64)
    rows: list[Array] = []

    def links(channel: Channel) -> Links:
        yield channel.all_gather(size, sizes), True
        longest = int(abs(sizes).max())
        row, all_rows = np.empty(longest, _BYTE), np.empty((group.size, longest), _BYTE)
        row[: payload.size] = payload
        rows.append(all_rows)
        yield channel.all_gather(row, all_rows), False

    def finish() -> list[T]:
        _check_pickled(rows[0], sizes, op, group)
        return [pickle.loads(row[: int(length)].data) for row, (length,) in zip(rows[0], sizes, strict=True)]

    return _run(op, group, payload, links, finish)


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
    payload, size = _pickled(obj)
    sizes = np.empty((group.size, 1), np.int64)
    rows: list[Array] = []

    def links(channel: Channel) -> Links:
        yield channel.all_gather(size, sizes), True
        longest = int(abs(sizes).max())
        row = np.empty(longest, _BYTE)
        row[: payload.size] = payload
        if group.rank == root:
            rows.append(np.empty((group.size, longest), _BYTE))
        yield channel.gather(row, rows[0] if rows else None, root), False

    def finish() -> list[T] | None:
        if rows:
            _check_pickled(rows[0], sizes, op, group)
            return [
                pickle.loads(row[: int(length)].data) for row, (length,) in zip(rows[0], sizes, strict=True)
            ]
        if size[0] < 0:
            raise CollectiveError(f"{group.where(op)}: {payload.tobytes().decode()}.")
        return None

    return _run(op, group, payload, links, finish)


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
    payload, size = _pickled(obj if group.rank == root else None)
    got: list[Array] = []

    def links(channel: Channel) -> Links:
        yield channel.broadcast(size, root), True
        got.append(payload if group.rank == root else np.empty(abs(int(size[0])), _BYTE))
        yield channel.broadcast(got[0], root), False

    def finish() -> T:
        sizes = np.zeros((group.size, 1), np.int64)
        sizes[root] = size
        _check_pickled(np.broadcast_to(got[0], (group.size, got[0].size)), sizes, op, group)
        value: T = pickle.loads(got[0].data)
        return value

    return _run(op, group, payload, links, finish)


def send_object(obj: object, dst: int, tag: int = 0) -> None:
    """Send `obj` to global rank `dst`, which receives it with `recv_object`.

    Parameters
    ----------
    obj : object
        Anything that can be pickled.
    dst : int
        Global rank.
    tag : int
        From 0 to 2**20 - 1; objects and arrays of one tag do not meet.

    Raises
    ------
    CollectiveError
        If there is no such rank or tag, or the message failed.
    """
    world = get_world()
    place = check_peer(dst, "dst", "send_object", world)
    wire = wire_tag(tag, "object", "send_object", world.rank)
    payload = np.frombuffer(pickle.dumps(obj, pickle.HIGHEST_PROTOCOL), _BYTE)
    size = np.array([payload.size])

    def links(transport: Transport) -> Links:
        yield transport.send(size, place, wire), True
        yield transport.send(payload, place, wire), False

    world.message(
        "send_object",
        place,
        _BYTE,
        payload.shape,
        payload.nbytes,
        lambda transport: Chain(links(transport)),
        lambda: None,
        False,
    ).wait()


def recv_object(src: int, tag: int = 0) -> object:
    """Receive the next object that global rank `src` has sent with this tag.

    Parameters
    ----------
    src : int
        Global rank.
    tag : int
        As sent.

    Returns
    -------
    object

    Raises
    ------
    CollectiveError
        If there is no such rank or tag, or the message failed.
    CollectiveTimeoutError
        If nothing came within the time-out of the world.
    """
    world = get_world()
    place = check_peer(src, "src", "recv_object", world)
    wire = wire_tag(tag, "object", "recv_object", world.rank)
    size = np.empty(1, np.int64)
    got: list[Array] = []

    def links(transport: Transport) -> Links:
        yield transport.recv(size, place, wire), True
        got.append(np.empty(int(size[0]), _BYTE))
        yield transport.recv(got[0], place, wire), False

    def finish() -> object:
        value: object = pickle.loads(got[0].data)
        return value

    return world.message(
        "recv_object", place, _BYTE, (), 0, lambda transport: Chain(links(transport)), finish, False
    ).wait()


def _run(
    op: str,
    group: ProcessGroup,
    payload: Array,
    links: Callable[[Channel], Links],
    finish: Callable[[], T],
) -> T:
    work = group.submit(
        op, _BYTE, payload.shape, payload.nbytes, lambda channel: Chain(links(channel)), finish, False
    )
    return work.wait()


def _pickled(obj: object) -> tuple[Array, Array]:
    """Give the pickle and its length, or what went wrong and minus its length.

    A rank that cannot pickle takes part all the same: raising before would leave the others waiting.
    """
    try:
        data = pickle.dumps(obj, pickle.HIGHEST_PROTOCOL)
        sign = 1
    except Exception as error:
        data = f"cannot pickle {type(obj).__name__}: {type(error).__name__}: {error}".encode()
        sign = -1
    return np.frombuffer(data, _BYTE), np.array([sign * len(data)])


def _check_pickled(rows: Array, sizes: Array, op: str, group: ProcessGroup) -> None:
    for row, (length,), rank in zip(rows, sizes, group.ranks, strict=True):
        if length < 0:
            reason = row[: -int(length)].tobytes().decode(errors="replace")
            raise CollectiveError(f"{group.where(op)}: rank {rank} {reason}.")
