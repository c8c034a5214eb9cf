"""Messages between the ranks of a control plane; here all ranks are in one process."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from shardwise.backend.errors import CollectiveError, LaunchError
from shardwise.collectives.control import ControlPlane, Message, bootstrap, connect_plane
from shardwise.collectives.control.frame import encode
from shardwise.collectives.control.handshake import KEY_BYTES, Handshake, HandshakeError, shake_hands
from shardwise.collectives.control.member import Member

Make = Callable[..., list[ControlPlane]]


class Meeting:
    """What the ranks of a test talk through before they have a control plane."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._barrier = threading.Barrier(size, timeout=60)
        self._said: dict[int, bytes] = {}

    def of(self, rank: int) -> MeetingPlace:
        return MeetingPlace(self, rank)

    def swap(self, rank: int, data: bytes) -> list[bytes]:
        self._said[rank] = data
        self._barrier.wait()
        everything = [self._said[each] for each in range(self.size)]
        self._barrier.wait()
        return everything


class MeetingPlace:
    def __init__(self, meeting: Meeting, rank: int) -> None:
        self._meeting = meeting
        self._rank = rank

    def broadcast(self, data: bytes | None, nbytes: int) -> bytes:
        first = self._meeting.swap(self._rank, data or b"")[0]
        assert len(first) == nbytes
        return first

    def share(self, data: bytes) -> list[bytes]:
        return self._meeting.swap(self._rank, data)


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes the control planes of n ranks, and closes them."""
    made: list[ControlPlane] = []

    def connect(size: int, **environ: str) -> list[ControlPlane]:
        meeting = Meeting(size)
        planes: dict[int, ControlPlane] = {}
        errors: list[Exception] = []

        def one(rank: int) -> None:
            try:
                planes[rank] = connect_plane(meeting.of(rank), rank, size, environ)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        made.extend(planes.values())
        if errors:
            assert len({str(error) for error in errors}) == 1
            raise errors[0]
        return [planes[rank] for rank in range(size)]

    yield connect
    for plane in made:
        plane.close()
    assert not [each.name for each in threading.enumerate() if each.name == "shardwise-control"]


class Inbox:
    """Keeps what a handler gets."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._came = threading.Condition()

    def __call__(self, message: Message) -> None:
        with self._came:
            self.messages.append(message)
            self._came.notify_all()

    def wait(self, count: int) -> list[Message]:
        with self._came:
            assert self._came.wait_for(lambda: len(self.messages) >= count, 60)
        return self.messages


def eventually(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.005)
    return condition()


def keys_of(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Give the keys of the jobs that are made from now on."""
    keys: list[bytes] = []
    plain = bootstrap.secrets.token_bytes
    monkeypatch.setattr(bootstrap.secrets, "token_bytes", lambda n: keys.append(plain(n)) or keys[-1])
    return keys


def local_socket(plane: ControlPlane, dst: int) -> socket.socket:
    stranger = socket.socket(socket.AF_UNIX)
    stranger.settimeout(60)
    stranger.connect(plane.members[dst].local)
    return stranger


def test_everyone_to_everyone(make: Make) -> None:
    planes = make(4)
    boxes = [Inbox() for _ in planes]
    for plane, box in zip(planes, boxes, strict=True):
        plane.on("hello", box)
    for plane in planes:
        for dst in range(4):
            plane.send(dst, "hello", {"from": plane.rank, "list": (1, 2.5, None)}, bytes([plane.rank]) * 3)
    for box in boxes:
        came = sorted(box.wait(4), key=lambda message: message.src)
        assert [message.src for message in came] == [0, 1, 2, 3]
        assert [message.body["from"] for message in came] == [0, 1, 2, 3]
        assert [bytes(message.data) for message in came] == [bytes([rank]) * 3 for rank in range(4)]
        assert {message.kind for message in came} == {"hello"}


def test_messages_keep_their_order_also_those_from_before_there_was_a_handler(make: Make) -> None:
    planes = make(3)
    for number in range(200):
        planes[1].send(2, "count", {"number": number}, bytes(number % 7 * 1000))
    time.sleep(0.05)
    box = Inbox()
    planes[2].on("count", box)
    for number in range(200, 300):
        planes[1].send(2, "count", {"number": number})
    assert [message.body["number"] for message in box.wait(300)] == list(range(300))


def test_dialling_at_once_loses_nothing(make: Make) -> None:
    for _ in range(5):
        planes = make(4)
        boxes = [Inbox() for _ in planes]
        start = threading.Barrier(4)

        def talk(plane: ControlPlane, box: Inbox, start: threading.Barrier = start) -> None:
            plane.on("n", box)
            start.wait()
            for number in range(50):
                for dst in range(4):
                    plane.send(dst, "n", {"number": number})

        threads = [threading.Thread(target=talk, args=pair) for pair in zip(planes, boxes, strict=True)]
        for thread in threads:
            thread.start()
        for box in boxes:
            box.wait(200)
            for src in range(4):
                assert [m.body["number"] for m in box.messages if m.src == src] == list(range(50))
        for thread in threads:
            thread.join()
        assert not any(plane.liveness.news for plane in planes)


def test_large_data(make: Make) -> None:
    planes = make(2)
    box = Inbox()
    planes[1].on("large", box)
    data = os.urandom(1 << 20) * 9
    planes[0].send(1, "large", {}, data)
    planes[0].send(1, "large", {}, memoryview(data)[5:10])
    came = box.wait(2)
    assert came[0].data == data
    assert came[1].data == data[5:10]


def test_file_descriptors(make: Make) -> None:
    planes = make(2)
    for dst in (1, 0):  # to another rank, and to itself
        box = Inbox()
        planes[dst].on(f"fds {dst}", box)
        ours, theirs = os.pipe()
        planes[0].send(dst, f"fds {dst}", fds=[theirs, theirs])
        os.close(theirs)
        (message,) = box.wait(1)
        assert len(message.fds) == 2
        os.write(message.fds[0], b"a")
        os.write(message.fds[1], b"b")
        for fd in message.fds:
            os.close(fd)
        assert os.read(ours, 9) + os.read(ours, 9) == b"ab"
        assert os.read(ours, 9) == b""  # nobody else has kept one
        os.close(ours)


def test_questions(make: Make) -> None:
    planes = make(3)
    for plane in planes:
        if plane.rank != 1:
            plane.on("name", lambda m, plane=plane: plane.answer(m, {"name": f"r{plane.rank}"}, b"!"))
    began = time.monotonic()
    answers = planes[0].ask(range(3), "name", timeout=2.0)  # rank 1 does not answer
    assert 1.9 < time.monotonic() - began < 60.0
    assert {rank: answer.body["name"] for rank, answer in answers.items()} == {0: "r0", 2: "r2"}
    assert bytes(answers[2].data) == b"!"


def test_a_handler_cannot_wait(make: Make) -> None:
    planes = make(2)
    said: list[str] = []

    def handler(message: Message) -> None:
        with pytest.raises(CollectiveError) as caught:
            planes[1].ask([0], "x")
        said.append(str(caught.value))

    planes[1].on("go", handler)
    planes[0].send(1, "go")
    assert eventually(lambda: bool(said))
    assert said == ["a handler of the control plane cannot wait for answers; ask on another thread."]


def test_a_handler_that_fails_ends_nothing(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    planes = make(2)
    planes[1].on("bad", lambda message: message.body["nothing"])
    planes[1].on("good", lambda message: planes[1].answer(message))
    planes[0].send(1, "bad")
    assert 1 in planes[0].ask([1], "good")
    assert "KeyError: 'nothing'" in caplog.text


def test_what_cannot_be_sent(make: Make) -> None:
    planes = make(2)
    with pytest.raises(CollectiveError) as caught:
        planes[1].send(2, "x")
    assert str(caught.value) == (
        "control message 'x' from rank 1 to rank 2; wanted a global rank from 0 to 1."
    )
    planes[1].close()
    with pytest.raises(
        CollectiveError, match=r"^control message 'x' from rank 1: its world was shut down\.$"
    ):
        planes[1].send(0, "x")
    planes[1].close()


def test_those_who_leave_and_those_who_die(make: Make) -> None:
    planes = make(4)
    assert planes[0].peer(1).state == "alive"
    planes[1].tell("left", 5.0)
    assert eventually(lambda: all(planes[rank].peer(1).state == "left" for rank in (0, 2, 3)))
    planes[1].close()
    planes[2].close()  # without a word, as a process that is killed
    assert eventually(lambda: all(planes[rank].peer(2).state == "dead" for rank in (0, 3)))
    for rank in (0, 3):
        assert planes[rank].peer(1).state == "left"
        assert planes[rank].peer(1).when == 5.0
        assert planes[rank].peer(2).reason == "its process ended without a word"
        assert planes[rank].peer(0 if rank else 3).state == "alive"
    began = time.monotonic()
    assert planes[0].ask([1, 2], "x", timeout=90.0) == {}  # nobody waits for the dead
    assert time.monotonic() - began < 60.0
    planes[0].send(2, "x")


def test_all_notice_that_rank_0_dies_and_still_reach_each_other(make: Make) -> None:
    planes = make(3)
    planes[0].close()
    assert eventually(lambda: all(planes[rank].peer(0).state == "dead" for rank in (1, 2)))
    planes[2].tell("failed", 7.0)
    assert eventually(lambda: planes[1].peer(2).state == "failed")
    assert planes[1].peer(2).when == 7.0


def test_the_last_to_leave_takes_its_news_along(make: Make) -> None:
    planes = make(3)
    for plane in planes[::-1]:
        plane.tell("left", 1.0)
    for plane in planes:
        plane.flush()
    planes[0].close()
    for plane in planes[1:]:
        assert eventually(lambda plane=plane: len(plane.liveness.gone()) == 2)
        assert {peer.state for peer in plane.liveness.gone().values()} == {"left"}


def test_one_who_leaves_while_others_talk_to_it_has_not_died(make: Make) -> None:
    for _ in range(20):
        talker, leaver = make(2)
        box, left = Inbox(), threading.Event()
        leaver.on("talk", box)

        def talk(talker: ControlPlane = talker, left: threading.Event = left) -> None:
            while not left.is_set():
                talker.send(1, "talk")

        threads = [threading.Thread(target=talk) for _ in range(2)]
        for thread in threads:
            thread.start()
        box.wait(1)
        leaver.tell("left", 5.0)
        leaver.close()
        assert eventually(lambda talker=talker: talker.peer(1).is_gone)
        left.set()
        for thread in threads:
            thread.join()
        assert (talker.peer(1).state, talker.peer(1).when) == ("left", 5.0)


def test_the_reset_of_one_of_two_connections_is_no_death(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ranks may have dialled; then the goodbye can be in one, and what was not read in the other."""
    keys = keys_of(monkeypatch)
    planes = make(2)
    states: list[str] = []
    planes[0].liveness.watch(lambda rank, peer: states.append(peer.state))

    def dial() -> socket.socket:
        connection = local_socket(planes[0], 0)
        shake_hands(connection, keys[0], "1", dials=True)
        return connection

    with dial() as unread, dial() as talking:
        planes[1].close()
        while not select.select([unread], [], [], 0.01)[0]:
            planes[0].send(1, "talk")
        unread.close()
        while not select.select([talking], [], [], 0.01)[0]:
            planes[0].send(1, "talk")
        assert states == []
        news = {"rank": 1, "state": "left", "when": 5.0, "reason": ""}
        talking.sendall(encode("~news", {"news": [news]}, 0, 0, 0))
    assert eventually(lambda: planes[0].peer(1).is_gone)
    assert (states, planes[0].peer(1).when) == (["left"], 5.0)


def test_a_death_is_noticed_by_the_last_of_two_connections(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = keys_of(monkeypatch)
    planes = make(2)
    with local_socket(planes[0], 0) as other:  # does not read what it gets, so that it ends by a reset
        shake_hands(other, keys[0], "1", dials=True)
        planes[1].close()
        while not select.select([other], [], [], 0.01)[0]:
            planes[0].send(1, "talk")
        assert planes[0].peer(1).state == "alive"
    assert eventually(lambda: planes[0].peer(1).state == "dead")
    assert planes[0].peer(1).reason == "its process ended without a word"


def test_strangers_change_nothing(make: Make) -> None:
    planes = make(2)
    planes[0].on("ping", lambda message: planes[0].answer(message))
    strangers = []
    for say in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x80\x04\x95" + bytes(500), os.urandom(10_000)):
        stranger = local_socket(planes[0], 0)
        stranger.sendall(say)
        strangers.append(stranger)
    for stranger in strangers[1:]:
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1) == b""  # hung up on, without a reason
    with local_socket(planes[0], 0) as stranger, pytest.raises(HandshakeError):
        shake_hands(stranger, bytes(32), "1", dials=True)
    for stranger in strangers:
        stranger.close()
    assert 0 in planes[1].ask([0], "ping")
    assert planes[0].liveness.news == 0


def test_a_flood_of_connections(make: Make) -> None:
    planes = make(2)
    planes[0].on("ping", lambda message: planes[0].answer(message))
    flood = [local_socket(planes[0], 0) for _ in range(400)]
    assert 0 in planes[1].ask([0], "ping", timeout=60.0)
    # The oldest have been hung up on, so that there is always room.
    assert flood[0].recv(1) == b""
    for stranger in flood:
        stranger.close()


def test_one_that_is_hung_up_on_before_it_is_known_dials_again() -> None:
    """Rank 0 may do so when too many dial at once; that is not its death."""
    key = bytes(range(KEY_BYTES))
    with contextlib.ExitStack() as stack:
        ends = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
        for end in ends:
            end.bind("")  # the kernel chooses a name
            end.listen()
        names = [bytes(end.getsockname()).decode("latin1") for end in ends]
        members = [Member("host", "node1", os.getpid(), "1", name) for name in names]
        plane = ControlPlane(1, members, key, ends[1:])
        stack.callback(plane.close)
        ends[0].settimeout(60)
        with ends[0].accept()[0] as refused:
            handshake = Handshake(key, "0", dials=False)
            refused.sendall(handshake.receive(refused.recv(handshake.wanted, socket.MSG_WAITALL)))
            refused.recv(handshake.wanted, socket.MSG_WAITALL)
        with ends[0].accept()[0] as welcome:
            assert shake_hands(welcome, key, "0", dials=False) == "1"
            plane.send(0, "talk")
            assert b"talk" in welcome.recv(99)
            assert plane.peer(0).state == "alive"


def test_a_rank_that_breaks_the_rules_is_cut_off(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = keys_of(monkeypatch)
    planes = make(3)
    key = keys[0]
    for name in ("7", "0", "x", ""):  # no such rank, itself, no rank at all
        with local_socket(planes[0], 0) as insider:
            shake_hands(insider, key, name, dials=True)
            assert insider.recv(1) == b""
    assert planes[0].liveness.news == 0
    with local_socket(planes[0], 0) as insider:
        shake_hands(insider, key, "2", dials=True)
        insider.sendall(b"SWF1" + b"\xff" * 500)
        with contextlib.suppress(ConnectionResetError):
            while insider.recv(1 << 16):
                pass
    assert eventually(lambda: planes[1].peer(2).state == "dead")
    assert planes[1].peer(2).reason.startswith("a frame begins with b'SWF1")


def test_another_version(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = iter(["1.0", "1.0", "2.0"])
    lock = threading.Lock()

    def version() -> str:
        with lock:
            return next(versions)

    monkeypatch.setattr(bootstrap, "_version", version)
    monkeypatch.setattr(socket, "gethostname", lambda: "node7")
    with pytest.raises(
        LaunchError, match=r"^rank \d on node7 runs shardwise \d.0, rank 0 on node7 runs \d.0; "
    ):
        make(3)


def test_seconds_that_are_none(make: Make) -> None:
    with pytest.raises(LaunchError) as caught:
        make(1, SHARDWISE_DEAD_AFTER="soon")
    assert str(caught.value) == "SHARDWISE_DEAD_AFTER='soon'; wanted a positive number of seconds."


def test_between_hosts(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that believe to be on hosts of their own talk over TCP, at one address, and pass no files."""
    ids = iter(f"host{i}" for i in range(9))
    lock = threading.Lock()

    def host() -> str:
        with lock:
            return next(ids)

    there = bootstrap.Interface("here", "127.0.0.1", 8)
    monkeypatch.setattr(bootstrap, "host_id", host)
    monkeypatch.setattr(bootstrap, "interfaces", lambda choice: [there])
    planes = make(3)
    assert len(set(planes[0].hosts)) == 3
    assert {member.address for member in planes[0].members} == {"127.0.0.1"}
    assert len({member.port for member in planes[0].members}) == 3
    for plane in planes:
        plane.on("ping", lambda message, plane=plane: plane.answer(message, {}, message.data))
    answers = planes[1].ask(range(3), "ping", {}, bytes(3 << 20), timeout=60.0)
    assert {rank: len(answer.data) for rank, answer in answers.items()} == dict.fromkeys(range(3), 3 << 20)
    with pytest.raises(CollectiveError, match="file descriptors only go to ranks of the same host"):
        planes[1].send(2, "x", fds=[1])
    planes[2].close()
    assert eventually(lambda: planes[1].peer(2).state == "dead")


def test_a_fork_keeps_nothing_open(make: Make) -> None:
    planes = make(2)
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        try:
            planes[1].send(0, "x")
        except CollectiveError as error:
            os.write(theirs, str(error).encode())
        time.sleep(150)
        os._exit(0)
    os.close(theirs)
    try:
        assert os.read(ours, 999) == (
            b"control message 'x' from rank 1: this process was forked from it and is no rank itself."
        )
        planes[1].close()
        # The child has no copy of the socket any more that would hide the end.
        assert eventually(lambda: planes[0].peer(1).state == "dead")
    finally:
        os.close(ours)
        os.kill(child, 9)
        os.waitpid(child, 0)
