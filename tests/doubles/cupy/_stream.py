"""Devices, streams and events, as CuPy has them."""

from __future__ import annotations

import threading
import weakref
from types import TracebackType

from cupy._engine import ENGINE, Fault, Queue, Task

__all__ = ["Device", "Event", "Stream", "count_devices", "current_queue", "get_current_stream"]

_COUNT = [4]


class _Local(threading.local):
    """What each thread has: its device, and its stream on each device."""

    def __init__(self) -> None:
        self.device = 0
        self.streams: dict[int, Stream] = {}


_local = _Local()


def count_devices(count: int | None = None) -> int:
    """How many devices there are; a test may say so."""
    if count is not None:
        _COUNT[0] = count
    return _COUNT[0]


class Device:
    """A device by its number; a ``with`` block makes it the current one."""

    def __init__(self, device: int | Device | None = None) -> None:
        self.id = _local.device if device is None else int(device)
        self._before: list[int] = []

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def __enter__(self) -> Device:
        self._before.append(_local.device)
        _local.device = self.id
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _local.device = self._before.pop()

    def use(self) -> None:
        if not 0 <= self.id < count_devices():
            raise Fault(f"there is no device {self.id}")
        _local.device = self.id

    def synchronize(self) -> None:
        ENGINE.drain(self.id)

    @property
    def pci_bus_id(self) -> str:
        return f"0000:{self.id:02X}:00.0"

    @property
    def compute_capability(self) -> str:
        return "90"

    @property
    def mem_info(self) -> tuple[int, int]:
        return 1 << 33, 1 << 34


class Stream:
    """A stream; as a ``with`` block, or by ``use``, the current one of its device."""

    null: Stream

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None
    ) -> None:
        if ptds:
            raise Fault("the double has no per-thread default stream")
        self.null_ = null
        self.device_id = -1 if null else _local.device
        self.is_non_blocking = non_blocking
        self.priority = priority
        self._queue: Queue | None = None
        if not null:
            whose = None if non_blocking else _null_queue(_local.device)
            self._queue = ENGINE.queue(_local.device, not non_blocking, whose)
            _QUEUES[id(self._queue)] = self._queue
            weakref.finalize(self, _drop, self._queue).atexit = False
        self._before: list[tuple[int, Stream | None]] = []

    @property
    def queue(self) -> Queue:
        return _null_queue(_local.device) if self._queue is None else self._queue

    @property
    def ptr(self) -> int:
        return 0 if self._queue is None else id(self._queue)

    def __enter__(self) -> Stream:
        self._before.append((_local.device, _local.streams.get(_local.device)))
        self.use()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        device, before = self._before.pop()
        if before is None:
            _local.streams.pop(device, None)
        else:
            _local.streams[device] = before

    def use(self) -> Stream:
        if self.device_id not in (-1, _local.device):
            raise Fault(f"a stream of device {self.device_id} used while device {_local.device} is current")
        _local.streams[_local.device] = self
        return self

    @property
    def done(self) -> bool:
        return ENGINE.ask(self.queue.last)

    def synchronize(self) -> None:
        ENGINE.finish(self.queue.last)

    def record(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        task = event.task
        if task is not None:
            ENGINE.submit(self.queue, lambda: True, (task,))


class Event:
    """A place in a stream, which others can wait for."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        if interprocess and not disable_timing:
            raise Fault("an event between processes takes no time")
        self.task: Task | None = None
        self.disable_timing = disable_timing

    @property
    def ptr(self) -> int:
        return id(self)

    @property
    def done(self) -> bool:
        return ENGINE.ask(self.task)

    def record(self, stream: Stream | None = None) -> None:
        stream = get_current_stream() if stream is None else stream
        self.task = ENGINE.submit(stream.queue, lambda: True)

    def synchronize(self) -> None:
        ENGINE.finish(self.task)


_NULLS: dict[int, Queue] = {}
_QUEUES: dict[int, Queue] = {}
_making = threading.Lock()


def _drop(queue: Queue) -> None:
    # The handle is no good any more; what was given to the stream is still done.
    _QUEUES.pop(id(queue), None)
    _ORPHANS.append(queue)
    for orphan in list(_ORPHANS):
        if not orphan.tasks:
            _ORPHANS.remove(orphan)
            ENGINE.drop(orphan)


_ORPHANS: list[Queue] = []


def _null_queue(device: int) -> Queue:
    with _making:
        if device not in _NULLS:
            _NULLS[device] = ENGINE.queue(device, True)
        return _NULLS[device]


def queue_of(pointer: int) -> Queue:
    """The stream behind a handle, on the current device."""
    if pointer == 0:
        return _null_queue(_local.device)
    if pointer not in _QUEUES:
        raise Fault(f"{pointer} is no stream, or no more")
    return _QUEUES[pointer]


def get_current_stream(device_id: int = -1) -> Stream:
    """The stream of this thread on a device."""
    return _local.streams.get(_local.device if device_id < 0 else device_id, Stream.null)


def current_queue() -> Queue:
    """What work goes to now."""
    return get_current_stream().queue


Stream.null = Stream(null=True)
