"""Python objects between two ranks of the world, as in `object_form`."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from shardwise.backend.array import Array
from shardwise.collectives.chain import Chain
from shardwise.collectives.context import get_world
from shardwise.collectives.form.pickled import check_pickled, packed, unpacked
from shardwise.collectives.issue.message import check_peer
from shardwise.collectives.pending import Pending
from shardwise.collectives.tag import wire_tag
from shardwise.collectives.transport import Transport

__all__ = ["recv_object", "send_object"]

_BYTE = np.dtype(np.uint8)

Links = Generator[tuple[Pending, bool], None, None]


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
        If there is no such rank or tag, the object cannot be pickled, or the message failed.
    """
    world = get_world()
    place = check_peer(dst, "dst", "send_object", world)
    wire = wire_tag(tag, "object", "send_object", world.rank)
    payload, size = packed(obj)
    check_pickled([payload], size.tolist(), [world.rank], f"send_object on rank {world.rank}")

    def links(transport: Transport) -> Links:
        yield transport.send(size, place, wire), True
        yield transport.send(payload, place, wire), False

    world.message(
        "send_object",
        place,
        _BYTE,
        payload.shape,
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

    return world.message(
        "recv_object",
        place,
        _BYTE,
        (),
        lambda transport: Chain(links(transport)),
        lambda: unpacked(got[0]),
        False,
    ).wait()
