"""What the host waits for, and does not; what comes of operations that hang or fail."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import collectives
from shardwise.backend.errors import CollectiveError, CollectiveTimeoutError, DeviceError, DTypeError


@pytest.fixture(autouse=True)
def nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDWISE_DEVICE_TRANSPORT", "nccl")


def run(body: Callable[[], Any], n: int = 2) -> list[Any]:
    """Run `body` on n ranks, each on its own device."""

    def on_device(rank: int) -> Any:
        import cupy

        with cupy.cuda.Device(rank):
            return body()

    return sw.spawn(on_device, nprocs=n, transport="threads")


def test_wait_does_not_wait_on_the_host(cupy: ModuleType) -> None:
    """The first rank waits for its work before the second has come at all."""

    def body() -> None:
        x = cupy.asarray(np.ones(3))
        collectives.all_reduce(x)  # connects
        if collectives.rank() == 1:
            collectives.recv_object(src=0)  # comes when the first rank has waited
        work = collectives.all_reduce(x, async_op=True)
        y = work.wait()
        if collectives.rank() == 0:
            assert not work.is_completed()
            assert math.isnan(work.record.end)
            collectives.send_object("come", dst=1)
        np.testing.assert_array_equal(y.get(), [2.0, 2.0, 2.0])
        assert work.is_completed()
        while math.isnan(work.record.end):  # written by who looks after what is under way
            time.sleep(0.001)
        assert work.record.seconds > 0

    run(body)


def test_a_result_on_two_streams(cupy: ModuleType) -> None:
    """Who waits second, on another stream, comes behind the copy that the first has made."""

    def body() -> None:
        rank = collectives.rank()
        x = cupy.asarray(np.full((2, 2), rank, np.float32))
        work = collectives.all_gather(x, dim=1, async_op=True)
        side = cupy.cuda.Stream(non_blocking=True)
        with side:
            first = work.wait()
        second = work.wait()
        assert first is second
        np.testing.assert_array_equal(second.get(), [[0, 0, 1, 1]] * 2)

    for _ in range(4):
        run(body)


def test_arrays_are_kept_until_they_are_read(cupy: ModuleType) -> None:
    """Nobody holds the input, nor the work; what is allocated next does not take its memory."""

    def body() -> None:
        out = cupy.empty((1000,), np.float32)
        collectives.all_reduce(cupy.asarray(np.ones(1000, np.float32)), out=out, async_op=True)
        for _ in range(5):
            cupy.zeros((1000,), np.float32)
        collectives.all_reduce(cupy.zeros((1,)))  # behind the first one, on the same stream
        np.testing.assert_array_equal(out.get(), np.full(1000, 2.0))

    run(body)


def test_no_array_is_written_before_the_caller_has_read_it(cupy: ModuleType) -> None:
    def body() -> None:
        out = cupy.asarray(np.full(4, 7.0))
        read = out * 2
        collectives.all_reduce(cupy.asarray(np.ones(4)), out=out)
        np.testing.assert_array_equal(read.get(), np.full(4, 14.0))
        np.testing.assert_array_equal(out.get(), np.full(4, 2.0))

    run(body)


def test_a_hang_is_noticed(cupy: ModuleType) -> None:
    def body() -> str:
        x = cupy.asarray(np.ones(2, np.float32))
        group = collectives.new_group(range(2), timeout=0.3)
        collectives.all_reduce(x, group=group).get()
        if collectives.rank() == 1:
            collectives.recv_object(src=0)
            return ""
        work = collectives.all_reduce(x, group=group, async_op=True)
        work.wait()
        while work._task.failure is None:  # type: ignore[attr-defined]
            time.sleep(0.01)
        with pytest.raises(CollectiveTimeoutError) as caught:
            work.wait()
        with pytest.raises(CollectiveTimeoutError):
            collectives.all_reduce(x, group=group)
        collectives.send_object("go", dst=1)
        return str(caught.value)

    said, line = run(body)[0], "test_waits.py:"
    assert said.startswith("rank 0: all_reduce #1 of world#1 over NCCL, called at ")
    assert line in said
    assert said.endswith(
        ", was not done by the GPU in time: not all ranks have come, or the GPU is busy with what it was "
        "given before. See that all ranks call it, in the same order; or give it more time, by the timeout "
        "of the group."
    )


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (1, "a CUDA call failed; run with NCCL_DEBUG=INFO"),
        (6, "another rank has ended, or the network has failed"),
    ],
)
def test_a_failure_of_the_device_is_put_in_words(status: int, words: str, cupy: ModuleType) -> None:
    def body() -> str:
        x = cupy.asarray(np.ones(2, np.float32))
        group = collectives.get_group()
        collectives.all_reduce(x).get()
        if collectives.rank() == 1:
            collectives.recv_object(src=0)
            return ""
        work = collectives.all_reduce(x, async_op=True)
        work.wait()
        group._device._connecting.side._channel._comm.async_error = status  # type: ignore[union-attr]
        while work._task.failure is None:  # type: ignore[attr-defined]
            time.sleep(0.01)
        with pytest.raises(CollectiveError) as caught:
            work.wait()
        collectives.send_object("go", dst=1)
        return str(caught.value)

    said = run(body)[0]
    assert said.startswith("rank 0: all_reduce #1 of world over NCCL, called at ")
    assert said.endswith(f", failed: NCCL status {status}: {words}.")


def test_a_status_that_cupy_does_not_know(cupy: ModuleType) -> None:
    from shardwise.collectives.device.nccl import nccl_error

    assert nccl_error(KeyError(6)) == "NCCL status 6: another rank has ended, or the network has failed"
    assert nccl_error(KeyError(7)) == "NCCL status 7: still in progress"
    assert nccl_error(ValueError("no")) == "ValueError: no"


def test_one_gpu_for_two(cupy: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def body() -> str | None:
        with cupy.cuda.Device(0):
            got = collectives.all_reduce(cupy.asarray(np.ones(2)))
            np.testing.assert_array_equal(got.get(), [2.0, 2.0])
            return collectives.get_group().device_transport

    monkeypatch.delenv("SHARDWISE_DEVICE_TRANSPORT")
    with pytest.raises(DeviceError, match=r"ranks 0-1 share the GPU 0000:00:00.0 of "):
        run(body)
    monkeypatch.setenv("SHARDWISE_SHARE_GPUS", "1")
    assert run(body) == ["staged", "staged"]


def test_two_devices_of_one_rank(cupy: ModuleType) -> None:
    def body() -> None:
        collectives.all_reduce(cupy.asarray(np.ones(2)))
        with cupy.cuda.Device(3):
            collectives.all_reduce(cupy.asarray(np.ones(2)))

    with pytest.raises(DeviceError, match="the array is on cuda:3, and earlier ones were on cuda:"):
        run(body)


def test_out_on_the_host(cupy: ModuleType) -> None:
    def body() -> None:
        collectives.all_reduce(cupy.asarray(np.ones(2)), out=np.empty(2))

    message = "all_reduce on world, rank 0: out must be on the device, as x is, got one on the host."
    with pytest.raises(DTypeError, match=message):
        run(body)


def test_local_device(cupy: ModuleType) -> None:
    from cupy._stream import count_devices

    def body() -> tuple[str, int]:
        name = collectives.local_device()
        return name, cupy.cuda.Device().id

    assert run(body, 3) == [("cuda:0", 0), ("cuda:1", 1), ("cuda:2", 2)]
    count_devices(2)
    assert run(lambda: collectives.local_device("cuda"), 3) == ["cuda:0", "cuda:1", "cuda:0"]
