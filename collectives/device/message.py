"""Messages of device arrays, by way of the host: they have tags, and come in any order, which NCCL's cannot.

NCCL matches the messages of two ranks by their order alone, and two ranks that begin with the same direction
wait for each other for ever. So a message is copied down, sent by the transport, and copied up.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.stream import stream_device
from shardwise.collectives.chain import Chain
from shardwise.collectives.device.until import Until
from shardwise.collectives.pending import Pending
from shardwise.collectives.transport import Transport

__all__ = ["receive_to_device", "send_from_device"]

Steps = Generator[tuple[Pending, bool], None, None]
Begin = Callable[[Transport], Pending]


def send_from_device(x: Array, dst: int, tag: int) -> Begin:
    """Give what begins to send `x`, contiguous, as it is when the current stream comes to this place."""
    device = stream_device(x)
    ready = device.current().record()

    def begin(transport: Transport) -> Pending:
        def steps() -> Steps:
            stream = device.stream()
            stream.wait(ready)
            room = device.pinned(x.nbytes).view(x.dtype).reshape(x.shape)
            stream.download(x, room)
            below = Until(stream.record())
            while transport.progress is None and not below.test():  # nobody would go on with it later
                below.pause(0.0, 0.0)
            yield below, True
            yield transport.send(room, dst, tag), False

        sending = Chain(steps())
        if transport.progress is None:
            sending.test()
        return sending

    return begin


def receive_to_device(out: Array, src: int, tag: int) -> Begin:
    """Give what begins to fill `out`, of any layout, when the current stream has come to this place."""
    device = stream_device(out)
    ready = device.current().record()

    def begin(transport: Transport) -> Pending:
        def steps() -> Steps:
            stream = device.stream()
            room = device.pinned(out.nbytes).view(out.dtype).reshape(out.shape)
            yield transport.recv(room, src, tag), True
            stream.wait(ready)
            with stream.active():
                filled = out if out.flags.c_contiguous else np.empty_like(out, order="C")
                stream.upload(room, filled)
                if filled is not out:
                    np.copyto(out, filled)
            yield Until(stream.record()), False

        return Chain(steps())

    return begin
