"""All connections of one worker: dialled when first needed, two to each other worker.

Each worker sends on connections that it has dialled itself, and reads from those that others have, so that
two that call each other at once need no agreement. Small frames have a connection of their own, which
large ones cannot hold up.
"""

from __future__ import annotations

import errno
import os
import random
import socket
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from shardwise.collectives.control.connection import harden, is_own_user
from shardwise.collectives.control.handshake import Handshake
from shardwise.collectives.control.loop import READ, Loop
from shardwise.rpc.wire.address import Address, dial
from shardwise.rpc.wire.frame import Frame
from shardwise.rpc.wire.inlet import LARGE_PATH, Inlet
from shardwise.rpc.wire.outlet import Outlet

__all__ = ["LARGE", "Links", "Listener"]

LARGE = 1 << 16
"""Bytes from which a frame goes over the connection for large ones."""

_STRANGERS = 256  # connections that have not proved themselves; the oldest goes when there are more
_ACCEPTED = 64  # at once, before others get their turn
_BREATH = 0.1  # seconds to wait when there are no file descriptors left
_FIRST_RETRY, _LAST_RETRY = 0.005, 0.5
_DIALLING = 30.0  # seconds in which a worker must be reached
_REFUSED = 0.5  # where nobody listens any more: everyone did before anyone dialled
_DEAD_AFTER = 15.0
_PATHS = ("small", LARGE_PATH)


class Listener(Protocol):
    """Who is told what comes, on the thread of the loop."""

    def frame_arrived(self, src: int, frame: Frame) -> None:
        """A frame has come from worker `src`, which has proved itself."""

    def peer_lost(self, peer: int, reason: str) -> None:
        """A connection with worker `peer` has ended, or could not be made."""

    def segment(self, src: int, number: int, nbytes: int) -> memoryview:
        """Give the memory of a segment that `src` shares, or raise FrameError."""


class Links:
    """The connections of one worker.

    Parameters
    ----------
    loop : Loop
    me : int
        Id of this worker.
    addresses : sequence of Address
        Of all workers, by id.
    key : bytes
        Known to the workers of this group alone.
    sockets : sequence of socket.socket
        They listen; the links own them.
    listener : Listener
    """

    def __init__(
        self,
        loop: Loop,
        me: int,
        addresses: Sequence[Address],
        key: bytes,
        sockets: Sequence[socket.socket],
        listener: Listener,
    ) -> None:
        self._loop = loop
        self._me = me
        self._addresses = addresses
        self._key = key
        self._sockets = sockets
        self._listener = listener
        self._lock = threading.Lock()
        self._outlets: dict[tuple[int, bool], Outlet] = {}
        self._inlets: dict[Inlet, int] = {}
        self._strangers: dict[Inlet, None] = {}
        self._gone: set[int] = set()
        for each in sockets:
            each.setblocking(False)
            loop.watch(each, READ, partial(self._accept, each))

    def send(self, dst: int, frame: Frame, nbytes: int) -> None:
        """Send a frame of so many bytes to another worker; dropped if that is gone. From any thread."""
        large = (
            nbytes > LARGE or bool(frame.segments) or bool(frame.fds)
        )  # in one order, a segment before its use
        outlet = self._outlets.get((dst, large))
        if outlet is None:
            outlet = self._connect(dst, large)
        outlet.send(frame)

    def is_idle(self) -> bool:
        """Say whether the kernel has taken all that was sent to those who live."""
        return all(each.is_idle or each.peer in self._gone for each in list(self._outlets.values()))

    def give_up(self, peer: int) -> None:
        """Send nothing to `peer` any more."""
        self._gone.add(peer)
        for large in (False, True):
            outlet = self._outlets.get((peer, large))
            if outlet is not None:
                outlet.close()

    def close(self) -> None:
        """Close everything, once the loop has ended."""
        for each in self._sockets:
            self._loop.ignore(each)
            each.close()
        for outlet in self._outlets.values():
            outlet.close()
        for inlet in (*self._inlets, *self._strangers):
            inlet.close()

    def abandon(self) -> None:
        """Close what a fork has inherited, so that it does not keep alive what the worker has."""
        for each in self._sockets:
            each.close()
        for outlet in self._outlets.values():
            outlet.abandon()
        for inlet in (*self._inlets, *self._strangers):
            inlet.abandon()

    def inlet_opened(self, inlet: Inlet) -> bool:
        self._strangers.pop(inlet, None)
        words = inlet.name.split()
        known = len(words) == 3 and words[0] == "rpc" and words[1].isdecimal() and words[2] in _PATHS
        if not known or not 0 <= int(words[1]) < len(self._addresses):
            return False
        self._inlets[inlet] = int(words[1])
        return True

    def inlet_arrived(self, inlet: Inlet, frame: Frame) -> None:
        self._listener.frame_arrived(self._inlets[inlet], frame)

    def inlet_segment(self, inlet: Inlet, number: int, nbytes: int) -> memoryview:
        return self._listener.segment(self._inlets[inlet], number, nbytes)

    def inlet_ended(self, inlet: Inlet, reason: str) -> None:
        self._strangers.pop(inlet, None)
        peer = self._inlets.pop(inlet, None)
        if peer is not None:
            self._listener.peer_lost(peer, reason)

    def outlet_ended(self, outlet: Outlet, reason: str) -> None:
        self._listener.peer_lost(outlet.peer, reason)

    def _connect(self, dst: int, large: bool) -> Outlet:
        with self._lock:
            outlet = self._outlets.get((dst, large))
            if outlet is None:
                outlet = self._outlets[dst, large] = Outlet(self._loop, dst, self)
                if dst in self._gone:
                    outlet.close()
                else:
                    self._loop.call_soon(partial(self._dial, outlet, large, time.monotonic(), 0))
        return outlet

    def _dial(self, outlet: Outlet, large: bool, since: float, tries: int) -> None:
        if outlet.peer in self._gone:
            return
        there, here = self._addresses[outlet.peer], self._addresses[self._me]
        try:
            dialling, connecting = dial(there, here)
        except OSError as error:
            patience = _REFUSED if error.errno == errno.ECONNREFUSED else _DIALLING
            if time.monotonic() - since > patience or error.errno == errno.EPERM:
                place = (
                    "its local socket" if there.host == here.host else f"{there.address} port {there.port}"
                )
                self._listener.peer_lost(
                    outlet.peer, f"it cannot be reached at {place}: {error.strerror or os.strerror(0)}"
                )
                return
            wait = min(_LAST_RETRY, _FIRST_RETRY * 2**tries) * random.uniform(0.5, 1.0)
            self._loop.call_later(wait, partial(self._dial, outlet, large, since, tries + 1))
            return
        handshake = Handshake(self._key, f"rpc {self._me} {_PATHS[large]}", dials=True)
        outlet.connect(dialling, handshake, connecting)

    def _accept(self, source: socket.socket, events: int) -> None:
        for _ in range(_ACCEPTED):
            try:
                accepted, _ = source.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                    self._loop.ignore(source)
                    again = partial(self._loop.watch, source, READ, partial(self._accept, source))
                    self._loop.call_later(_BREATH, again)
                    return
                continue  # it has gone again
            if not is_own_user(accepted):
                accepted.close()
                continue
            harden(accepted, _DEAD_AFTER)
            handshake = Handshake(self._key, f"rpc {self._me}", dials=False)
            self._strangers[Inlet(self._loop, accepted, handshake, self)] = None
            if len(self._strangers) > _STRANGERS:
                oldest = next(iter(self._strangers))
                del self._strangers[oldest]
                oldest.close()
