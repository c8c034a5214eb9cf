"""The double of CuPy and NCCL is strict: what a GPU would answer with wrong numbers or a hang fails on it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from doubles import installed


@pytest.fixture
def cupy() -> Iterator[ModuleType]:
    with installed(1) as module:
        yield module


def wrong(run: Callable[[], np.ndarray], right: np.ndarray) -> bool:
    """Whether some order of what nothing has ordered gives something else."""
    return any(not np.array_equal(run(), right) for _ in range(20))


# ---- streams and memory


def test_streams_wait_for_nothing_unasked(cupy: ModuleType) -> None:
    def run(waits: bool) -> np.ndarray:
        side = cupy.cuda.Stream(non_blocking=True)
        x = cupy.asarray(np.arange(4.0))
        if waits:
            side.wait_event(cupy.cuda.get_current_stream().record())
        with side:
            y = x + 1
        cupy.cuda.get_current_stream().wait_event(side.record())
        return (y * 2).get()

    right = np.array([2.0, 4.0, 6.0, 8.0])
    assert wrong(lambda: run(False), right)
    assert not wrong(lambda: run(True), right)


def test_the_null_stream_is_in_step_with_blocking_streams(cupy: ModuleType) -> None:
    def run() -> np.ndarray:
        x = cupy.asarray(np.arange(4.0))
        with cupy.cuda.Stream():
            y = x + 1
        return (y * 2).get()

    assert not wrong(run, np.array([2.0, 4.0, 6.0, 8.0]))


def test_an_array_is_read_when_the_stream_comes_there(cupy: ModuleType) -> None:
    x = cupy.asarray(np.zeros(3))
    y = x + 1
    x[...] = 5
    np.testing.assert_array_equal(y.get(), np.ones(3))
    np.testing.assert_array_equal(x.get(), np.full(3, 5.0))


def test_memory_that_was_given_back(cupy: ModuleType) -> None:
    def run(keeps: bool) -> np.ndarray:
        side = cupy.cuda.Stream(non_blocking=True)
        x = cupy.asarray(np.ones(4))
        side.wait_event(cupy.cuda.get_current_stream().record())
        with side:
            y = x + 1
        kept = x if keeps else None
        del x
        gc.collect()
        cupy.cuda.get_current_stream().synchronize()
        got: np.ndarray = y.get() if side.synchronize() is None else None  # type: ignore[assignment]
        del kept
        return got

    assert wrong(lambda: run(False), np.full(4, 2.0))
    assert not wrong(lambda: run(True), np.full(4, 2.0))


def test_pinned_memory_that_was_given_back(cupy: ModuleType) -> None:
    stream = cupy.cuda.get_current_stream()
    runtime = cupy.cuda.runtime
    x = cupy.empty((4,), np.float64)
    room = np.frombuffer(cupy.cuda.alloc_pinned_memory(32), np.float64)
    room[...] = 3
    runtime.memcpyAsync(x.data.ptr, room.ctypes.data, 32, runtime.memcpyHostToDevice, stream.ptr)
    del room
    gc.collect()
    assert not np.array_equal(x.get(), np.full(4, 3.0))


def test_copies_want_pinned_memory_and_keep_to_the_arrays(cupy: ModuleType) -> None:
    from cupy._engine import Fault

    runtime = cupy.cuda.runtime
    x, host = cupy.empty((4,), np.float64), np.zeros(8)
    room = np.frombuffer(cupy.cuda.alloc_pinned_memory(64), np.float64)
    with pytest.raises(Fault, match=r"32 bytes at 0x.* are not pinned memory, or no more"):
        runtime.memcpyAsync(host.ctypes.data, x.data.ptr, 32, runtime.memcpyDeviceToHost, 0)
    with pytest.raises(Fault, match=r"64 bytes at 0x.* are not device memory, or no more"):
        runtime.memcpyAsync(room.ctypes.data, x.data.ptr, 64, runtime.memcpyDeviceToHost, 0)


def test_no_array_of_the_host_slips_in(cupy: ModuleType) -> None:
    x = cupy.asarray(np.ones(3))
    for run in (lambda: x + np.ones(3), lambda: np.add(x, np.ones(3)), lambda: np.asarray(x)):
        with pytest.raises(TypeError):
            run()
    with pytest.raises(ValueError, match="cannot be used for fill"):
        x[...] = np.ones(3)
    with pytest.raises(TypeError, match="CuPy has no arrays of float128"):
        cupy.empty((3,), np.longdouble)


# ---- NCCL


def ranks(cupy: ModuleType, n: int, body: Callable[[Any, int, int], object], alike: bool = True) -> list[Any]:
    """Run `body(communicator, rank, stream)` on n threads; give the errors that came of it."""
    nccl = cupy.cuda.nccl
    identity, errors = nccl.get_unique_id(), [None] * n
    all_done = threading.Barrier(n)

    def run(rank: int) -> None:
        comm = None
        try:
            with cupy.cuda.Device(rank if alike else 0):
                comm = nccl.NcclCommunicator(n, identity, rank)
                stream = cupy.cuda.Stream(non_blocking=True)
                with stream:
                    body(comm, rank, stream.ptr)
        except BaseException as error:
            errors[rank] = error  # type: ignore[call-overload]
        finally:
            with suppress(threading.BrokenBarrierError):
                all_done.wait(5)  # what one sent is there until the others have read it
            if comm is not None:
                comm.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


@pytest.fixture
def impatient(cupy: ModuleType) -> Iterator[None]:
    from cupy._engine import ENGINE

    ENGINE.patience, before = 0.5, ENGINE.patience
    yield
    ENGINE.patience = before


def test_a_sum(cupy: ModuleType) -> None:
    def body(comm: Any, rank: int, stream: int) -> None:
        x = cupy.asarray(np.full(3, rank + 1, np.float32))
        comm.allReduce(x.data.ptr, x.data.ptr, 3, 7, 0, stream)
        np.testing.assert_array_equal(x.get(), np.full(3, 6.0))

    assert ranks(cupy, 3, body) == [None] * 3


BAD: dict[str, tuple[Callable[[Any, Any, int, int], object], str]] = {
    "a count beyond the memory": (
        lambda comm, x, rank, s: comm.allReduce(x.data.ptr, x.data.ptr, 4, 7, 0, s),
        "16 bytes at 0x.* are not device memory, or no more",
    ),
    "a pointer to the host": (
        lambda comm, x, rank, s: comm.allReduce(np.ones(3).ctypes.data, x.data.ptr, 3, 7, 0, s),
        "12 bytes at 0x.* are not device memory, or no more",
    ),
    "a dtype that there is not": (
        lambda comm, x, rank, s: comm.allReduce(x.data.ptr, x.data.ptr, 3, 10, 0, s),
        "NCCL_ERROR_INVALID_ARGUMENT",
    ),
    "a root that there is not": (
        lambda comm, x, rank, s: comm.broadcast(x.data.ptr, x.data.ptr, 3, 7, 2, s),
        "NCCL_ERROR_INVALID_ARGUMENT",
    ),
    "a count that differs": (
        lambda comm, x, rank, s: (comm.allReduce(x.data.ptr, x.data.ptr, 3 - rank, 7, 0, s), x.get()),
        r"rank . runs \('allReduce', ., 7, 0\), rank . runs \('allReduce', ., 7, 0\)",
    ),
    "another operation": (
        lambda comm, x, rank, s: (
            comm.allReduce(x.data.ptr, x.data.ptr, 3, 7, 0, s)
            if rank
            else comm.broadcast(x.data.ptr, x.data.ptr, 3, 7, 0, s),
            x.get(),
        ),
        "rank . runs .*, rank . runs",
    ),
    "the mean of integers": (
        lambda comm, x, rank, s: (comm.allReduce(x.data.ptr, x.data.ptr, 3, 2, 4, s), x.get()),
        "avg of integers is not what a mean is",
    ),
    "a call after abort": (
        lambda comm, x, rank, s: (comm.abort(), comm.allReduce(x.data.ptr, x.data.ptr, 3, 7, 0, s)),
        "the communicator was aborted",
    ),
    "a stream that is gone": (
        lambda comm, x, rank, s: comm.allReduce(x.data.ptr, x.data.ptr, 3, 7, 0, 12345),
        "12345 is no stream, or no more",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_nccl_is_strict(what: str, cupy: ModuleType, impatient: None) -> None:
    call, message = BAD[what]
    errors = ranks(cupy, 2, lambda comm, rank, s: call(comm, cupy.asarray(np.ones(3, np.float32)), rank, s))
    told = [error for error in errors if error is not None]
    assert told
    for error in told:
        with pytest.raises(type(error), match=message):
            raise error


def test_a_group_that_is_not_closed(cupy: ModuleType) -> None:
    def body(comm: Any, rank: int, stream: int) -> None:
        x = cupy.asarray(np.ones(3, np.float32))
        cupy.cuda.nccl.groupStart()
        comm.send(x.data.ptr, 3, 7, 1 - rank, stream)
        comm.recv(x.data.ptr, 3, 7, 1 - rank, stream)
        try:
            x.get()
        finally:
            cupy.cuda.nccl.groupEnd()

    assert [str(error) for error in ranks(cupy, 2, body)] == [
        "a group of calls was not closed, and the host waits for what is in it"
    ] * 2


def test_messages_outside_of_a_group_wait_for_each_other(cupy: ModuleType, impatient: None) -> None:
    def body(comm: Any, rank: int, stream: int) -> None:
        x = cupy.asarray(np.ones(3, np.float32))
        y = cupy.asarray(np.ones(3, np.float32))
        comm.send(x.data.ptr, 3, 7, 1 - rank, stream)
        comm.recv(y.data.ptr, 3, 7, 1 - rank, stream)
        y.get()

    errors = ranks(cupy, 2, body)
    assert any("for work that does not end" in str(error) for error in errors)


def test_destroy_after_an_error(cupy: ModuleType) -> None:
    def body(comm: Any, rank: int, stream: int) -> None:
        comm.async_error = 6
        with pytest.raises(cupy.cuda.nccl.NcclError, match="REMOTE_ERROR"):
            comm.check_async_error()
        comm.destroy()

    assert "destroy after an error; it would hang. Abort." in {str(error) for error in ranks(cupy, 2, body)}


def test_two_ranks_on_one_device(cupy: ModuleType) -> None:
    errors = ranks(cupy, 2, lambda comm, rank, stream: None, alike=False)
    assert all("NCCL_ERROR_INVALID_USAGE" in str(error) for error in errors)


def test_two_threads_at_once(cupy: ModuleType) -> None:
    def body(comm: Any, rank: int, stream: int) -> None:
        x = cupy.asarray(np.ones(3, np.float32))
        with comm._called(stream):
            comm.allReduce(x.data.ptr, x.data.ptr, 3, 7, 0, stream)

    assert {str(error) for error in ranks(cupy, 2, body)} == {"two threads use one communicator at once"}
