"""Who gets in at the port where supervisors of other hosts knock."""

from __future__ import annotations

import random
import secrets
import selectors
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from shardwise.collectives.control.handshake import HandshakeError, shake_hands
from shardwise.collectives.control.host import host_id
from shardwise.launch import door as module
from shardwise.launch.door import Door
from shardwise.launch.uplink import Frames, frame, this_host

KEY = secrets.token_bytes(32)


class House:
    """A door, and those who came in."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.guests: list[socket.socket] = []
        self.door = Door("127.0.0.1", KEY, self.selector, self.guests.append)

    def look(self, until: Callable[[], bool], seconds: float = 5.0) -> bool:
        """Handle what comes until something is the case."""
        end = time.monotonic() + seconds
        while not until() and time.monotonic() < end:
            for key, _ in self.selector.select(0.01):
                key.data()
            self.door.shut_out()
        return until()

    @property
    def strangers(self) -> int:
        return len(self.selector.get_map()) - 1

    def knock(self) -> socket.socket:
        return socket.create_connection(self.door.address, timeout=5)


@pytest.fixture
def house() -> Iterator[House]:
    """A house whose door is closed in the end."""
    made = House()
    yield made
    made.door.close()
    made.selector.close()
    for guest in made.guests:
        guest.close()


def hand_over(house: House, key: bytes) -> bool:
    """Try to get in with this key."""
    import threading

    result: list[bool] = []

    def try_it() -> None:
        with house.knock() as knocking:
            try:
                shake_hands(knocking, key, "supervisor 3", dials=True)
                result.append(True)
            except HandshakeError:
                result.append(False)

    thread = threading.Thread(target=try_it)
    thread.start()
    assert house.look(lambda: bool(result))
    thread.join()
    return result[0]


def test_the_key_opens(house: House) -> None:
    assert hand_over(house, KEY)
    assert house.look(lambda: len(house.guests) == 1)
    assert house.guests[0].getblocking()


def test_another_key_does_not(house: House) -> None:
    assert not hand_over(house, secrets.token_bytes(32))
    assert house.look(lambda: house.strangers == 0)
    assert house.guests == []


def test_random_bytes_do_not(house: House) -> None:
    rng = random.Random(0)
    for length in (0, 1, 20, 52, 53, 1000, 100_000):
        with house.knock() as knocking:
            knocking.sendall(rng.randbytes(length))
            knocking.shutdown(socket.SHUT_WR)
            assert house.look(lambda: house.strangers == 0)
    assert house.guests == []
    assert hand_over(house, KEY)


def test_those_who_say_nothing_are_shut_out(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    with house.knock():
        assert house.look(lambda: house.strangers == 1)
        assert house.look(lambda: house.strangers == 0)
    assert house.guests == []


def test_it_listens_on_one_interface_only(house: House) -> None:
    assert house.door.address[0] == "127.0.0.1"


def test_frames_come_out_as_they_went_in() -> None:
    sent = [(b"r", b"x" * 70_000), (b"i", b""), (b"s", bytes([15]))]
    stream = b"".join(frame(kind, payload) for kind, payload in sent)
    for step in (1, 7, 70_000):
        frames = Frames()
        got = [each for at in range(0, len(stream), step) for each in frames.feed(stream[at : at + step])]
        assert got == sent


def test_a_host_knows_itself() -> None:
    assert this_host() == host_id()  # two texts for one thing, since supervisors load no package
    assert this_host().partition("/")[0] == socket.gethostname()
