"""The two compiled calls of a ring: begin an operation, go on with it; and the one that sleeps.

An operation is a machine that can be left and taken up again: a call goes on as far as the other ranks let,
looks for them as long as it was told, and says where it is. So a wait can be given up or interrupted at any
time, and a thread that has something else to do need not stay.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import device
from shardwise.backend.kernels.kernel import FusedUnavailableError
from shardwise.collectives.shm import place as at
from shardwise.collectives.shm.atomic_cpu import (
    AVAILABLE,
    add32,
    add64,
    futex_wait,
    futex_wake,
    load32,
    load64,
    numbers,
    read_process,
    relax,
    yield_core,
)
from shardwise.collectives.shm.compiled_cpu import Compiled
from shardwise.collectives.shm.direct_cpu import advance_direct, begin_direct, choose_direct
from shardwise.collectives.shm.exchange_cpu import finish_at_once
from shardwise.collectives.shm.ring_cpu import (
    all_arrived,
    disagreeing,
    post,
    segment,
    write_header,
)
from shardwise.collectives.shm.staged_cpu import advance_staged, begin_staged

__all__ = ["Engine", "load_engine"]

_BITS32 = 1 << 32


class Engine(NamedTuple):
    """The compiled calls; the first argument of each is the state of a ring."""

    run: Callable[..., int]
    rest: Callable[..., int]
    peek: Callable[..., int]
    put_signal: Callable[..., int]
    await_signal: Callable[..., int]


@functools.cache
def load_engine() -> Engine:
    """Compile the calls, or load what another process compiled.

    Raises
    ------
    FusedUnavailableError
        If this machine cannot.
    """
    if not AVAILABLE:
        raise FusedUnavailableError(
            f"shared memory between processes is built for Linux on x86-64 and Arm, not for "
            f"{platform.system()} on {platform.machine()}"
        )
    here = Path(__file__).parent
    sources = [*sorted(here.glob("*_cpu.py")), here / "place.py"]
    return Engine(
        Compiled(_run, "ring_run", 7, sources, array=True).call,
        Compiled(_rest, "ring_rest", 3, sources, array=True).call,
        Compiled(_peek, "ring_peek", 2, sources, array=True).call,
        Compiled(_put_signal, "ring_put_signal", 1, sources, array=True).call,
        Compiled(_await_signal, "ring_await_signal", 4, sources, array=True).call,
    )


@device(exact=True)
def _advance(s: Array, meet_spin: int, meet_yields: int) -> int:
    spin, yields = s[at.SPIN], s[at.YIELDS]
    if s[at.PHASE] == at.IDLE:
        said: int = s[at.SAID]
        return said
    if s[at.PHASE] == at.MEETING:
        if not all_arrived(s, s[at.BASE] + 1, meet_spin, meet_yields):
            return at.WAITING
        s[at.NEXT] = s[at.BASE] + 1
        other = disagreeing(s)
        if other >= 0:
            s[at.PHASE] = at.IDLE
            return -1 - other
        path = s[at.PATH]
        if path == at.AT_ONCE or path == at.PLACED:
            if path == at.AT_ONCE:
                finish_at_once(s)
            s[at.PHASE] = at.IDLE
            return at.ENDED
        mode = choose_direct(s)
        if path == at.ONE_COPY and s[at.KIND] == at.ALL_REDUCE:
            path = s[at.PATH] = at.STAGED
        if mode or path == at.ONE_COPY:
            begin_direct(s, mode)
        elif path == at.STAGED:
            begin_staged(s)
        else:
            s[at.PHASE] = at.IDLE
            return at.ELSEWHERE
        s[at.PHASE] = at.RUNNING
    status = advance_staged(s, spin, yields) if s[at.PATH] == at.STAGED else advance_direct(s, spin, yields)
    if status == at.ENDED:
        s[at.PHASE] = at.IDLE
    return status


def _run(
    s: Array,
    call: int,
    loop: int,
    nbytes: int,
    x: int,
    x_bytes: int,
    out: int,
    out_bytes: int,
) -> int:
    """Begin an operation, if `call` is not negative, and go on as far as the others let.

    `call` says the collective, the path and the root; `loop` is the address of two numbers, where the loop
    that reduces is and the bytes of its element. `x` and `out` are the places of the fields of NumPy's arrays
    in which their addresses stand. Each argument takes Python as long as what a rank does with it.
    """
    if call < 0:
        status: int = _advance(s, 0, 0)
        s[at.SAID] = status
        return status
    s[at.CALL] = call
    s[at.KIND] = call & 0xFF
    s[at.PATH] = call >> 24 & 0xFF
    s[at.ROOT] = call >> 32
    numbers_of = numbers(loop, 2)
    s[at.FOLD] = numbers_of[0]
    s[at.WIDTH] = numbers_of[1]
    s[at.NBYTES] = nbytes
    # The fields of the arrays in which their addresses stand: reading them here is the fastest way.
    s[at.X] = load64(x) if x_bytes > 0 else 0
    s[at.X_BYTES] = x_bytes
    s[at.OUT] = load64(out) if out_bytes > 0 else 0
    s[at.OUT_BYTES] = out_bytes
    s[at.TURN] += 1
    s[at.BASE] = s[at.NEXT]
    s[at.PHASE] = at.MEETING
    write_header(s)
    post(s, s[at.BASE] + 1)
    begun: int = _advance(s, s[at.MEET_SPIN], s[at.MEET_YIELDS])
    s[at.SAID] = begun
    return begun


def _rest(s: Array, spin: int, yields: int, nanoseconds: int) -> int:
    """Wait until the rank that is waited for has come further, but no longer than told. Changes nothing."""
    begin = segment(s, s[at.WAIT_PEER])
    return _wait(s, begin + at.COUNTER, begin + at.SLEEPERS, s[at.WAIT_VALUE], spin, yields, nanoseconds)


@device(exact=True)
def _wait(s: Array, place: int, sleepers: int, value: int, spin: int, yields: int, nanoseconds: int) -> int:
    for turn in range(spin + yields):
        if load64(place) >= value:
            return 1
        if turn < spin:
            relax()
        else:
            yield_core()
    if nanoseconds > 0:
        limit = numbers(s[at.LIMIT], 2)
        limit[0] = nanoseconds // 1000000000
        limit[1] = nanoseconds % 1000000000
        add32(sleepers, 1)
        now = load64(place)
        if now < value:
            futex_wait(place, now & (_BITS32 - 1), s[at.LIMIT])
        add32(sleepers, -1)
    return 1 if load64(place) >= value else 0


def _peek(s: Array, pid: int, address: int) -> int:
    """Read a number in the memory of another process, or give -1."""
    if read_process(pid, s[at.SCRATCH], address, 8, s[at.LIMIT] + 16):
        number: int = load64(s[at.SCRATCH])
        return number
    return -1


def _put_signal(s: Array, cell: int) -> int:
    """Raise the number at a cell, and wake who sleeps there."""
    add64(cell, 1)
    if load32(cell + at.SIGNAL_SLEEPERS) != 0:
        futex_wake(cell)
    return 0


def _await_signal(s: Array, cell: int, spin: int, yields: int, nanoseconds: int) -> int:
    """Wait for a number at a cell above what was taken, and take one more; 0 if none has come in time."""
    taken = numbers(cell + at.SIGNAL_TAKEN, 1)
    if _wait(s, cell, cell + at.SIGNAL_SLEEPERS, taken[0] + 1, spin, yields, nanoseconds) == 0:
        return 0
    taken[0] += 1
    return 1
