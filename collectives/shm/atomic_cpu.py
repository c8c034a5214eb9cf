"""What compiled code needs of the processor and the system to share memory with other processes.

Loads and stores that other cores see in order, the futex call, and pointers of numbers. The counters that
ranks wait for have 64 bits and never turn over; a futex looks at their lower half.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.extending import intrinsic

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import device

__all__ = [
    "AVAILABLE",
    "add32",
    "add64",
    "call_fold",
    "copy",
    "futex_wait",
    "futex_wake",
    "load32",
    "load64",
    "numbers",
    "read_process",
    "relax",
    "store64",
    "stream",
    "yield_core",
]

_Built = tuple[Any, Callable[..., Any]]

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)
_int64, _void = numba.types.int64, numba.types.void

# Numbers of system calls, and the instruction that says "I am spinning".
_FUTEX = {"x86_64": 202, "aarch64": 98}
_READV = {"x86_64": 310, "aarch64": 270}
_MACHINE = platform.machine()
AVAILABLE = platform.system() == "Linux" and _MACHINE in _FUTEX
"""Whether all of this exists here."""

_NR_FUTEX, _NR_READV = _FUTEX.get(_MACHINE, 0), _READV.get(_MACHINE, 0)
_FUTEX_WAIT, _FUTEX_WAKE, _EVERYONE = 0, 1, 0x7FFFFFFF

_LINE = 64  # bytes of a line of the caches

_sched_yield = numba.types.ExternalFunction("sched_yield", numba.types.int32())
_memcpy = numba.types.ExternalFunction("memcpy", _int64(_int64, _int64, _int64))
_syscall = numba.types.ExternalFunction("syscall", _int64(*[_int64] * 7))


@intrinsic  # type: ignore[untyped-decorator]
def load64(context: Any, address: Any) -> _Built:
    """Read a number that another core writes, and with it all that core wrote before."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], _INT64.as_pointer())
        return builder.load_atomic(place, "acquire", 8)

    return _int64(_int64), build


@intrinsic  # type: ignore[untyped-decorator]
def store64(context: Any, address: Any, value: Any) -> _Built:
    """Write a number for other cores: after all that was written before, before all that is read after."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], _INT64.as_pointer())
        builder.store_atomic(arguments[1], place, "seq_cst", 8)
        return context.get_dummy_value()

    return _void(_int64, _int64), build


@intrinsic  # type: ignore[untyped-decorator]
def load32(context: Any, address: Any) -> _Built:
    """Read a number of 32 bits in the order in which all cores see such reads and writes."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], _INT32.as_pointer())
        return builder.sext(builder.load_atomic(place, "seq_cst", 4), _INT64)

    return _int64(_int64), build


@intrinsic  # type: ignore[untyped-decorator]
def add32(context: Any, address: Any, value: Any) -> _Built:
    """Add to a number of 32 bits at once."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], _INT32.as_pointer())
        builder.atomic_rmw("add", place, builder.trunc(arguments[1], _INT32), "seq_cst")
        return context.get_dummy_value()

    return _void(_int64, _int64), build


@intrinsic  # type: ignore[untyped-decorator]
def add64(context: Any, address: Any, value: Any) -> _Built:
    """Add to a number of 64 bits at once."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], _INT64.as_pointer())
        builder.atomic_rmw("add", place, arguments[1], "seq_cst")
        return context.get_dummy_value()

    return _void(_int64, _int64), build


@intrinsic  # type: ignore[untyped-decorator]
def relax(context: Any) -> _Built:
    """Tell the core that this is a loop that waits."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if _MACHINE == "x86_64":
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), kind), [])
        else:
            kind = ir.FunctionType(ir.VoidType(), [_INT32])
            hint = builder.module.declare_intrinsic("llvm.aarch64.hint", (), kind)
            builder.call(hint, [_INT32(1)])
        return context.get_dummy_value()

    return _void(), build


@intrinsic  # type: ignore[untyped-decorator]
def call_fold(context: Any, function: Any, target: Any, sources: Any, number: Any, count: Any) -> _Built:
    """Call the compiled loop at an address: fold `count` elements of `number` sources into `target`."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_INT64, [_INT64] * 4)
        place = builder.inttoptr(arguments[0], kind.as_pointer())
        builder.call(place, list(arguments[1:]))
        return context.get_dummy_value()

    return _void(*[_int64] * 5), build


@intrinsic  # type: ignore[untyped-decorator]
def _pointer(context: Any, address: Any) -> _Built:
    kind = numba.types.CPointer(_int64)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(kind))

    return kind(_int64), build


@device(exact=True)
def numbers(address: int, count: int) -> Array:
    """See `count` numbers of 64 bits at an address as an array."""
    found: Array = numba.carray(_pointer(address), count)
    return found


@device(exact=True)
def yield_core() -> None:
    """Let another process run on this core, if one wants to."""
    _sched_yield()


@device(exact=True)
def copy(target: int, source: int, nbytes: int) -> None:
    """Copy bytes between two addresses that do not overlap."""
    _memcpy(target, source, nbytes)


@intrinsic  # type: ignore[untyped-decorator]
def _stream_line(context: Any, target: Any, source: Any) -> _Built:
    """Copy 64 bytes to where they are aligned, past the caches."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(_INT64, 4)
        past = builder.module.add_metadata([_INT32(1)])
        for half in range(2):
            there, here = (builder.add(each, _INT64(32 * half)) for each in arguments)
            value = builder.load(builder.inttoptr(here, vector.as_pointer()))
            value.align = 1
            stored = builder.store(value, builder.inttoptr(there, vector.as_pointer()))
            stored.align = 32
            stored.set_metadata("nontemporal", past)
        return context.get_dummy_value()

    return _void(_int64, _int64), build


@intrinsic  # type: ignore[untyped-decorator]
def _end_streams(context: Any) -> _Built:
    """Order what was stored past the caches before what is stored from now on; Arm does so anyway."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if _MACHINE == "x86_64":
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(builder.module.declare_intrinsic("llvm.x86.sse.sfence", (), kind), [])
        return context.get_dummy_value()

    return _void(), build


@device(exact=True)
def stream(target: int, source: int, nbytes: int) -> None:
    """Copy many bytes that nobody reads soon, past the caches: the lines of the target are not read first."""
    head = -target & (_LINE - 1)
    if nbytes < head + 4 * _LINE:
        _memcpy(target, source, nbytes)
        return
    _memcpy(target, source, head)
    end = head + (nbytes - head) // _LINE * _LINE
    for at in range(head, end, _LINE):
        _stream_line(target + at, source + at)
    _end_streams()
    _memcpy(target + end, source + end, nbytes - end)


@device(exact=True)
def futex_wait(address: int, value: int, limit: int) -> None:
    """Sleep while the 32 bits at `address` are `value`; a wake, a signal or the time limit ends it."""
    _syscall(_NR_FUTEX, address, _FUTEX_WAIT, value, limit, 0, 0)


@device(exact=True)
def futex_wake(address: int) -> None:
    """Wake all who sleep at `address`."""
    _syscall(_NR_FUTEX, address, _FUTEX_WAKE, _EVERYONE, 0, 0, 0)


@device(exact=True)
def read_process(pid: int, target: int, source: int, nbytes: int, vectors: int) -> bool:
    """Copy from the memory of another process; `vectors` is the address of four numbers to work in."""
    done = 0
    while done < nbytes:
        place = numbers(vectors, 4)
        place[0] = target + done
        place[1] = nbytes - done
        place[2] = source + done
        place[3] = nbytes - done
        moved = _syscall(_NR_READV, pid, vectors, 1, vectors + 16, 1, 0)
        if moved <= 0:
            return False
        done += moved
    return True
