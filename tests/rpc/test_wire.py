"""What goes over the wire: frames cut anywhere, large ones among small ones, memory that comes back."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranks import remote
from ranks.agents import pair
from shardwise import rpc
from shardwise.rpc.pickling import Parcel
from shardwise.rpc.wire.frame import Frame, FrameError, Type, chunk_head, encode, stream_key
from shardwise.rpc.wire.lending import Lender
from shardwise.rpc.wire.reader import Reader, aligned


def no_segment(number: int, nbytes: int) -> Any:
    raise FrameError("none")


def written(frame: Frame, chunk: int) -> list[bytes]:
    """A frame as bytes: in one piece, or streamed in chunks of so many bytes."""
    head, content = encode(frame, streamed=chunk > 0)
    whole = b"".join(bytes(each) for each in content)
    if not chunk:
        return [head + whole]
    key = stream_key(frame.type, frame.id)
    cuts = [whole[i : i + chunk] for i in range(0, len(whole), chunk)]
    return [head, *(chunk_head(key, len(cut)) + cut for cut in cuts)]


def received(data: bytes, sizes: list[int]) -> list[Frame]:
    """Feed a reader with bytes, so many at a time."""
    reader, found, at, turn = Reader(no_segment), [], 0, 0
    while at < len(data):
        target = reader.target
        count = min(len(target), len(data) - at, sizes[turn % len(sizes)])
        target[:count] = data[at : at + count]
        found += reader.filled(count)
        at, turn = at + count, turn + 1
    return found


FRAMES = st.builds(
    lambda type, id, kind, body, notes, buffers: Frame(
        type, id, kind, 3, 4, Parcel(body, notes, [memoryview(each) for each in buffers])
    ),
    st.sampled_from([Type.REQUEST, Type.ANSWER, Type.FAILURE]),
    st.integers(0, 2**40),
    st.text(max_size=8),
    st.binary(min_size=1, max_size=300),
    st.binary(max_size=20),
    st.lists(st.binary(max_size=2000), max_size=4),
)


@settings(max_examples=150)
@given(
    st.lists(FRAMES, max_size=5), st.integers(1, 700), st.lists(st.integers(1, 900), min_size=1), st.data()
)
def test_frames_come_whole_however_they_are_cut(
    frames: list[Frame], chunk: int, sizes: list[int], data: st.DataObject
) -> None:
    for number, frame in enumerate(frames):
        frame.id = number
    streams = [written(frame, chunk if number % 2 else 0) for number, frame in enumerate(frames)]
    mixed = b""
    while any(streams):  # streams take turns, in any order
        pick = data.draw(st.sampled_from([stream for stream in streams if stream]))
        mixed += pick.pop(0)
    found = {frame.id: frame for frame in received(mixed, sizes)}
    assert sorted(found) == list(range(len(frames)))
    for frame in frames:
        there = found[frame.id]
        assert (there.type, there.kind, there.chain, there.depth) == (frame.type, frame.kind, 3, 4)
        assert bytes(there.parcel.body) == frame.parcel.body
        assert bytes(there.parcel.notes) == frame.parcel.notes
        assert [bytes(each) for each in there.parcel.buffers] == [bytes(b) for b in frame.parcel.buffers]


def test_memory_is_aligned() -> None:
    assert all(aligned(n).ctypes.data % 64 == 0 for n in (1, 63, 64, 1000, 10**6))
    assert aligned(0).nbytes == 0


def test_a_lender_keeps_few_segments_and_no_more_than_it_may() -> None:
    lender = Lender(8 << 20)
    megabytes = memoryview(bytes(3 << 20))
    (first, zero), (segment,) = lender.lend([megabytes, memoryview(b"small")])
    assert (first, zero) == (1 + segment.number, 0)
    assert segment.memory.nbytes == 4 << 20
    assert lender.lend([megabytes])[1][0].number != segment.number
    assert lender.lend([megabytes]) == ([], [])  # all is lent
    assert not lender.released(segment.number)
    assert lender.lend([megabytes]) == ([1 + segment.number], [])  # known there already
    assert not lender.released(99)
    assert lender.nbytes == 8 << 20
    lender.close()
    assert lender.nbytes == 0
    assert lender.lend([megabytes]) == ([], [])


def test_segments_come_back_when_the_last_array_goes() -> None:
    with pair() as (agent, _):

        def call(x: np.ndarray[Any, Any]) -> Any:
            return agent.send(1, "call", (remote.same, (x,), {})).wait(20)

        x = np.arange(200_000.0)
        kept = [call(x) for _ in range(4)]  # answers that live in four segments of the other
        assert all(np.array_equal(each, x) for each in kept)
        kept[0][:] = 0
        assert np.array_equal(kept[1], x)
        view = kept[1][10:20]
        del kept
        gc.collect()
        for _ in range(10):
            assert np.array_equal(call(x), x)
        assert view.tolist() == list(range(10, 20))  # a view keeps its segment
        deadline = time.monotonic() + 5
        while agent.debug_info()["bytes_of_segments"] > 4 << 20 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert agent.debug_info()["bytes_of_segments"] <= 4 << 20


def test_without_shared_memory_all_goes_by_sockets() -> None:
    with pair(options=rpc.RpcBackendOptions(shared_memory=0)) as (agent, _):
        x = np.arange(2_000_000.0)
        assert np.array_equal(agent.send(1, "call", (remote.same, (x,), {})).wait(20), x)
        assert agent.debug_info()["bytes_of_segments"] == 0


@pytest.mark.parametrize("hosts", ["aa", "ab"], ids=["one host", "two hosts"])
def test_small_calls_overtake_large_ones(hosts: str) -> None:
    options = rpc.RpcBackendOptions(shared_memory=0, window_bytes=1 << 30)
    with pair(hosts, options) as (agent, _):
        agent.send(1, "call", (remote.nothing, (), {})).wait(10)
        large = agent.send(1, "call", (remote.nothing, (), {"x": np.zeros(25_000_000)}))
        small = agent.send(1, "call", (remote.add, (1, 2), {}))
        assert small.wait(10) == 3
        assert not large.done()
        assert isinstance(large.exception(60), TypeError)


def test_many_large_ones_from_both_sides_at_once() -> None:
    with pair("ab") as agents:
        failed: list[BaseException] = []

        def calls(me: int) -> None:
            try:
                arrays = [np.full(150_000 + i, float(i)) for i in range(12)]
                futures = [agents[me].send(1 - me, "call", (remote.same, (x,), {})) for x in arrays]
                for x, future in zip(arrays, futures, strict=True):
                    assert np.array_equal(future.wait(60), x)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=calls, args=(me,)) for me in (0, 1, 0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
