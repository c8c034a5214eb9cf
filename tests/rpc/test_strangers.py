"""Who does not know the key gets nowhere, and what is no frame does no harm."""

from __future__ import annotations

import random
import socket
import time
from typing import Any

import pytest

from ranks import remote
from ranks.agents import KEY, make_agent, pair, places
from shardwise.collectives.control.handshake import HandshakeError, shake_hands
from shardwise.errors import PeerDiedError
from shardwise.rpc import pickling
from shardwise.rpc.agent import Outgoing
from shardwise.rpc.serving import reception, socket_agent
from shardwise.rpc.wire.address import Address
from shardwise.rpc.wire.frame import HEAD, Frame, Type, encode

TRIES = 120


@pytest.fixture
def unpickled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was unpickled."""
    found: list[object] = []

    def unpack(parcel: Any, incoming: Any) -> object:
        found.append(parcel)
        return pickling.unpack(parcel, incoming)

    monkeypatch.setattr(reception, "unpack", unpack)
    monkeypatch.setattr(socket_agent, "unpack", unpack)
    return found


def dialled(address: Address, tcp: bool) -> socket.socket:
    end = socket.socket(socket.AF_INET if tcp else socket.AF_UNIX)
    end.settimeout(5)
    end.connect((address.address, address.port) if tcp else address.local)
    return end


def drained(end: socket.socket) -> bytes:
    """What comes until the other side hangs up."""
    found = b""
    try:
        while data := end.recv(4096):
            found += data
    except ConnectionResetError:
        pass
    return found


@pytest.mark.parametrize("tcp", [False, True], ids=["unix", "tcp"])
def test_random_bytes_without_a_proof(tcp: bool, unpickled: list[object]) -> None:
    random.seed(20)
    with pair() as (agent, _):
        address = agent.addresses[0]
        for _ in range(TRIES):
            with dialled(address, tcp) as end:
                try:
                    end.sendall(random.randbytes(random.choice((1, 52, 53, 64, 300, 5000))))
                    end.shutdown(socket.SHUT_WR)
                except OSError:
                    continue
                assert len(drained(end)) < 400
        assert not unpickled
        assert agent.send(1, "call", (remote.add, (1, 2), {})).wait(5) == 3


@pytest.mark.parametrize("tcp", [False, True], ids=["unix", "tcp"])
def test_another_key(tcp: bool, unpickled: list[object]) -> None:
    with pair() as (agent, _):
        with dialled(agent.addresses[0], tcp) as end, pytest.raises(HandshakeError):
            shake_hands(end, bytes(32), "rpc 1 small", dials=True)
        for name in ("rpc 7 small", "rpc 1 other", "nobody", "rpc x small"):
            with dialled(agent.addresses[0], tcp) as end:
                shake_hands(end, KEY, name, dials=True)
                assert drained(end) == b""
        assert not unpickled
    sockets, addresses = places(2)
    one, other = make_agent(0, sockets[0], addresses), make_agent(1, sockets[1], addresses, bytes(32))
    with pytest.raises(PeerDiedError):
        one.send(1, "call", (remote.nothing, (), {})).wait(5)
    assert not unpickled
    one.close()
    other.close()


def request() -> bytes:
    """A call, as bytes."""
    outgoing = Outgoing(None, 0, "call")  # type: ignore[arg-type]
    parcel = pickling.pack((remote.nothing, (), {}), outgoing, pickling.Reducers())
    head, content = encode(Frame(Type.REQUEST, 5, "call", 1, 1, parcel))
    return head + b"".join(bytes(each) for each in content)


@pytest.mark.parametrize("path", ["small", "large"])
def test_frames_that_are_cut_or_wrong(path: str, unpickled: list[object]) -> None:
    """They come from a worker that has proved itself: its connection ends, and the others go on."""
    random.seed(21)
    whole = request()
    for number in range(TRIES):
        sockets, addresses = places(2)
        agent = make_agent(0, sockets[0], addresses)
        broken = bytearray(whole)
        if number % 3 == 0:
            del broken[random.randrange(1, len(broken)) :]
        elif number % 3 == 1:
            broken[random.randrange(6)] ^= 1 + random.randrange(255)  # of the magic, or the type
            if broken[4] == Type.REQUEST:
                broken[4] = 99
        else:
            broken = bytearray(whole[:4] + random.randbytes(HEAD.size - 4))
        with dialled(addresses[0], tcp=False) as end:
            shake_hands(end, KEY, f"rpc 1 {path}", dials=True)
            end.sendall(broken)
            end.shutdown(socket.SHUT_WR)
            assert drained(end) == b""
        assert not unpickled
        assert agent.send(0, "call", (remote.add, (1, 2), {})).wait(5) == 3
        unpickled.clear()
        agent.part()
        agent.close()
        for each in sockets[1]:
            each.close()


def test_a_stranger_that_says_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from shardwise.rpc.wire import inlet

    monkeypatch.setattr(inlet, "PATIENCE", 0.1)
    with pair() as (agent, _), dialled(agent.addresses[0], tcp=False) as end:
        began = time.monotonic()
        assert drained(end) == b""
        assert time.monotonic() - began < 3
