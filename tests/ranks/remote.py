"""Functions that the tests of remote calls call."""

from __future__ import annotations

import operator
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise import rpc
from shardwise.collectives import run_threads

add = operator.add


def nothing() -> None:
    """Do nothing."""


def same(x: Any) -> Any:
    """Give it back."""
    return x


def pid_and_thread() -> tuple[int, str]:
    return os.getpid(), threading.current_thread().name


def sleep(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"


def fail(kind: type[BaseException], *args: object) -> None:
    raise kind(*args)


def flags(x: np.ndarray[Any, Any]) -> tuple[bool, bool, bool, int]:
    """Say whether an array is in C order, in Fortran's, writable; and its address modulo 64."""
    return x.flags.c_contiguous, x.flags.f_contiguous, x.flags.writeable, x.ctypes.data % 64


def is_same(pair: tuple[object, object]) -> bool:
    return pair[0] is pair[1]


def set_first(x: np.ndarray[Any, Any], value: float) -> np.ndarray[Any, Any]:
    """Write into an argument, which is this worker's own."""
    x[(0,) * x.ndim] = value
    return x


def bounce(other: str, me: str, depth: int) -> int:
    """Call back and forth, each call waiting for the next."""
    return 0 if not depth else 1 + rpc.rpc_sync(other, bounce, (me, other, depth - 1))


def hop(names: list[str], left: int, first: str, timeout: float) -> None:
    """Go on to the next worker, and do not wait for it; the last hop tells the first worker."""
    here = names.index(rpc.get_worker_info().name)
    if left:
        time.sleep(0.002)
        rpc.rpc_async(names[(here + 1) % len(names)], hop, (names, left - 1, first, timeout))
    else:
        rpc.rpc_async(first, note, ("hopped",))


NOTES: list[object] = []


def note(x: object) -> None:
    NOTES.append(x)


class Counter:
    """Something with methods of all kinds."""

    start = 10

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counter) and other.value == self.value

    __hash__ = None  # type: ignore[assignment]

    def more(self, by: int) -> int:
        self.value += by
        return self.value

    @classmethod
    def named(cls, by: int) -> int:
        return cls.start + by

    @staticmethod
    def twice(x: int) -> int:
        return 2 * x

    @staticmethod
    @rpc.functions.async_execution
    def later(to: str, x: int) -> rpc.Future[int]:
        return rpc.rpc_async(to, add, (x, 1)).then(lambda done: done.value() * 2)

    @classmethod
    @rpc.functions.async_execution
    def later_named(cls, to: str, x: int) -> rpc.Future[int]:
        return rpc.rpc_async(to, add, (x, cls.start))


def fork_a_sleeper(seconds: float) -> int:
    """Leave a child behind that has inherited what this process has open."""
    child = os.fork()
    if not child:
        time.sleep(seconds)
        os._exit(0)
    return child


@rpc.functions.async_execution
def not_later() -> int:
    return 3


@rpc.functions.async_execution
def later_failing() -> rpc.Future[int]:
    raise ValueError("before any future")


@rpc.functions.async_execution
def long_later() -> rpc.Future[int]:
    future: rpc.Future[int] = rpc.Future()
    threading.Timer(0.2, future.set_result, (1,)).start()
    return future


def unmarked_future() -> rpc.Future[int]:
    return rpc.Future()


def unpicklable() -> object:
    return threading.Lock()


def exit_with(code: int) -> None:
    raise SystemExit(code)


class Awkward(Exception):
    """It cannot be made again from its arguments."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def raise_awkward() -> None:
    raise Awkward(1, 2)


def on_workers(
    program: Callable[[int], Any], n: int, options: rpc.RpcBackendOptions | None = None
) -> list[Any]:
    """Run ``program(rank)`` on workers ``w0``, ``w1``, ... that are threads of this process."""

    def run(rank: int) -> Any:
        rpc.init_rpc(f"w{rank}", rpc_backend_options=options)
        result = program(rank)
        rpc.shutdown(timeout=20)
        return result

    return run_threads(run, n)
