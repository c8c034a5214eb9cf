"""The world: which ranks there are, and which of them this is.

The world is made at first use: by MPI where a launcher started the process, of one rank elsewhere. Ranks
that are threads have a world each, in their context; everything else in the process shares one.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import numpy as np

from shardwise.backend.errors import CollectiveError, LaunchError
from shardwise.backend.source import source_line
from shardwise.collectives.alone import alone_transport
from shardwise.collectives.detect import LauncherEnvironment, launcher_environment
from shardwise.collectives.fork import check_process, process_of
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.lane import Lane
from shardwise.collectives.ledger import Explanation, Ledger, Record, is_implicit
from shardwise.collectives.mpi import mpi_transport
from shardwise.collectives.pending import Pending
from shardwise.collectives.transport import Transport
from shardwise.collectives.work import Work

__all__ = [
    "World",
    "explain",
    "get_group",
    "get_world",
    "init",
    "is_initialized",
    "local_rank",
    "new_group",
    "rank",
    "rank_thread",
    "shutdown",
    "world_size",
]

T = TypeVar("T")

_TIMEOUT = 600.0  # seconds that an operation is waited for, unless its group says otherwise


class World:
    """All ranks that can talk, seen from one of them.

    Parameters
    ----------
    transport : Transport
    timeout : float
        Seconds that groups wait for an operation, unless they are told.

    Attributes
    ----------
    rank, size : int
    local_rank, local_size : int
        Place among the ranks of this host, and their number.
    hostname : str
    transport : Transport
    ledger : Ledger
        Everything that this rank has sent or received.
    """

    def __init__(self, transport: Transport, timeout: float = _TIMEOUT) -> None:
        self.transport = transport
        self.rank = transport.rank
        self.size = transport.size
        self.local_rank = transport.local_rank
        self.local_size = transport.local_size
        self.hostname = transport.hostname
        self.timeout = timeout
        self.ledger = Ledger()
        self._groups: dict[tuple[int, ...], ProcessGroup] = {}
        self._lock = threading.Lock()
        self._pid = process_of(self.size)
        self._messages = 0
        self._everyone = tuple(range(self.size))
        self.everyone = self.group(self._everyone)

    def __repr__(self) -> str:
        return f"World(rank {self.rank} of {self.size} on {self.hostname}, {self.transport.name})"

    def group(self, ranks: Iterable[int] | None = None, timeout: float | None = None) -> ProcessGroup:
        """Give the group of these global ranks, in this order; all ranks for None. Does not communicate.

        Raises
        ------
        CollectiveError
            If `ranks` is empty, has one twice, or has one that is not in the world.
        """
        if ranks is None:
            return self.everyone
        members = tuple(int(rank) for rank in ranks)
        with self._lock:
            group = self._groups.get(members)
            if group is None:
                if not members or len(set(members)) < len(members) or not set(members) <= set(self._everyone):
                    raise CollectiveError(
                        f"rank {self.rank}: get_group wants distinct ranks from 0 to {self.size - 1}, "
                        f"at least one; got {list(members)}."
                    )
                group = ProcessGroup(
                    members,
                    self.transport,
                    self.ledger,
                    self.timeout,
                )
                self._groups[members] = group
        if timeout is not None:
            group.timeout = timeout
        return group

    def message(
        self,
        op: Literal["send", "recv", "send_object", "recv_object"],
        peer: int,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        nbytes: int,
        start: Callable[[Transport], Pending],
        finish: Callable[[], T],
        background: bool,
    ) -> Work[T]:
        """Issue a send or receive and write it to the ledger; messages do not wait for each other."""
        check_process(self._pid, op, self.rank)
        with self._lock:
            seq = self._messages
            self._messages = seq + 1
        name = f"{self.rank} -> {peer}" if op.startswith("send") else f"{peer} -> {self.rank}"
        record = Record(op, seq, name, 2, dtype, shape, nbytes, is_implicit())
        lane = Lane(self.transport.lock)
        work = Work(lane, record, self.rank, self.timeout, lambda: start(self.transport), finish)
        lane.submit(work)
        record.source = source_line(3)
        self.ledger.write(record)
        if background and self.transport.progress is not None:
            self.transport.progress.watch(lane)
        return work

    def close(self) -> None:
        """End the world for this rank, once all ranks do."""
        self.transport.leave()
        for members in sorted(self._groups):
            self._groups[members].close()
        self.transport.close()


_current: ContextVar[World | None] = ContextVar("shardwise_world", default=None)

# How a rank thread makes its world; None in all other contexts.
_maker: ContextVar[Callable[[], Transport] | None] = ContextVar("shardwise_maker", default=None)

# The world of the process is a fact about it, like its MPI: all its contexts share it, but for those of
# rank threads.
_process: list[World] = []
_starting = threading.Lock()

_TRANSPORTS: Mapping[str, Callable[[LauncherEnvironment | None], Transport]] = MappingProxyType(
    {
        "alone": lambda launched: alone_transport(),
        "mpi": mpi_transport,
    }
)


def get_world() -> World:
    """Give the world of this context, made at the first call.

    Raises
    ------
    LaunchError
        If a launcher started this process and its world cannot be made.
    """
    return _present() or init()


def init(transport: Literal["mpi", "alone"] | None = None, *, timeout: float | None = None) -> World:
    """Make the world of this process; all ranks do. Calling it is optional: the first use does the same.

    Parameters
    ----------
    transport : {"mpi", "alone"}, optional
        By default MPI where a launcher started more than one process, else a world of one without MPI.
    timeout : float, optional
        Seconds that an operation is waited for, unless its group says otherwise; 600 if not given.

    Returns
    -------
    World

    Raises
    ------
    LaunchError
        If the world cannot be made, or there is one that is carried otherwise.
    """
    maker = _maker.get()
    with _starting:
        present = _present()
        if present is None and maker is not None:
            present = World(maker(), timeout or _TIMEOUT)
            _current.set(present)
        elif present is None:
            launched = launcher_environment(os.environ)
            name = transport or _choose(launched)
            if name not in _TRANSPORTS:
                raise LaunchError(
                    f"init: there is no transport {name!r}; choose one of {', '.join(_TRANSPORTS)}, "
                    f"or leave it out. Ranks as threads: shardwise.spawn(fn, nprocs=n, transport='threads')."
                )
            present = World(_TRANSPORTS[name](launched), timeout or _TIMEOUT)
            _process.append(present)
        elif transport is not None and transport != present.transport.name:
            raise LaunchError(
                f"init(transport={transport!r}): rank {present.rank} is already in a world of {present.size} "
                f"over {present.transport.name!r}; call shutdown() on all ranks first."
            )
        elif timeout is not None and timeout != present.timeout:
            raise LaunchError(
                f"init(timeout={timeout}): rank {present.rank} is already in a world whose time-out is "
                f"{present.timeout} s; call init before the first use, or shutdown() on all ranks first."
            )
    return present


def shutdown() -> None:
    """End the world, on all ranks; `init` may make a new one later. Nothing happens where there is none.

    Waits until all ranks have come here, and frees the channels. Groups of the world cannot be used any more.
    """
    world = _present()
    if world is not None:
        world.close()
        _current.set(None)
        if world in _process:
            _process.remove(world)


def is_initialized() -> bool:
    """Say whether this context has a world, without making one."""
    return _present() is not None


def rank() -> int:
    """Give the global rank of this process, from 0."""
    return get_world().rank


def world_size() -> int:
    """Give the number of ranks in the world."""
    return get_world().size


def local_rank() -> int:
    """Give the place of this rank among those of its host, from 0."""
    return get_world().local_rank


def get_group(ranks: Iterable[int] | None = None) -> ProcessGroup:
    """Give the group of these global ranks, in this order.

    Parameters
    ----------
    ranks : iterable of int, optional
        By default all.

    Returns
    -------
    ProcessGroup
        The same object for equal ranks. It may be asked for by ranks that are not members.

    Raises
    ------
    CollectiveError
        If `ranks` is empty, has one twice, or has one that is not in the world.
    """
    return get_world().group(ranks)


def entered_group(group: ProcessGroup | None, op: str) -> ProcessGroup:
    """Give the group that an operation runs on, by default that of all ranks; this rank must be a member."""
    group = group if group is not None else get_world().everyone
    group.member(op)
    return group


def new_group(ranks: Iterable[int] | None = None, timeout: float | None = None) -> ProcessGroup:
    """Give the group of these global ranks, and set its time-out in seconds: PyTorch's name for it."""
    return get_world().group(ranks, timeout)


def explain() -> Explanation:
    """Collect what moves between the ranks inside a ``with`` block.

    Returns
    -------
    Explanation
        A context manager, with `records`, `total_bytes` and `table`.

    Examples
    --------
    >>> import numpy as np
    >>> from shardwise import collectives
    >>> with collectives.explain() as moved:
    ...     _ = collectives.all_reduce(np.ones(4, np.float32))
    >>> [(record.op, record.shape) for record in moved.records]
    [('all_reduce', (4,))]
    """
    return Explanation(get_world().ledger)


@contextmanager
def rank_thread(maker: Callable[[], Transport]) -> Iterator[None]:
    """Give this context a world of its own for a block, over what `maker` makes."""
    made, current = _maker.set(maker), _current.set(None)
    try:
        yield
    finally:
        _current.reset(current)
        _maker.reset(made)


def _present() -> World | None:
    world = _current.get()
    if world is None and _maker.get() is None and _process:
        return _process[0]
    return world


def _choose(launched: LauncherEnvironment | None) -> str:
    if launched is not None and launched.size > 1:
        return "mpi"
    # Started by a launcher that the table does not know, and MPI was imported by the user.
    mpi = sys.modules.get("mpi4py.MPI")
    running = mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized()
    return "mpi" if mpi is not None and running and mpi.COMM_WORLD.Get_size() > 1 else "alone"
