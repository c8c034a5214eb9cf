"""Messages between two ranks of the world. They never make a group, and never wait for collectives."""

from __future__ import annotations

import operator

import numpy as np

from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.backend.errors import CollectiveError, DTypeError, ShapeError
from shardwise.collectives.check import check_output, check_tag, readable
from shardwise.collectives.work import Work
from shardwise.collectives.world import World, get_world

__all__ = ["check_peer", "irecv", "isend", "recv", "send"]


def send(x: Array, dst: int, tag: int = 0) -> None:
    """Send `x` to rank `dst`, which receives it with `recv`.

    Parameters
    ----------
    x : array, any shape and dtype
    dst : int
        Global rank.
    tag : int
        From 0 to 2**20 - 1. Messages of one sender, receiver and tag arrive in the order they were sent.

    Raises
    ------
    CollectiveError
        If there is no such rank or tag, or the message failed.
    CollectiveTimeoutError
        If it was not received within the time-out of the world.

    Notes
    -----
    Returns when `x` may be written again; a large message waits for its receiver.
    """
    _sent(x, dst, tag, False).wait()


def isend(x: Array, dst: int, tag: int = 0) -> Work[None]:
    """Send `x` to rank `dst` without waiting; `x` must not be written before the work has ended.

    Parameters and errors as for `send`.
    """
    return _sent(x, dst, tag, True)


def recv(
    shape: Shape | None = None,
    dtype: DTypeLike = np.float32,
    src: int = 0,
    tag: int = 0,
    *,
    out: Array | None = None,
) -> Array:
    """Receive the next message of rank `src` with this tag.

    Parameters
    ----------
    shape : tuple of int, optional
        Of the array that is sent; left out where `out` is given.
    dtype : dtype
        Of the array that is sent; float32 by default.
    src : int
        Global rank.
    tag : int
        As sent.
    out : array, optional
        Filled and returned.

    Returns
    -------
    array

    Raises
    ------
    CollectiveMismatchError
        If the message has another size.
    CollectiveError
        If there is no such rank or tag, or the message failed.
    CollectiveTimeoutError
        If nothing came within the time-out of the world.
    """
    return _received(shape, dtype, src, tag, out, False).wait()


def irecv(
    shape: Shape | None = None,
    dtype: DTypeLike = np.float32,
    src: int = 0,
    tag: int = 0,
    *,
    out: Array | None = None,
) -> Work[Array]:
    """Receive the next message of rank `src` with this tag without waiting; ``wait()`` gives the array.

    Parameters and errors as for `recv`.
    """
    return _received(shape, dtype, src, tag, out, True)


def _sent(x: Array, dst: int, tag: int, background: bool) -> Work[None]:
    world = get_world()
    place = check_peer(dst, "dst", "send", world)
    wire = 2 * check_tag(tag, "send", world.rank)
    x = readable(x, "send", lambda: f"send on rank {world.rank}")
    return world.message(
        "send",
        place,
        x.dtype,
        x.shape,
        x.nbytes,
        lambda transport: transport.send(x, place, wire),
        _nothing,
        background,
    )


def _received(
    shape: Shape | None, dtype: DTypeLike, src: int, tag: int, out: Array | None, background: bool
) -> Work[Array]:
    world = get_world()
    place = check_peer(src, "src", "recv", world)
    wire = 2 * check_tag(tag, "recv", world.rank)
    where = f"recv on rank {world.rank}"
    if out is None:
        if shape is None:
            raise ShapeError(f"{where}: neither shape nor out is given; say what comes.")
        filled = np.empty(shape, np.dtype(dtype))
        if filled.dtype.hasobject:
            raise DTypeError(f"{where}: dtype {filled.dtype} cannot be received; use recv_object.")
    else:
        check_output(out, out.shape if shape is None else tuple(shape), out.dtype, lambda: where)
        filled = out if out.flags.c_contiguous and out.dtype.isnative else np.empty_like(out, order="C")
    result = filled if out is None else out

    def finish() -> Array:
        if result is not filled:
            np.copyto(result, filled)
        return result

    return world.message(
        "recv",
        place,
        filled.dtype,
        filled.shape,
        filled.nbytes,
        lambda transport: transport.recv(filled, place, wire),
        finish,
        background,
    )


def check_peer(peer: int, name: str, op: str, world: World) -> int:
    """Give the global rank `peer`, if there is one."""
    if not 0 <= operator.index(peer) < world.size:
        raise CollectiveError(
            f"{op} on rank {world.rank}: {name}={peer}; wanted a global rank from 0 to {world.size - 1}."
        )
    return operator.index(peer)


def _nothing() -> None:
    return None
