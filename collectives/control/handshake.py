"""Two processes prove to each other that they know the key of the job, before either believes a byte.

::

    the one that dials                                   the one that listens
    MAGIC, nonce ───────────────────────────────────────►
    ◄─────────────────────────── MAGIC, nonce, name, proof
    name, proof ────────────────────────────────────────►
    ◄───────────────────────────────────────────── welcome

The last word tells the dialler that it was let in: a listener may hang up on strangers when there are many.
A proof is an HMAC-SHA-256 by the job's key over the role of who proves, both names and both nonces, so that
none can be replayed, reflected, or used under another name. Messages have fixed lengths: nothing that a
stranger sends is parsed, and no more than a few hundred bytes of it are read. What fails says no more than
that it failed.

Only the standard library is used, since launchers load this file by its path, before the package.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import time

__all__ = ["KEY_BYTES", "PATIENCE", "Handshake", "HandshakeError", "shake_hands"]

KEY_BYTES = 32
PATIENCE = 5.0
"""Seconds that a stranger has to prove itself."""

_MAGIC = b"shardwise-control 1\n"
_WELCOME = b"welcome\n"
_NONCE = 32
_NAME = 64
_PROOF = 32


class HandshakeError(Exception):
    """The other side did not prove that it knows the key; there is no more to say."""


class Handshake:
    """One side of a handshake, without a socket: bytes that came go in, bytes to send come out.

    Parameters
    ----------
    key : bytes
        Of the job, 32 random bytes.
    name : str
        What this side is called: at most 64 bytes in UTF-8.
    dials : bool
        Whether this is the side that has dialled.

    Attributes
    ----------
    wanted : int
        How many bytes `receive` wants next; 0 once both sides have proved themselves.
    peer : str
        What the other side is called. To be believed once `wanted` is 0.
    has_proved : bool
        Whether this side has given its proof, so that the other may take the handshake as done.
    """

    def __init__(self, key: bytes, name: str, *, dials: bool) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, this one has {len(key)}")
        self._key = key
        self._name = name.encode().ljust(_NAME, b"\0")
        if len(self._name) > _NAME:
            raise ValueError(f"a name has at most {_NAME} bytes, {name!r} has more")
        self._dials = dials
        self._nonce = secrets.token_bytes(_NONCE)
        self._theirs = b""  # nonce
        self._challenged = not dials  # whether it has the other side's nonce still to come, without a proof
        self.wanted = len(_MAGIC) + _NONCE + (_NAME + _PROOF if dials else 0)
        self.peer = ""
        self.has_proved = False

    def begin(self) -> bytes:
        """Give what to send before anything has come."""
        return _MAGIC + self._nonce if self._dials else b""

    def receive(self, data: bytes) -> bytes:
        """Take exactly the `wanted` bytes, and give what to send.

        Raises
        ------
        HandshakeError
            If they do not prove anything.
        """
        if len(data) != self.wanted:
            raise HandshakeError
        if self._challenged:
            self._challenged = False
            self._theirs = self._after_magic(data)
            self.wanted = _NAME + _PROOF
            self.has_proved = True
            return _MAGIC + self._nonce + self._name + self._proof(b"listens", self._name, b"")
        if not self._dials:
            self._check(b"dials", data, self._name)
            self.wanted = 0
            return _WELCOME
        if self.has_proved:
            if not hmac.compare_digest(data, _WELCOME):
                raise HandshakeError
            self.wanted = 0
            return b""
        rest = self._after_magic(data)
        self._theirs = rest[:_NONCE]
        self._check(b"listens", rest[_NONCE:], b"")
        self.wanted = len(_WELCOME)
        self.has_proved = True
        return self._name + self._proof(b"dials", self._name, self.peer.encode().ljust(_NAME, b"\0"))

    def _after_magic(self, data: bytes) -> bytes:
        if not hmac.compare_digest(data[: len(_MAGIC)], _MAGIC):
            raise HandshakeError
        return data[len(_MAGIC) :]

    def _check(self, role: bytes, signed: bytes, other: bytes) -> None:
        name, proof = signed[:_NAME], signed[_NAME:]
        if not hmac.compare_digest(proof, self._proof(role, name, other)):
            raise HandshakeError
        self.peer = name.rstrip(b"\0").decode()

    def _proof(self, role: bytes, name: bytes, other: bytes) -> bytes:
        """Prove `role` under `name`, to `other` if that is known; the dialler's nonce comes first."""
        nonces = self._nonce + self._theirs if self._dials else self._theirs + self._nonce
        return hmac.digest(
            self._key, _MAGIC + role.ljust(16) + name + other.ljust(_NAME, b"\0") + nonces, "sha256"
        )


def shake_hands(
    connection: socket.socket, key: bytes, name: str, *, dials: bool, timeout: float = PATIENCE
) -> str:
    """Do the whole handshake on a blocking socket; gives the name of the other side.

    Parameters
    ----------
    connection : socket.socket
        Connected; its time-out is the one it had when this returns.
    key, name, dials
        As for `Handshake`.
    timeout : float
        Seconds for all of it.

    Raises
    ------
    HandshakeError
        If the other side did not prove itself in time. The socket is left open, and should be closed.
    """
    before, deadline = connection.gettimeout(), time.monotonic() + timeout
    handshake = Handshake(key, name, dials=dials)
    try:
        connection.settimeout(timeout)
        connection.sendall(handshake.begin())
        while handshake.wanted:
            data = b""
            while len(data) < handshake.wanted:
                connection.settimeout(max(1e-3, deadline - time.monotonic()))
                part = connection.recv(handshake.wanted - len(data))
                if not part or time.monotonic() > deadline:
                    raise HandshakeError
                data += part
            answer = handshake.receive(data)
            if answer:
                connection.sendall(answer)
    except OSError as error:
        raise HandshakeError from error
    finally:
        connection.settimeout(before)
    return handshake.peer
