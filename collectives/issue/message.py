"""Messages on arrays: checked, and issued."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.backend.cuda import is_cuda_array
from shardwise.backend.errors import CollectiveError, DTypeError, ShapeError
from shardwise.collectives.context import get_world
from shardwise.collectives.device.message import receive_to_device, send_from_device
from shardwise.collectives.issue.buffer import fresh, is_plain, readable
from shardwise.collectives.issue.check import check_output
from shardwise.collectives.tag import Kind, wire_tag
from shardwise.collectives.work import Work
from shardwise.collectives.world import World

__all__ = ["check_peer", "issue_recv", "issue_send", "issue_sendrecv"]

T = TypeVar("T")


def check_peer(peer: int, name: str, op: str, world: World) -> int:
    """Give the global rank `peer`, if there is one.

    Raises
    ------
    CollectiveError
    """
    place = operator.index(peer)
    if not 0 <= place < world.size:
        raise CollectiveError(
            f"{op} on rank {world.rank}: {name}={peer}; wanted a global rank from 0 to {world.size - 1}."
        )
    return place


def issue_send(x: Array, dst: int, tag: int, kind: Kind, background: bool) -> Work[None]:
    """Begin to send `x`."""
    world = get_world()
    place = check_peer(dst, "dst", "send", world)
    wire = wire_tag(tag, kind, "send", world.rank)
    plain = is_plain(x)
    if not plain:
        x = readable(x, "send", lambda: f"send on rank {world.rank}")
    if world.notes is not None:
        world.notes.sent(place, wire, x)
    if not plain and is_cuda_array(x):
        begin = send_from_device(x, place, wire)
        # In two steps, of which the second must come also while nobody waits for it.
        return world.message("send", place, x.dtype, x.shape, begin, _nothing, True)
    return world.message(
        "send", place, x.dtype, x.shape, lambda by: by.send(x, place, wire), _nothing, background
    )


def issue_recv(
    shape: Shape | None,
    dtype: DTypeLike,
    src: int,
    tag: int,
    kind: Kind,
    out: Array | None,
    wrap: Callable[[Array], T],
    background: bool,
    like: Array | None = None,
) -> Work[T]:
    """Begin to receive an array: into `out`, or a new one on the device of `like`, by default the host."""
    world = get_world()
    place = check_peer(src, "src", "recv", world)
    wire = wire_tag(tag, kind, "recv", world.rank)
    if shape is None and world.notes is None and is_plain(out) and out.flags.writeable:
        # What most calls give: there is nothing to check.
        return world.message(
            "recv",
            place,
            out.dtype,
            out.shape,
            lambda by: by.recv(out, place, wire),
            lambda: wrap(out),
            background,
        )
    where = f"recv on rank {world.rank}"
    if out is None:
        if shape is None:
            raise ShapeError(f"{where}: neither shape nor out is given; say what comes.")
        if hasattr(shape, "dtype"):
            raise ShapeError(
                f"{where}: shape is {type(shape).__name__}, wanted numbers; to fill it, give it as out=."
            )
        filled = fresh(tuple(shape), like, np.dtype(dtype))
        if filled.dtype.hasobject:
            raise DTypeError(f"{where}: dtype {filled.dtype} cannot be received; use recv_object.")
    else:
        on_device = is_cuda_array(out)
        check_output(out, out.shape if shape is None else tuple(shape), out.dtype, lambda: where, on_device)
        filled = out if out.flags.c_contiguous and out.dtype.isnative else np.empty(out.shape, out.dtype)
    result = filled if out is None else out
    if world.notes is not None:
        wrap = world.notes.comparing(place, wire, result.dtype, result.shape, wrap)
    if is_cuda_array(result):
        begin = receive_to_device(result, place, wire)
        return world.message(
            "recv", place, result.dtype, result.shape, begin, lambda: wrap(result), background
        )

    def finish() -> T:
        if result is not filled:
            np.copyto(result, filled)
        return wrap(result)

    return world.message(
        "recv",
        place,
        filled.dtype,
        filled.shape,
        lambda by: by.recv(filled, place, wire),
        finish,
        background,
    )


def issue_sendrecv(
    x: Array,
    dst: int,
    src: int,
    sendtag: int,
    recvtag: int,
    shape: Shape | None,
    dtype: DTypeLike | None,
    kind: Kind,
    out: Array | None,
    wrap: Callable[[Array], T],
) -> T:
    """Send `x`, receive an array, by default of the same shape and dtype, and give it."""
    if out is None:
        given = x if is_cuda_array(x) else np.asarray(x)
        shape = given.shape if shape is None else shape
        dtype = given.dtype if dtype is None else dtype
    received = issue_recv(shape, dtype or np.float32, src, recvtag, kind, out, wrap, False, x)
    sent = issue_send(x, dst, sendtag, kind, False)
    result = received.wait()
    sent.wait()
    return result


def _nothing() -> None:
    return None
