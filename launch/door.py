"""Where supervisors on other hosts knock: a TCP port on one interface, and nobody in without the key."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial

from shardwise.collectives.control.handshake import PATIENCE, Handshake, HandshakeError
from shardwise.collectives.control.host import interfaces, own_address
from shardwise.launch.uplink import watch

__all__ = ["Door", "address_towards"]

_MOST_STRANGERS = 4096


class Door:
    """Listens, and hands over the connections whose other side has proved that it knows the key.

    Parameters
    ----------
    address : str
        Of one interface of this host; a port is chosen.
    key : bytes
        Of the job.
    selector : selectors.BaseSelector
        Whose events are functions to call.
    admit : callable
        Gets each connection that proved itself, blocking.

    Attributes
    ----------
    address : tuple of (str, int)
        Where to knock.
    """

    def __init__(
        self,
        address: str,
        key: bytes,
        selector: selectors.BaseSelector,
        admit: Callable[[socket.socket], None],
    ) -> None:
        self._key = key
        self._selector = selector
        self._admit = admit
        self._strangers: dict[socket.socket, float] = {}
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        self._listener.bind((address, 0))
        self._listener.listen(1024)
        self._listener.setblocking(False)
        self.address: tuple[str, int] = (address, self._listener.getsockname()[1])
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def shut_out(self) -> None:
        """Close on those who have knocked for too long without a proof."""
        now = time.monotonic()
        for stranger in [each for each, until in self._strangers.items() if until < now]:
            self._drop(stranger)

    def close(self) -> None:
        """Stop listening. The selector is still open."""
        for stranger in list(self._strangers):
            self._drop(stranger)
        self._selector.unregister(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        try:
            stranger, _ = self._listener.accept()
        except OSError:  # gone again, or no descriptors are left
            return
        if len(self._strangers) >= _MOST_STRANGERS:
            stranger.close()
            return
        stranger.setblocking(False)
        self._strangers[stranger] = time.monotonic() + PATIENCE
        handshake = Handshake(self._key, "launcher", dials=False)
        unread = bytearray()
        self._selector.register(
            stranger, selectors.EVENT_READ, partial(self._hear, stranger, handshake, unread)
        )

    def _hear(self, stranger: socket.socket, handshake: Handshake, unread: bytearray) -> None:
        try:
            data = stranger.recv(handshake.wanted - len(unread))
            if not data:
                raise HandshakeError
            unread += data
            if len(unread) == handshake.wanted:
                answer = handshake.receive(bytes(unread))
                unread.clear()
                stranger.send(answer)  # a few hundred bytes, the first on this connection
        except (OSError, HandshakeError):
            self._drop(stranger)
            return
        if not handshake.wanted:
            del self._strangers[stranger]
            self._selector.unregister(stranger)
            stranger.setblocking(True)
            watch(stranger)
            self._admit(stranger)

    def _drop(self, stranger: socket.socket) -> None:
        del self._strangers[stranger]
        self._selector.unregister(stranger)
        stranger.close()


def address_towards(hosts: Sequence[str], iface: str | None) -> str:
    """Choose the address of this host that supervisors on `hosts` shall call.

    Parameters
    ----------
    hosts : sequence of str
        Names of other hosts; the first that has an address decides.
    iface : str, optional
        The interface to use, by name, address or network.

    Returns
    -------
    str

    Raises
    ------
    LaunchError
        If this host has no such interface, or none at all.
    """
    mine = interfaces(iface)
    for host in hosts:
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError:  # a name that only ssh knows
            continue
        return own_address(mine, str(found[0][4][0]))
    return mine[0].address
