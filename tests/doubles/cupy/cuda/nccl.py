"""A strict double of NCCL, whose ranks are processes or threads of one host that meet in a folder.

What an operation sends is read, and what it receives is written, when its stream comes to it, and not before
all other ranks have come to it too. Ranks that come with something else, counts that reach beyond the memory,
pointers to the host, roots and codes that do not exist, groups that are not closed, calls after an abort: all
are errors here, where NCCL would hang, crash or give wrong numbers.
"""

from __future__ import annotations

import atexit
import os
import pickle
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from cupy._engine import ENGINE, Fault, Queue, Task
from cupy._memory import device_view
from cupy._stream import Device, queue_of

__all__ = [
    "NcclCommunicator",
    "NcclError",
    "get_build_version",
    "get_unique_id",
    "get_version",
    "groupEnd",
    "groupStart",
]

available = True

NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN, NCCL_AVG = range(5)
NCCL_INT8 = NCCL_CHAR = 0
NCCL_UINT8 = 1
NCCL_INT32 = NCCL_INT = 2
NCCL_UINT32, NCCL_INT64, NCCL_UINT64 = 3, 4, 5
NCCL_FLOAT16 = NCCL_HALF = 6
NCCL_FLOAT32 = NCCL_FLOAT = 7
NCCL_FLOAT64 = NCCL_DOUBLE = 8
NCCL_BFLOAT16 = 9

_DTYPES = tuple(np.dtype(each) for each in ("b", "B", "i", "I", "q", "Q", "e", "f", "d", ml_dtypes.bfloat16))
_ERRORS = {
    1: "NCCL_ERROR_UNHANDLED_CUDA_ERROR",
    2: "NCCL_ERROR_SYSTEM_ERROR",
    3: "NCCL_ERROR_INTERNAL_ERROR",
    4: "NCCL_ERROR_INVALID_ARGUMENT",
    5: "NCCL_ERROR_INVALID_USAGE",
    6: "NCCL_ERROR_REMOTE_ERROR",
}
_VERSION = [23203]


class NcclError(RuntimeError):
    """A status other than success; one that CuPy does not know is a KeyError, as it is there."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"{_ERRORS[status]}: of the double")


def get_version() -> int:
    return _VERSION[0]


def get_build_version() -> int:
    return 22501


def get_unique_id() -> bytes:
    folder = tempfile.mkdtemp(prefix="nccl-double-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    _FOLDERS.append(Path(folder))
    return folder.encode().ljust(128, b"\0")


_FOLDERS: list[Path] = []
_ALIVE: weakref.WeakSet[NcclCommunicator] = weakref.WeakSet()


@atexit.register
def _end() -> None:
    for comm in list(_ALIVE):
        comm.abort()
    for folder in _FOLDERS:
        with suppress(OSError):
            folder.rmdir()  # if nobody has ever used it


class _Group(threading.local):
    depth = 0
    calls: list[_Call]


_group = _Group()


class _Call:
    """One operation of one communicator, from the call until the stream has done it."""

    def __init__(
        self,
        comm: NcclCommunicator,
        what: tuple[Any, ...],
        name: str,
        sent: np.ndarray | None,
        fill: Any,
        queue: Queue,
    ) -> None:
        self.comm, self.what, self.name, self.sent, self.fill, self.queue = (
            comm,
            what,
            name,
            sent,
            fill,
            queue,
        )
        self.started = False

    def run(self) -> bool:
        return self.comm._run(self)


def _check_group() -> None:
    if _group.depth:
        raise Fault("a group of calls was not closed, and the host waits for what is in it")


ENGINE.before_waiting.append(_check_group)


def groupStart() -> None:
    if _group.depth == 0:
        _group.calls = []
    _group.depth += 1


def groupEnd() -> None:
    if _group.depth == 0:
        raise NcclError(5)
    _group.depth -= 1
    if _group.depth == 0:
        calls, _group.calls = _group.calls, []
        for comm in dict.fromkeys(call.comm for call in calls):
            _launch([call for call in calls if call.comm is comm])


def _launch(calls: list[_Call]) -> None:
    if len({id(call.queue) for call in calls}) > 1:
        raise Fault("one group uses one communicator on several streams")
    waiting = list(calls)

    def run() -> bool:
        waiting[:] = [call for call in waiting if not call.run()]
        return not waiting

    names = [(call.name, *call.what) for call in calls]
    run.what = f"rank {calls[0].comm._rank}: {names}"  # type: ignore[attr-defined]
    calls[0].comm._last = ENGINE.submit(calls[0].queue, run)


class NcclCommunicator:
    """One rank's end; see CuPy's for the arguments, which are taken by their place."""

    def __init__(self, ndev: int, commId: bytes, rank: int, config: None = None) -> None:
        if type(commId) is not bytes or len(commId) != 128:
            raise TypeError("Argument 'commId' has incorrect type or length")
        if not 0 <= rank < ndev:
            raise NcclError(4)
        self._folder = Path(commId.rstrip(b"\0").decode())
        self._ndev, self._rank, self._device = ndev, rank, Device().id
        self._count = 0
        self._pairs: dict[tuple[int, int, bool], int] = {}
        self._written: list[Path] = []
        self._user = threading.Lock()
        self._state = "alive"
        self._last: Task | None = None
        self.async_error = 0
        self._write(f"hello.{rank}", (ndev, self._device))
        began = time.monotonic()
        while True:
            seen = [self._read(f"hello.{i}") for i in range(ndev)]
            if None not in seen:
                break
            if time.monotonic() - began > 60:
                raise Fault("not all ranks have come to make a communicator")
            time.sleep(1e-3)
        _ALIVE.add(self)
        if len({each[0] for each in seen}) > 1 or len({each[1] for each in seen}) < ndev:  # type: ignore[index]
            self._state = "aborted"
            raise NcclError(5)

    # ---- what is asked

    @property
    def comm(self) -> int:
        return id(self) if self._state == "alive" else 0

    def size(self) -> int:
        self._check()
        return self._ndev

    def rank_id(self) -> int:
        self._check()
        return self._rank

    def device_id(self) -> int:
        self._check()
        return self._device

    def check_async_error(self) -> None:
        self._check()
        if self.async_error:
            raise NcclError(self.async_error)

    def abort(self) -> None:
        """End what is under way, from any thread; nothing may be called afterwards."""
        if self._state == "alive":
            self._state = "aborted"
            self._leave()

    def destroy(self) -> None:
        if self._state != "alive":
            return
        if self.async_error or ENGINE.fault is not None:
            raise Fault("destroy after an error; it would hang. Abort.")
        ENGINE.finish(self._last)
        self._state = "destroyed"
        self._leave()

    def __del__(self) -> None:
        if getattr(self, "_state", "") == "alive":
            self.destroy()

    # ---- what moves

    def allReduce(self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, stream: int) -> None:
        def fill(parts: list[np.ndarray], out: np.ndarray) -> None:
            np.copyto(out, _reduced(parts, op))

        self._check_codes(datatype, op)
        what = ("allReduce", count, datatype, op)
        self._collective(what, datatype, stream, fill, sendbuf, count, recvbuf, count)

    def reduce(
        self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, root: int, stream: int
    ) -> None:
        def fill(parts: list[np.ndarray], out: np.ndarray) -> None:
            if root == self._rank:
                np.copyto(out, _reduced(parts, op))

        self._check_codes(datatype, op, root)
        what = ("reduce", count, datatype, op, root)
        filled = count if root == self._rank else 0
        self._collective(what, datatype, stream, fill, sendbuf, count, recvbuf, filled)

    def broadcast(
        self, sendbuff: int, recvbuff: int, count: int, datatype: int, root: int, stream: int
    ) -> None:
        self._check_codes(datatype, root=root)
        what = ("broadcast", count, datatype, root)
        sent = count if root == self._rank else 0
        self._collective(
            what,
            datatype,
            stream,
            lambda parts, out: np.copyto(out, parts[root]),
            sendbuff,
            sent,
            recvbuff,
            count,
        )

    def bcast(self, buff: int, count: int, datatype: int, root: int, stream: int) -> None:
        self.broadcast(buff, buff, count, datatype, root, stream)

    def reduceScatter(
        self, sendbuf: int, recvbuf: int, recvcount: int, datatype: int, op: int, stream: int
    ) -> None:
        def fill(parts: list[np.ndarray], out: np.ndarray) -> None:
            mine = slice(self._rank * recvcount, (self._rank + 1) * recvcount)
            np.copyto(out, _reduced([part[mine] for part in parts], op))

        self._check_codes(datatype, op)
        what = ("reduceScatter", recvcount, datatype, op)
        self._collective(what, datatype, stream, fill, sendbuf, recvcount * self._ndev, recvbuf, recvcount)

    def allGather(self, sendbuf: int, recvbuf: int, count: int, datatype: int, stream: int) -> None:
        def fill(parts: list[np.ndarray], out: np.ndarray) -> None:
            np.copyto(out, np.concatenate(parts))

        self._check_codes(datatype)
        what = ("allGather", count, datatype)
        self._collective(what, datatype, stream, fill, sendbuf, count, recvbuf, count * self._ndev)

    def send(self, sendbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        self._check_codes(datatype, root=peer)
        with self._called(stream) as queue:
            sent = self._memory(sendbuf, count, datatype)
            name = self._pair(self._rank, peer, True)
            self._submit(_Call(self, ("message", count, datatype), name, sent, None, queue))

    def recv(self, recvbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        self._check_codes(datatype, root=peer)
        with self._called(stream) as queue:
            out = self._memory(recvbuf, count, datatype)
            name = self._pair(peer, self._rank, False)
            self._submit(
                _Call(self, ("message", count, datatype), name, None, lambda x: np.copyto(out, x), queue)
            )

    # ---- how

    def _check_codes(self, datatype: int, op: int = 0, root: int = 0) -> None:
        self._check()
        if not 0 <= datatype < len(_DTYPES) or not 0 <= op <= NCCL_AVG or not 0 <= root < self._ndev:
            raise NcclError(4)

    def _check(self) -> None:
        if self._state != "alive":
            raise Fault(f"the communicator was {self._state}")

    def _called(self, stream: int) -> _Calling:
        return _Calling(self, stream)

    def _memory(self, pointer: int, count: int, datatype: int) -> np.ndarray:
        if type(pointer) is not int or type(count) is not int or count < 0:
            raise TypeError("pointers and counts are integers")
        dtype = _DTYPES[datatype]
        if pointer % dtype.itemsize:
            raise Fault(f"a pointer to {dtype} that is not aligned")
        return device_view(pointer, count * dtype.itemsize, self._device).view(dtype)

    def _collective(
        self,
        what: tuple[Any, ...],
        datatype: int,
        stream: int,
        fill: Callable[[list[np.ndarray], np.ndarray], object],
        source: int,
        sent: int,
        target: int,
        filled: int,
    ) -> None:
        with self._called(stream) as queue:
            x, out = self._memory(source, sent, datatype), self._memory(target, filled, datatype)
            if x.size and out.size and np.may_share_memory(x, out):
                apart = self._rank * min(x.nbytes, out.nbytes) if x.size != out.size else 0
                if abs(target - source) != apart:
                    raise Fault(f"{what[0]}: the result overlaps the input, and not in the place that it may")
            number = self._count
            self._count += 1
            self._submit(_Call(self, what, f"{number}", x, lambda parts: fill(parts, out), queue))

    def _submit(self, call: _Call) -> None:
        if _group.depth:
            _group.calls.append(call)
        else:
            _launch([call])

    def _pair(self, src: int, dst: int, sends: bool) -> str:
        number = self._pairs.get((src, dst, sends), 0)
        self._pairs[src, dst, sends] = number + 1
        return f"p{src}.{dst}.{number}"

    def _run(self, call: _Call) -> bool:
        """Go on with a call when its stream has come to it."""
        if self._state == "aborted":
            return True
        if call.name.startswith("p"):
            return self._message(call)
        if not call.started:
            call.started = True
            self._written.append(self._write(f"{call.name}.{self._rank}", (call.what, call.sent)))
        parts = []
        for i in range(self._ndev):
            seen = self._read(f"{call.name}.{i}")
            if seen is None:
                return False
            if seen[0] != call.what:
                raise Fault(f"rank {self._rank} runs {call.what}, rank {i} runs {seen[0]}")
            parts.append(seen[1])
        call.fill(parts)
        while len(self._written) > 1:  # all have come to this one, so all have read those before it
            self._written.pop(0).unlink(missing_ok=True)
        return True

    def _message(self, call: _Call) -> bool:
        if call.sent is not None:
            if not call.started:
                call.started = True
                self._write(call.name, (call.what, call.sent))
                return False
            return not (self._folder / call.name).exists()
        seen = self._read(call.name)
        if seen is None:
            return False
        if seen[0] != call.what:
            raise Fault(f"rank {self._rank} receives {call.what}, {seen[0]} was sent")
        call.fill(seen[1])
        (self._folder / call.name).unlink()
        return True

    def _write(self, name: str, value: object) -> Path:
        path = self._folder / name
        new = path.with_name(f"{name}.new.{self._rank}")
        try:
            new.write_bytes(pickle.dumps(value))
            new.rename(path)
        except FileNotFoundError:  # another rank has aborted: nobody will read it, and this one waits
            pass
        return path

    def _read(self, name: str) -> tuple[Any, ...] | None:
        try:
            return pickle.loads((self._folder / name).read_bytes())  # type: ignore[no-any-return]
        except FileNotFoundError:
            return None

    def _leave(self) -> None:
        """Take the folder away if nobody is left who may look into it."""
        self._write(f"bye.{self._rank}", ())
        if all((self._folder / f"bye.{i}").exists() for i in range(self._ndev)):
            shutil.rmtree(self._folder, ignore_errors=True)


class _Calling:
    """One call, during which no other thread may use the communicator."""

    def __init__(self, comm: NcclCommunicator, stream: int) -> None:
        self._comm, self._stream = comm, stream

    def __enter__(self) -> Queue:
        if not self._comm._user.acquire(blocking=False):
            raise Fault("two threads use one communicator at once")
        queue = queue_of(self._stream)
        if queue.device != self._comm._device:
            self._comm._user.release()
            raise Fault(f"a communicator of device {self._comm._device} on a stream of device {queue.device}")
        return queue

    def __exit__(self, *error: object) -> None:
        self._comm._user.release()


def _reduced(parts: list[np.ndarray], op: int) -> np.ndarray:
    """As a ring adds up: in the dtype itself, from some rank on; NaN does not go through min and max."""
    first = 1 % len(parts)
    ring = [*parts[first:], *parts[:first]]
    formula = {
        NCCL_SUM: np.add,
        NCCL_AVG: np.add,
        NCCL_PROD: np.multiply,
        NCCL_MAX: np.fmax,
        NCCL_MIN: np.fmin,
    }[op]
    with np.errstate(all="ignore"):
        if op == NCCL_AVG:
            if parts[0].dtype.kind in "iu":
                raise Fault("avg of integers is not what a mean is")
            scale = np.asarray(1 / len(parts), parts[0].dtype)
            ring = [np.asarray(part * scale, part.dtype) for part in ring]
        total = ring[0]
        for part in ring[1:]:
            total = np.asarray(formula(total, part), total.dtype)
    return total
