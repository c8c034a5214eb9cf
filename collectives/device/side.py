"""The part of a group that issues what is done on device arrays, and looks after it until it is done.

The channel has a stream of its own, which waits for the caller's before an operation; the caller's waits for
it when the work is waited for. The host waits for neither. What is under way is asked after by the thread
that advances asynchronous operations, which also finds out what hangs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from shardwise.backend.errors import CollectiveError, CollectiveTimeoutError
from shardwise.backend.stream_protocol import Stream
from shardwise.collectives.device.work import Flight, Task
from shardwise.collectives.lane import Lane
from shardwise.collectives.ledger import Record
from shardwise.collectives.pending import Pending
from shardwise.collectives.progress import Progress
from shardwise.collectives.transport import Channel, Transport

__all__ = ["DeviceChannel", "DeviceSide"]


class DeviceChannel(Channel, Protocol):
    """The collectives of one group on device arrays: each gives its work to `stream`, which is active."""

    @property
    def stream(self) -> Stream:
        """In whose order it works."""


class DeviceSide:
    """Carries out tasks by a channel.

    Parameters
    ----------
    channel : DeviceChannel
    transport : Transport
        Whose background thread looks after what is under way.
    name : str
        Of the group.
    by : str
        What carries it, for messages.
    check : callable
        Raises if the channel has failed.
    abort : callable
        Ends what is under way; nothing is issued afterwards.
    spell : callable
        Says in words what an error is.
    """

    def __init__(
        self,
        channel: DeviceChannel,
        transport: Transport,
        name: str,
        by: str,
        check: Callable[[], None],
        abort: Callable[[], None],
        spell: Callable[[Exception], str],
    ) -> None:
        self._channel = channel
        self._check_channel = check
        self._abort = abort
        self._spell = spell
        self._flights = Lane()
        self._own = Progress() if transport.progress is None else None
        self._progress = transport.progress or self._own
        self._name = name
        self._by = by
        self._rank = transport.rank
        self._failure: CollectiveError | None = None

    def begin(self, task: Task[Any]) -> Pending:
        """Issue a task. When the pending has ended, all of it was issued, and its event is there."""
        if self._failure is not None:
            raise self._failure
        return _Issuing(self, task)

    def close(self) -> None:
        """Free the channel. Nothing is under way."""
        if self._own is not None:
            self._own.close()
        if self._failure is None:
            self._channel.close()

    def started(self, task: Task[Any]) -> Pending:
        """Let the stream of the channel come behind the input, and begin."""
        stream = self._channel.stream
        with stream.active():
            stream.wait(task.ready)
            return task.start(self._channel)

    def advanced(self, pending: Pending, task: Task[Any]) -> bool:
        """Go on with a task; True once all of it was issued."""
        stream = self._channel.stream
        with stream.active():
            if not pending.test():
                return False
        task.arrived = stream.record()
        self._flights.submit(Flight(task, self._check, self._give_up))
        if self._progress is not None:
            self._progress.watch(self._flights)
        return True

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._check_channel()

    def _give_up(self, error: Exception | None, record: Record) -> CollectiveError:
        """End what is under way on this rank; the others will see that it hangs, or an error of their own."""
        if self._failure is None:
            where = (
                f"rank {self._rank}: {record.op} #{record.seq} of {self._name} over {self._by}, "
                f"called at {record.source}"
            )
            if error is None:
                self._failure = CollectiveTimeoutError(
                    f"{where}, was not done by the GPU in time: not all ranks have come, or the GPU is busy "
                    f"with what it was given before. See that all ranks call it, in the same order; or give "
                    f"it more time, by the timeout of the group."
                )
            else:
                self._failure = CollectiveError(f"{where}, failed: {self._spell(error)}.")
            self._abort()
        return self._failure


class _Issuing:
    """Pending: the issue of a task, at once or in several steps."""

    __slots__ = ("_done", "_pending", "_side", "_task")

    def __init__(self, side: DeviceSide, task: Task[Any]) -> None:
        self._side = side
        self._task = task
        self._pending = side.started(task)
        self._done = side.advanced(self._pending, task)

    @property
    def open(self) -> bool:
        return not self._done and self._pending.open

    def test(self) -> bool:
        if not self._done:
            self._done = self._side.advanced(self._pending, self._task)
        return self._done

    def pause(self, waited: float, expected: float) -> None:
        self._pending.pause(waited, expected)
