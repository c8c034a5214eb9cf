"""Calls between workers: what arrives, in which form, and what is refused. On threads, and on real ranks."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ranks import remote
from shardwise import collectives, rpc
from shardwise.errors import ArgumentError, RemoteError, RpcError, RpcTimeoutError
from shardwise.nn import Parameter
from shardwise.tensor import Tensor


@pytest.fixture
def worker() -> Iterator[str]:
    """Make this rank a worker of all ranks; gives the name of the next one."""
    rank, n = collectives.rank(), collectives.world_size()
    rpc.init_rpc(f"w{rank}")
    yield f"w{(rank + 1) % n}"
    rpc.shutdown(timeout=20)


def on_two(program: Callable[[str], Any]) -> None:
    """Run a program on two workers that are threads, each with the name of the other."""
    remote.on_workers(lambda rank: program(f"w{1 - rank}"), 2)


def values(to: str) -> None:
    assert rpc.rpc_sync(to, remote.add, (1, 2)) == 3
    assert rpc.rpc_async(to, remote.add, (1,), {}, 5).exception() is not None
    assert rpc.rpc_async(to, max, ([3, 1],), {"key": abs}).wait() == 3
    assert rpc.rpc_sync(to, math.sqrt, (4,)) == 2
    assert rpc.rpc_sync(to, remote.nothing) is None
    counter = remote.Counter(5)
    assert rpc.rpc_sync(to, remote.Counter, (7,)) == remote.Counter(7)
    assert rpc.rpc_sync(to, counter.more, (1,)) == 6
    assert counter.value == 5  # the instance was copied
    assert rpc.rpc_sync(to, remote.Counter.named, (1,)) == 11
    assert rpc.rpc_sync(to, remote.Counter.twice, (4,)) == 8
    me, there = rpc.get_worker_info(), rpc.get_worker_info(to)
    assert rpc.rpc_sync(there, rpc.get_worker_info) == there == rpc.rpc_sync(there.id, rpc.get_worker_info)
    assert {me: 1}[rpc.rpc_sync(to, remote.same, (me,))] == 1
    assert repr(there) == f"WorkerInfo(id={there.id}, name={to})"


ARRAYS: list[np.ndarray[Any, Any]] = [
    np.arange(7.0),
    np.arange(200_000, dtype=np.int16),
    np.asfortranarray(np.arange(60_000.0).reshape(300, 200)),
    np.arange(3_000_000, dtype=np.float32),
    np.arange(1000.0)[::-2],
    np.zeros((0, 4)),
    np.array(3 + 4j),
    np.arange(2000).astype(ml_dtypes.bfloat16),
    np.array(["a", "bc"]),
    np.array([None, {"x": 1}], dtype=object),
    np.zeros(300, [("a", "i4"), ("b", "f8")]),
    np.arange(1000).astype("datetime64[s]"),
    np.arange(1000, dtype=">i4"),
]


def arrays(to: str) -> None:
    for x in ARRAYS:
        y = rpc.rpc_sync(to, remote.same, (x,))
        assert y.dtype == x.dtype
        assert y.shape == x.shape
        assert np.array_equal(y, x)
        assert y.flags.writeable
        if x.flags.f_contiguous:
            assert y.flags.f_contiguous
    big = np.asfortranarray(np.ones((400, 500)))
    assert rpc.rpc_sync(to, remote.flags, (big,)) == (False, True, True, 0)
    assert rpc.rpc_sync(to, remote.is_same, ((big, big),))
    assert not rpc.rpc_sync(to, remote.is_same, ((big, big.copy()),))
    many = [np.full(1000, i) for i in range(3000)]
    assert all((a == b).all() for a, b in zip(rpc.rpc_sync(to, remote.same, (many,)), many, strict=True))
    text = "x" * 3_000_000
    assert rpc.rpc_sync(to, remote.same, ([text, text.encode(), bytearray(5)],)) == [
        text,
        text.encode(),
        bytearray(5),
    ]


def no_aliases(to: str) -> None:
    for receiver in (to, rpc.get_worker_info().name):
        for size in (3, 100_000, 1_000_000):
            x = np.ones(size)
            y = rpc.rpc_sync(receiver, remote.set_first, (x, 5.0))
            assert x[0] == 1
            assert y[0] == 5
            y[1] = 7
            assert x[1] == 1


def tensors(to: str) -> None:
    for size in (2, 50_000):
        for x in (
            Tensor(np.arange(float(size)), True),
            Tensor(np.arange(float(size))),
            Parameter(np.ones(size)),
        ):
            y = rpc.rpc_sync(to, remote.same, (x,))
            assert type(y) is type(x)
            assert y.requires_grad == x.requires_grad
            assert np.array_equal(y.data, x.data)
    product = Tensor(np.ones(3), True) * 2
    y = rpc.rpc_sync(to, remote.same, (product,))
    assert y.requires_grad
    assert y.data.tolist() == [2, 2, 2]


def failures(to: str) -> None:
    here = rpc.get_worker_info()
    for kind, args in ((ValueError, ("no", 3)), (KeyError, ("it's",)), (ZeroDivisionError, ())):
        with pytest.raises(kind) as caught:
            rpc.rpc_sync(to, remote.fail, (kind, *args))
        assert type(caught.value) is kind
        assert caught.value.args == args
        assert "in fail" in str(caught.value.__cause__)
        (note,) = caught.value.__notes__
        assert note.startswith(f"on {to} (rank ")
    with pytest.raises(RemoteError, match="SystemExit: 3"):
        rpc.rpc_sync(to, remote.exit_with, (3,))
    with pytest.raises(RemoteError, match=r"ranks.remote.Awkward: 1 and 2"):
        rpc.rpc_sync(to, remote.raise_awkward)
    with pytest.raises(TypeError, match="pickle"):
        rpc.rpc_sync(to, remote.unpicklable)
    with pytest.raises(RpcError, match="cannot pickle a Future"):
        rpc.rpc_sync(to, remote.unmarked_future)
    with pytest.raises((AttributeError, Exception), match="pickle") as lost:
        rpc.rpc_async(to, lambda: 1)
    assert "at the top of a module" in lost.value.__notes__[0]
    with pytest.raises(TypeError, match="pickle"):
        rpc.rpc_async(to, remote.same, (threading.Lock(),))
    with pytest.raises(RpcError, match=r"a Future cannot be sent"):
        rpc.rpc_async(to, remote.same, (rpc.Future(),))
    with pytest.raises(TypeError, match="func should be a callable, got 3"):
        rpc.rpc_async(to, 3)  # type: ignore[arg-type]
    with pytest.raises(RpcError, match="could not find destination 'nobody'"):
        rpc.rpc_sync("nobody", remote.nothing)
    for wrong in (99, -1):
        with pytest.raises(RpcError, match="could not find destination"):
            rpc.rpc_sync(wrong, remote.nothing)
    for other in (1.0, None, True):
        with pytest.raises(ArgumentError, match="to="):
            rpc.rpc_sync(other, remote.nothing)  # type: ignore[arg-type]
    assert rpc.rpc_sync(to, remote.add, (1, 2)) == 3
    assert rpc.get_worker_info() == here


def async_executions(to: str) -> None:
    me = rpc.get_worker_info().name
    assert rpc.rpc_sync(to, remote.Counter.later, (me, 3)) == 8
    assert rpc.rpc_async(to, remote.Counter.later_named, (me, 3)).wait() == 13
    with pytest.raises(RpcError, match=r"must return a Future object; not_later returned a int"):
        rpc.rpc_sync(to, remote.not_later)
    with pytest.raises(ValueError, match="before any future"):
        rpc.rpc_sync(to, remote.later_failing)
    with pytest.raises(RpcTimeoutError):
        rpc.rpc_sync(to, remote.long_later, timeout=0.05)


def time_outs(to: str) -> None:
    began = time.monotonic()
    with pytest.raises(RpcTimeoutError, match=r"for more than set timeout \(100 ms\)") as caught:
        rpc.rpc_sync(to, remote.sleep, (0.4,), timeout=0.1)
    assert isinstance(caught.value, TimeoutError)
    assert time.monotonic() - began < 0.35
    assert rpc.rpc_sync(to, remote.sleep, (0.2,), timeout=0) == "slept"
    for wrong in (-2, float("nan")):
        with pytest.raises(ArgumentError, match="timeout="):
            rpc.rpc_async(to, remote.nothing, timeout=wrong)
    assert rpc.get_rpc_timeout() == 60
    slow = rpc.rpc_async(to, remote.sleep, (0.3,))
    rpc.set_rpc_timeout(0.1)
    with pytest.raises(RpcTimeoutError):
        rpc.rpc_sync(to, remote.sleep, (0.4,))
    assert slow.wait() == "slept"
    rpc.set_rpc_timeout(60)
    with pytest.raises(TypeError):
        rpc.set_rpc_timeout("1")  # type: ignore[arg-type]


def collected(to: str) -> None:
    with rpc.wait_all_calls():
        futures = [rpc.rpc_async(to, remote.add, (i, 1)) for i in range(5)]
    assert all(future.done() for future in futures)
    with pytest.raises(ValueError, match="no"), rpc.wait_all_calls():
        rpc.rpc_async(to, remote.fail, (ValueError, "no"))
    with rpc.wait_all_calls():
        pass


def many(to: str) -> None:
    futures = [rpc.rpc_async(to, remote.add, (i, 1)) for i in range(1000)]
    assert rpc.wait_all(futures) == [i + 1 for i in range(1000)]
    failed: list[BaseException] = []

    def calls(number: int) -> None:
        try:
            for i in range(20):
                assert rpc.rpc_sync(to, remote.add, (number, i)) == number + i
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=context_run(), args=(calls, number)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def context_run() -> Callable[..., Any]:
    import contextvars

    return contextvars.copy_context().run


def counted(count: int) -> list[dict[str, str | int | float]]:
    """Give the rows of calls of `add`, once there are so many: they are counted behind whoever waits."""
    deadline = time.monotonic() + 5
    while True:
        rows = [row for row in rpc.stats() if row["side"] == "called" and "add" in str(row["what"])]
        if sum(int(row["count"]) for row in rows) >= count or time.monotonic() > deadline:
            return rows
        time.sleep(0.001)


def tells(to: str) -> None:
    for _ in range(3):
        rpc.rpc_sync(to, remote.add, (1, 2))
    rows = counted(3)
    assert sum(int(row["count"]) for row in rows) == 3
    assert all(0 < float(row["p50"]) <= float(row["p99"]) < 60 for row in rows)
    future = rpc.rpc_async(to, remote.sleep, (0.1,))
    assert rpc.debug_info()["num_pending_futures"] >= 1
    future.wait()


PROGRAMS = [
    values,
    arrays,
    no_aliases,
    tensors,
    failures,
    async_executions,
    time_outs,
    collected,
    many,
    tells,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_on_threads(program: Callable[[str], None]) -> None:
    on_two(program)


@pytest.mark.mpi
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_on_ranks(program: Callable[[str], None], worker: str) -> None:
    program(worker)


def test_ping_pong_beyond_the_pool() -> None:
    options = rpc.RpcBackendOptions(num_worker_threads=2)

    def program(rank: int) -> int:
        return rpc.rpc_sync("w1", remote.bounce, ("w0", "w1", 200)) if rank == 0 else 200

    assert remote.on_workers(program, 2, options) == [200, 200]


def test_nesting_without_end_is_an_error() -> None:
    def program(rank: int) -> None:
        if rank == 0:
            with pytest.raises(RpcError, match="endless recursion"):
                rpc.rpc_sync("w1", remote.bounce, ("w0", "w1", 300))

    remote.on_workers(program, 2)


def test_the_window_holds_callers_back() -> None:
    options = rpc.RpcBackendOptions(window_calls=2)

    def program(rank: int) -> None:
        if rank == 0:
            first = [rpc.rpc_async("w1", remote.sleep, (0.3,)) for _ in range(2)]
            with pytest.raises(RpcTimeoutError, match=r"waited 0\.05 s for room: 2 calls"):
                rpc.rpc_sync("w1", remote.nothing, timeout=0.05)
            began = time.monotonic()
            third = rpc.rpc_async("w1", remote.nothing)
            assert time.monotonic() - began > 0.1
            rpc.wait_all([*first, third])

    remote.on_workers(program, 2, options)
