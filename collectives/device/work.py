"""Operations on device arrays under way: the host issues them, and the device does them when it comes to it.

A `Task` is one operation on its way through a group's device channel. `DeviceWork` is its handle: waiting for
it makes the caller's stream wait, and not the host. A `Flight` keeps its arrays alive until the device has
done it, and finds out when that is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any, Generic, TypeVar

from shardwise.backend.errors import CollectiveError
from shardwise.backend.stream_protocol import Device, Event
from shardwise.collectives.lane import Lane
from shardwise.collectives.ledger import Record
from shardwise.collectives.pending import Pending
from shardwise.collectives.timeout import Timeout
from shardwise.collectives.transport import Channel
from shardwise.collectives.work import Work

__all__ = ["DeviceWork", "Flight", "Task"]

T = TypeVar("T")


class Task(Generic[T]):
    """One operation on device arrays.

    Parameters
    ----------
    device : Device
        Where the arrays are.
    start : callable
        Begins it on a channel.
    finish : callable
        Makes the result of what was filled.
    record : Record
    timeout : float
        Seconds.

    Attributes
    ----------
    ready : Event
        In the caller's stream, behind all that made the input.
    arrived : Event or None
        Behind the operation, once all of it was issued.
    failure : CollectiveError or None
        Why it never will be done.
    landed : bool
        Whether somebody has seen that the device has done it.
    """

    __slots__ = (
        *(
            "_made",
            "_making",
            "_result",
            "arrived",
            "device",
            "failure",
            "finish",
            "landed",
            "ready",
            "record",
        ),
        *("start", "timeout"),
    )

    _result: T

    def __init__(
        self,
        device: Device,
        start: Callable[[Channel], Pending],
        finish: Callable[[], T],
        record: Record,
        timeout: float,
    ) -> None:
        self.device = device
        self.start = start
        self.finish = finish
        self.record = record
        self.timeout = timeout
        self.ready = device.current().record()
        self.arrived: Event | None = None
        self.failure: CollectiveError | None = None
        self.landed = False
        self._made: Event | None = None
        self._making = threading.Lock()

    def result(self) -> T:
        """Let the current stream come behind the operation, and give the result.

        What copies the result takes is done on the stream of the first to ask, and from its memory: that is
        where the result is used.
        """
        if self.failure is not None:
            raise self.failure
        stream = self.device.current()
        with self._making:
            if self._made is not None:
                stream.wait(self._made)
            elif self.arrived is not None:
                stream.wait(self.arrived)
                self._result = self.finish()
                self._made = stream.record()
        return self._result


class DeviceWork(Work[T]):
    """The handle on an operation on device arrays.

    `wait` returns when the operation was issued, which is at once with NCCL. What the waiting thread gives to
    its current stream from then on comes behind the operation; the host waits only when it reads the result.
    `is_completed` says whether the device has done it.
    """

    __slots__ = ("_task",)

    def __init__(self, task: Task[T], lane: Lane, rank: int, start: Callable[[], Pending]) -> None:
        super().__init__(lane, task.record, rank, task.timeout, start, _later)
        self._task = task

    def wait(self, timeout: Timeout | None = None) -> T:
        super().wait(timeout)
        return self._task.result()

    def is_completed(self) -> bool:
        arrived = self._task.arrived
        return self.is_settled() and (arrived is None or arrived.done)

    def _end(self, error: Exception | None) -> None:
        super()._end(error)
        if error is None and not self._task.landed:
            self.record.end = float("nan")  # to be written when the device has done it
            if self._task.landed:
                self.record.end = perf_counter()


class Flight:
    """An entry of a lane: one operation that was issued, and that the device has still to do.

    Parameters
    ----------
    task : Task
    check : callable
        Raises if the channel has failed; called while it is not done.
    give_up : callable
        Ends what is under way after an error, or after a time-out; gives the error of the operation.
    """

    __slots__ = ("_check", "_give_up", "_task", "pending")

    def __init__(
        self,
        task: Task[Any],
        check: Callable[[], None],
        give_up: Callable[[Exception | None, Record], CollectiveError],
    ) -> None:
        self.pending: Pending | None = None
        self._task: Task[Any] | None = task  # whose closures hold the arrays
        self._check = check
        self._give_up = give_up

    def issue(self) -> None:
        """Nothing: it was issued before."""

    def settle(self) -> bool:
        task = self._task
        if task is None or task.arrived is None:
            return True
        try:
            if not task.arrived.done:
                self._check()
                if perf_counter() - task.record.start < task.timeout:
                    return False
                task.failure = self._give_up(None, task.record)
        except Exception as error:
            task.failure = self._give_up(error, task.record)
        task.landed = True
        task.record.end = perf_counter()
        self._task = None
        return True


def _later() -> Any:
    """Give nothing: the result is made on the stream of who waits."""
