"""Device arrays in a group: which way they go, agreed by all members when the first one comes.

The members gather what each of them can, over the group's host channel; all take the first transport that all
can (`choice.py`), and make its channel. What is issued meanwhile stands behind that in the group's
lane.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Generator
from typing import Generic, Literal, Protocol, TypeVar

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveError, DeviceError
from shardwise.backend.stream_cuda import CudaDevice
from shardwise.collectives.chain import Chain
from shardwise.collectives.device.choice import Abilities, Choice, choose
from shardwise.collectives.device.mpi_cuda import MpiCudaChannel, why_not_mpi_cuda
from shardwise.collectives.device.nccl import NcclChannel, nccl_error, nccl_version, unique_id
from shardwise.collectives.device.side import DeviceChannel, DeviceSide
from shardwise.collectives.device.staged import StagedChannel
from shardwise.collectives.device.work import DeviceWork, Task
from shardwise.collectives.environment import read_switch
from shardwise.collectives.lane import Lane
from shardwise.collectives.ledger import Record
from shardwise.collectives.pending import Pending
from shardwise.collectives.rank_list import rank_list
from shardwise.collectives.transport import Channel, Transport

__all__ = ["DevicePart", "Members"]

T = TypeVar("T")
C = TypeVar("C", bound=DeviceChannel)

_logger = logging.getLogger(__name__)


class Members(Protocol):
    """What is needed of a group."""

    ranks: tuple[int, ...]
    size: int
    rank: int | None
    name: str
    label: str
    deterministic: Literal["by-rank-order"] | None
    transport: Transport
    lane: Lane

    @property
    def channel(self) -> Channel:
        """Of host arrays."""


class DevicePart:
    """The part of a group that takes device arrays.

    Parameters
    ----------
    group : Members
    like : array
        This rank's first one.
    """

    def __init__(self, group: Members, like: Array) -> None:
        self._group = group
        self._device = CudaDevice.of(like)
        self._connecting = _Connecting(group, self._device)
        group.lane.submit(self._connecting)

    @property
    def transport(self) -> str | None:
        """Name of what was agreed on; None while that is under way."""
        return None if self._connecting.choice is None else self._connecting.choice.transport

    def work(
        self,
        x: Array,
        record: Record,
        timeout: float,
        start: Callable[[Channel], Pending],
        finish: Callable[[], T],
    ) -> DeviceWork[T]:
        """Make the work of an operation; the group puts it into its lane.

        Raises
        ------
        DeviceError
            If `x` is on another device than the group's first array was.
        """
        device = CudaDevice.of(x)
        if device.index != self._device.index:
            raise DeviceError(
                f"{record.op} on {self._group.name}, rank {self._group.transport.rank}: the array is on "
                f"cuda:{device.index}, and earlier ones were on cuda:{self._device.index}; a rank "
                f"keeps to one device, which shardwise.collectives.local_device() gives."
            )
        task = Task(device, start, finish, record, timeout)

        def begin() -> Pending:
            return self._connecting.side.begin(task)

        return DeviceWork(task, self._group.lane, self._group.transport.rank, begin)

    def close(self) -> None:
        """Free the channel. Nothing is under way."""
        self._connecting.close()


class _Connecting:
    """An entry of the group's lane: the members agree, and make the channel."""

    def __init__(self, group: Members, device: CudaDevice) -> None:
        self.pending: Pending | None = None
        self.choice: Choice | None = None
        self._group = group
        self._device = device
        self._side: DeviceSide | None = None
        self._error: Exception | None = None

    @property
    def side(self) -> DeviceSide:
        if self._side is None:
            group = self._group
            where = f"device arrays on {group.name}, rank {group.transport.rank}"
            if isinstance(self._error, DeviceError):
                raise DeviceError(f"{where}: {self._error}") from self._error
            raise CollectiveError(f"{where}: {self._error}") from self._error
        return self._side

    def issue(self) -> None:
        try:
            self.pending = Chain(self._steps())
        except Exception as error:
            self._error = error

    def settle(self) -> bool:
        try:
            if self.pending is not None and not self.pending.test():
                return False
        except Exception as error:
            self._error = error
        self.pending = None
        return True

    def close(self) -> None:
        if self._side is not None:
            self._side.close()

    def _steps(self) -> Generator[tuple[Pending, bool], None, None]:
        group, host = self._group, self._group.channel
        mine = json.dumps(_abilities(group.transport, self._device)).encode()
        length = np.array([len(mine)])
        lengths = np.empty((group.size, 1), length.dtype)
        yield host.all_gather(length, lengths), True
        sent = np.zeros(int(lengths.max()), np.uint8)
        sent[: len(mine)] = np.frombuffer(mine, np.uint8)
        rows = np.empty((group.size, sent.size), np.uint8)
        yield host.all_gather(sent, rows), True
        texts = (bytes(rows[i, : lengths[i, 0]]) for i in range(group.size))
        choice = choose([Abilities(**json.loads(text)) for text in texts])
        if choice.transport == "nccl":
            side = yield from self._by_nccl(host)
        elif choice.transport == "mpi-cuda":
            side = yield from self._by_mpi(host)
        else:
            staged = StagedChannel(host, group.size, self._device)
            side = DeviceSide(staged, group.transport, group.name, "the host", _nothing, _nothing, repr)
        self._side = side
        self.choice = choice
        if group.rank == 0:
            _logger.info(
                "rank %d: device arrays on %s go by %s (%s)",
                group.transport.rank,
                group.name,
                choice.transport,
                choice.reason,
            )

    def _by_nccl(self, host: Channel) -> Generator[tuple[Pending, bool], None, DeviceSide]:
        """Make a communicator of NCCL's: the first rank's 128 bytes to all, and then all at the same time."""
        group = self._group
        identity = np.zeros(128, np.uint8)
        if group.rank == 0:
            identity[:] = np.frombuffer(unique_id(), np.uint8)
        yield host.broadcast(identity, 0), True
        ordered = group.deterministic is not None
        making = _Making(
            lambda: NcclChannel(self._device, group.size, group.rank or 0, identity.tobytes(), ordered), True
        )
        try:
            made = yield from self._together(host, making, "NCCL")
        except Exception:
            if making.made is not None:
                making.made.abort()  # it would be destroyed when it goes, and wait for the others
            raise
        return DeviceSide(made, group.transport, group.name, "NCCL", made.check, made.abort, nccl_error)

    def _by_mpi(self, host: Channel) -> Generator[tuple[Pending, bool], None, DeviceSide]:
        """Make a channel of MPI's, which is for device arrays alone."""
        group = self._group

        def make() -> MpiCudaChannel:
            by_mpi = group.transport.connect_mpi(group.ranks, f"{group.label} on the device")
            if by_mpi is None:
                raise CollectiveError("there is no MPI between these ranks")
            return MpiCudaChannel(by_mpi, self._device, group.size)

        making = _Making(make, group.transport.lock is None)
        made = yield from self._together(host, making, "MPI")
        return DeviceSide(made, group.transport, group.name, "MPI", _nothing, _nothing, repr)

    def _together(
        self, host: Channel, making: _Making[C], what: str
    ) -> Generator[tuple[Pending, bool], None, C]:
        """Wait for a channel, and for the others' news of theirs."""
        yield making, True
        failed = np.array([making.made is None])
        everyone = np.empty((self._group.size, 1), bool)
        yield host.all_gather(failed, everyone), True  # nothing may come before there is a channel
        if making.made is None or everyone.any():
            at = [self._group.ranks[i] for i in np.flatnonzero(everyone)]
            raise CollectiveError(f"{what} did not connect on {rank_list(at)}: {making.error or 'see there'}")
        return making.made


class _Making(Generic[C]):
    """Pending: the making of a channel, by a thread where that may be: it waits for all ranks."""

    open = True

    def __init__(self, make: Callable[[], C], parallel: bool) -> None:
        self.made: C | None = None
        self.error: Exception | None = None
        self._make = make
        self._ended = threading.Event()
        if parallel:
            threading.Thread(target=self._run, name="shardwise-device", daemon=True).start()
        else:
            self._run()

    def test(self) -> bool:
        return self._ended.is_set()

    def pause(self, waited: float, expected: float) -> None:
        self._ended.wait(min(0.01, waited + expected))

    def _run(self) -> None:
        try:
            self.made = self._make()
        except Exception as error:
            self.error = error
        self._ended.set()


def _nothing() -> None:
    """What there is to check, or to abort."""


def _abilities(transport: Transport, device: CudaDevice) -> dict[str, object]:
    version, reason = nccl_version()
    lacks = {} if version else {"nccl": reason}
    mpi = "there is no MPI between these ranks"
    if transport.name == "mpi":
        mpi = why_not_mpi_cuda(device.index, os.environ)
    if mpi:
        lacks["mpi-cuda"] = mpi
    return {
        "rank": transport.rank,
        "host": transport.hostname if transport.control is None else transport.control.hosts[transport.rank],
        "device": device.identity,
        "nccl": version,
        "lacks": lacks,
        "forced": os.environ.get("SHARDWISE_DEVICE_TRANSPORT", ""),
        "shares": read_switch("SHARDWISE_SHARE_GPUS", os.environ),
    }
