"""Frames come out as they went in, however they are cut; what is none is refused."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwise.collectives.control.frame import Frame, FrameError, FrameReader, encode

BODIES = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3),
    ),
    max_size=3,
)


def read(reader: FrameReader, stream: bytes, fds: tuple[int, ...] = ()) -> list[Frame]:
    """Let a reader take a stream as its target's size allows."""
    frames = []
    while stream:
        target = reader.target
        count = min(len(target), len(stream))
        target[:count] = stream[:count]
        target.release()
        frame = reader.filled(count, fds)
        fds = ()
        stream = stream[count:]
        if frame is not None:
            frames.append(frame)
    return frames


@given(
    st.lists(st.tuples(st.text(max_size=9), BODIES, st.integers(-9, 9), st.binary(max_size=50)), max_size=4)
)
def test_there_and_back(messages: list[tuple[str, dict[str, object], int, bytes]]) -> None:
    stream = b"".join(
        encode(kind, body, token, len(data), 0) + data  # type: ignore[arg-type]
        for kind, body, token, data in messages
    )
    frames = read(FrameReader(), stream)
    assert [(each.kind, each.body, each.token, bytes(each.data)) for each in frames] == messages


def test_file_descriptors_belong_to_their_frame() -> None:
    stream = encode("a", {}, 0, 0, 2) + encode("b", {}, 0, 3, 1) + b"xyz"
    frames = read(FrameReader(), stream, (7, 8, 9))
    assert [each.fds for each in frames] == [(7, 8), (9,)]
    assert bytes(frames[1].data) == b"xyz"


def test_file_descriptors_of_frames_that_never_came_are_closed() -> None:
    ours, theirs = os.pipe()
    reader = FrameReader()
    reader.filled(4, (theirs,))
    reader.close()
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(theirs)
    os.close(ours)


@pytest.mark.parametrize(
    "stream",
    [
        b"GET / HTTP/1.1\r\nHost: x",
        b"SWF1" + b"\xff" * 16,  # oversized everything
        b"SWF1" + bytes(3) + b"\xff" + bytes(12),  # too many file descriptors
        b"SWF1" + bytes(7) + b"\x04" + bytes(8) + b"\x80\x04N.",  # a pickle for a header
        b"SWF1" + bytes(7) + b"\x02" + bytes(8) + b"[]",
        b"SWF1" + bytes(4) + (300_000).to_bytes(4, "big") + bytes(8) + b"[" * 300_000,
        encode("a", {}, 0, 0, 1),  # whose file descriptor did not come
    ],
    ids=["http", "oversized", "fds", "pickle", "form", "deep", "lost fd"],
)
def test_what_is_no_frame(stream: bytes) -> None:
    with pytest.raises(FrameError):
        read(FrameReader(), stream)


@given(st.binary(min_size=20, max_size=200))
def test_random_bytes_are_no_frames(stream: bytes) -> None:
    with pytest.raises(FrameError):
        read(FrameReader(), stream)


def test_what_cannot_be_said() -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        encode("a", {"x": float("nan")}, 0, 0, 0)
    with pytest.raises(TypeError, match="not JSON serializable"):
        encode("a", {"x": b""}, 0, 0, 0)  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="too much for one message"):
        encode("a", {}, 0, 0, 201)
