"""Messages on arrays: checked, and issued."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.backend.errors import CollectiveError, DTypeError, ShapeError
from shardwise.collectives.buffer import readable
from shardwise.collectives.check import check_output
from shardwise.collectives.tag import Kind, wire_tag
from shardwise.collectives.work import Work
from shardwise.collectives.world import World, get_world

__all__ = ["check_peer", "issue_recv", "issue_send"]

T = TypeVar("T")


def check_peer(peer: int, name: str, op: str, world: World) -> int:
    """Give the global rank `peer`, if there is one.

    Raises
    ------
    CollectiveError
    """
    if not 0 <= operator.index(peer) < world.size:
        raise CollectiveError(
            f"{op} on rank {world.rank}: {name}={peer}; wanted a global rank from 0 to {world.size - 1}."
        )
    return operator.index(peer)


def issue_send(x: Array, dst: int, tag: int, kind: Kind, background: bool) -> Work[None]:
    """Begin to send `x`."""
    world = get_world()
    place = check_peer(dst, "dst", "send", world)
    wire = wire_tag(tag, kind, "send", world.rank)
    x = readable(x, "send", lambda: f"send on rank {world.rank}")
    return world.message(
        "send", place, x.dtype, x.shape, x.nbytes, lambda by: by.send(x, place, wire), _nothing, background
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
) -> Work[T]:
    """Begin to receive an array."""
    world = get_world()
    place = check_peer(src, "src", "recv", world)
    wire = wire_tag(tag, kind, "recv", world.rank)
    where = f"recv on rank {world.rank}"
    if out is None:
        if shape is None:
            raise ShapeError(f"{where}: neither shape nor out is given; say what comes.")
        filled = np.empty(shape, np.dtype(dtype))
        if filled.dtype.hasobject:
            raise DTypeError(f"{where}: dtype {filled.dtype} cannot be received; use recv_object.")
    else:
        check_output(out, out.shape if shape is None else tuple(shape), out.dtype, lambda: where)
        filled = out if out.flags.c_contiguous and out.dtype.isnative else np.empty(out.shape, out.dtype)
    result = filled if out is None else out

    def finish() -> T:
        if result is not filled:
            np.copyto(result, filled)
        return wrap(result)

    return world.message(
        "recv",
        place,
        filled.dtype,
        filled.shape,
        filled.nbytes,
        lambda by: by.recv(filled, place, wire),
        finish,
        background,
    )


def _nothing() -> None:
    return None
