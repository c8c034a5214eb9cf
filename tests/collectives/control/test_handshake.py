"""Nobody without the key gets in, and nothing that a stranger sends is used for anything."""

from __future__ import annotations

import secrets
import socket
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwise.collectives.control.handshake import KEY_BYTES, Handshake, HandshakeError, shake_hands

KEY = bytes(range(KEY_BYTES))


def pass_between(dialler: Handshake, listener: Handshake) -> list[bytes]:
    """Let two sides talk until they are done; gives what was said."""
    said = [dialler.begin(), listener.begin()]
    assert said[1] == b""
    said.append(listener.receive(said[0]))
    said.append(dialler.receive(said[2]))
    assert dialler.wanted  # it is not in yet: the other side may hang up before it has its proof
    said.append(listener.receive(said[3]))
    assert dialler.receive(said[4]) == b""
    return [each for each in said if each]


def test_both_prove_themselves() -> None:
    dialler, listener = Handshake(KEY, "rank 3", dials=True), Handshake(KEY, "rank 0", dials=False)
    said = pass_between(dialler, listener)
    assert (dialler.wanted, listener.wanted) == (0, 0)
    assert (dialler.peer, listener.peer) == ("rank 0", "rank 3")
    assert not any(KEY in each for each in said)
    assert sum(map(len, said)) < 4096


def test_another_key_is_found_out_by_either_side() -> None:
    other = secrets.token_bytes(KEY_BYTES)
    dialler, listener = Handshake(KEY, "3", dials=True), Handshake(other, "0", dials=False)
    answer = listener.receive(dialler.begin())
    with pytest.raises(HandshakeError):
        dialler.receive(answer)
    # A dialler that does not care, and goes on.
    with pytest.raises(HandshakeError):
        listener.receive(bytes(listener.wanted))
    assert listener.peer == ""


def test_what_was_said_once_proves_nothing_again() -> None:
    said = pass_between(Handshake(KEY, "3", dials=True), Handshake(KEY, "0", dials=False))
    listener = Handshake(KEY, "0", dials=False)
    listener.receive(said[0])
    with pytest.raises(HandshakeError):
        listener.receive(said[2])


def test_a_listener_cannot_be_used_against_itself() -> None:
    """Its own proof, sent back to another connection of it, is that of another role."""
    first, second = Handshake(KEY, "0", dials=False), Handshake(KEY, "0", dials=False)
    magic_and_nonce = first.wanted
    challenge = second.receive(Handshake(KEY, "x", dials=True).begin())
    first.receive(challenge[:magic_and_nonce])
    with pytest.raises(HandshakeError):
        first.receive(challenge[magic_and_nonce:])


def test_a_name_cannot_be_changed_on_the_way() -> None:
    dialler, listener = Handshake(KEY, "3", dials=True), Handshake(KEY, "0", dials=False)
    proof = dialler.receive(listener.receive(dialler.begin()))
    with pytest.raises(HandshakeError):
        listener.receive(b"4" + proof[1:])


def test_the_last_word_is_checked_too() -> None:
    dialler, listener = Handshake(KEY, "3", dials=True), Handshake(KEY, "0", dials=False)
    dialler.receive(listener.receive(dialler.begin()))
    with pytest.raises(HandshakeError):
        dialler.receive(bytes(dialler.wanted))


@given(st.binary(max_size=300), st.booleans())
def test_random_bytes(data: bytes, dials: bool) -> None:
    side = Handshake(KEY, "0", dials=dials)
    side.begin()
    with pytest.raises(HandshakeError):
        side.receive(data[: side.wanted - 1])
    with pytest.raises(HandshakeError):
        side.receive(data.ljust(side.wanted, b"\0")[: side.wanted])


@pytest.mark.parametrize(("key", "name"), [(b"short", "0"), (KEY, "x" * 65)])
def test_keys_and_names_have_their_sizes(key: bytes, name: str) -> None:
    with pytest.raises(ValueError, match=r"bytes"):
        Handshake(key, name, dials=True)


def test_over_a_socket() -> None:
    here, there = socket.socketpair()
    names: list[str] = []
    with here, there:
        here.settimeout(7.0)
        listening = threading.Thread(target=lambda: names.append(shake_hands(there, KEY, "b", dials=False)))
        listening.start()
        assert shake_hands(here, KEY, "a", dials=True) == "b"
        listening.join(5)
        assert here.gettimeout() == 7.0
    assert names == ["a"]


@pytest.mark.parametrize(
    "say", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x80\x04\x95" * 100], ids=["nothing", "http", "pickle"]
)
def test_a_stranger_has_a_limited_time(say: bytes) -> None:
    here, there = socket.socketpair()
    with here, there:
        here.sendall(say)
        began = time.monotonic()
        with pytest.raises(HandshakeError):
            shake_hands(there, KEY, "b", dials=False, timeout=0.2)
        assert time.monotonic() - began < 30.0


def test_one_who_hangs_up() -> None:
    here, there = socket.socketpair()
    with there:
        here.close()
        with pytest.raises(HandshakeError):
            shake_hands(there, KEY, "b", dials=False)
