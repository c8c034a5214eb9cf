"""Collectives on device arrays by way of the host: copied down, moved by the host's transport, copied up.

Works wherever host arrays do, also where several ranks share one GPU. Large arrays go in pieces, of which one
is on its way down, one between the ranks and one on its way up at the same time. Nearly every collective
treats the columns of a matrix alike, whose rows are the ranks' (or there is one row), so a piece is some
columns of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.stream_protocol import Device, Event, Stream
from shardwise.collectives.chain import Chain
from shardwise.collectives.device.until import Until
from shardwise.collectives.layout import Stretch
from shardwise.collectives.pending import Pending
from shardwise.collectives.reduction import Reduction
from shardwise.collectives.transport import Channel

__all__ = ["StagedChannel"]

PIECE = 4 << 20  # bytes of one row that go at once: long against the start of a copy, and several fit a cache

Steps = Generator[tuple[Pending, bool], None, None]


class StagedChannel:
    """The collectives of one group over its host channel.

    Who calls has made `stream` the active one, and keeps the arrays until what comes next on it is done.

    Parameters
    ----------
    host : Channel
        The group's own.
    size : int
        Of the group.
    device : Device
    piece : int
        Bytes of one row that go at once.

    Attributes
    ----------
    stream : Stream
        In whose order the arrays are read and filled.
    """

    def __init__(self, host: Channel, size: int, device: Device, piece: int = PIECE) -> None:
        self.stream = device.stream()
        self._host = host
        self._size = size
        self._device = device
        self._piece = piece
        self._down, self._up = device.stream(), device.stream()
        self._lent: list[tuple[Event, object]] = []

    def all_reduce(self, x: Array, out: Array, op: Reduction) -> Pending:
        host = self._host
        return self._staged(_row(x), _row(out), lambda a, b: host.all_reduce(_there(a), _there(b), op))

    def all_gather(self, x: Array, out: Array) -> Pending:
        host = self._host
        return self._staged(_row(x), self._rows(out), lambda a, b: host.all_gather(_there(a)[0], _there(b)))

    def reduce_scatter(self, x: Array, out: Array, op: Reduction) -> Pending:
        host = self._host
        return self._staged(
            self._rows(x), _row(out), lambda a, b: host.reduce_scatter(_there(a), _there(b)[0], op)
        )

    def all_to_all(self, x: Array, out: Array) -> Pending:
        host = self._host
        return self._staged(
            self._rows(x), self._rows(out), lambda a, b: host.all_to_all(_there(a), _there(b))
        )

    def exchange(
        self,
        x: Array,
        out: Array,
        sent: Sequence[Stretch | None],
        received: Sequence[Stretch | None],
    ) -> Pending:
        return Chain(self._exchanged(x, out, sent, received))

    def broadcast(self, x: Array, root: int) -> Pending:
        def move(a: Array | None, b: Array | None) -> Pending:
            np.copyto(_there(b), _there(a))
            return self._host.broadcast(_there(b), root)

        return self._staged(_row(x), _row(x), move)

    def reduce(self, x: Array, out: Array | None, op: Reduction, root: int) -> Pending:
        host = self._host
        filled = None if out is None else _row(out)
        return self._staged(_row(x), filled, lambda a, b: host.reduce(_there(a), b, op, root))

    def gather(self, x: Array, out: Array | None, root: int) -> Pending:
        host = self._host
        filled = None if out is None else self._rows(out)
        return self._staged(_row(x), filled, lambda a, b: host.gather(_there(a)[0], b, root))

    def scatter(self, x: Array | None, out: Array, root: int) -> Pending:
        host = self._host
        given = None if x is None else self._rows(x)
        return self._staged(given, _row(out), lambda a, b: host.scatter(a, _there(b)[0], root))

    def barrier(self) -> Pending:
        return self._host.barrier()

    def close(self) -> None:
        """Nothing of its own."""

    # ---- how

    def _staged(
        self,
        source: Array | None,
        target: Array | None,
        move: Callable[[Array | None, Array | None], Pending],
    ) -> Pending:
        """Move by `move`, which begins the collective on the same columns of both on the host."""
        return Chain(self._by_pieces(source, target, move))

    def _by_pieces(
        self,
        source: Array | None,
        target: Array | None,
        move: Callable[[Array | None, Array | None], Pending],
    ) -> Steps:
        self._follow()
        shaped = source if source is not None else _there(target)
        columns = shaped.shape[1]
        width = max(1, min(columns, self._piece // shaped.dtype.itemsize))
        places = [slice(i, min(i + width, columns)) for i in range(0, max(columns, 1), width)]
        rooms = [_Room(source, target, self._device, width) for _ in places[:2]]
        rooms[0].descend(self._down, places[0])
        for i, place in enumerate(places):
            room, behind = rooms[i % 2], places[i + 1 : i + 2]
            for following in behind:
                rooms[(i + 1) % 2].descend(self._down, following)
            yield Until(room.below), True
            yield Until(room.above), True  # what was there before may still be on its way up
            yield move(*room.columns(place)), bool(behind)
            room.ascend(self._up, place)
        self._lead(rooms)

    def _exchanged(
        self, x: Array, out: Array, sent: Sequence[Stretch | None], received: Sequence[Stretch | None]
    ) -> Steps:
        self._follow()
        given, room = self._pinned(x), self._pinned(out)
        self._down.download(x, given)
        yield Until(self._down.record()), True
        yield self._host.exchange(given, room, sent, received), False
        for stretch in received:
            if stretch is not None:
                self._up.upload(room[slice(*stretch)], out[slice(*stretch)])
        self._lead(room)

    def _follow(self) -> None:
        """Let copies come behind what was given to the stream before: those up come behind one down."""
        self._down.wait(self.stream.record())

    def _lead(self, rooms: object) -> None:
        """Let what is given to the stream next come behind the copies; keep the host's memory until then."""
        self._lent = [(event, lent) for event, lent in self._lent if not event.done]
        risen = self._up.record()
        self._lent.append((risen, rooms))
        self.stream.wait(risen)

    def _rows(self, x: Array) -> Array:
        return x.reshape(self._size, -1) if x.size else np.empty_like(x, shape=(self._size, 0))

    def _pinned(self, x: Array) -> Array:
        return self._device.pinned(x.nbytes).view(x.dtype).reshape(x.shape)


class _Room:
    """Memory of the host for one piece of what goes down, and of what comes up."""

    def __init__(self, source: Array | None, target: Array | None, device: Device, width: int) -> None:
        self._source, self._target = source, target
        self._below = None if source is None else _pinned_rows(source, device, width)
        self._above = None if target is None else _pinned_rows(target, device, width)
        self.below: Event | None = None
        self.above: Event | None = None

    def columns(self, place: slice) -> tuple[Array | None, Array | None]:
        """Give the memory of these columns, as contiguous arrays (rows, columns)."""
        width = place.stop - place.start
        return _front(self._below, self._source, width), _front(self._above, self._target, width)

    def descend(self, stream: Stream, place: slice) -> None:
        source, room = self._source, self.columns(place)[0]
        if source is not None and room is not None:
            for row in range(source.shape[0]):
                stream.download(source[row, place], room[row])
        self.below = stream.record()

    def ascend(self, stream: Stream, place: slice) -> None:
        target, room = self._target, self.columns(place)[1]
        if target is not None and room is not None:
            for row in range(target.shape[0]):
                stream.upload(room[row], target[row, place])
        self.above = stream.record()


def _pinned_rows(x: Array, device: Device, width: int) -> Array:
    return device.pinned(x.shape[0] * width * x.dtype.itemsize).view(x.dtype)


def _front(room: Array | None, x: Array | None, width: int) -> Array | None:
    return None if room is None or x is None else room[: x.shape[0] * width].reshape(x.shape[0], width)


def _row(x: Array) -> Array:
    return x.reshape(1, x.size)


def _there(x: Array | None) -> Array:
    if x is None:
        raise TypeError("this rank takes no part in what it was asked to move")
    return x
