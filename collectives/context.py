"""The world of this context: made at first use, found ever after.

MPI makes it where a launcher started the process; elsewhere it has one rank. Ranks that are threads have a
world each, in their context; everything else in the process shares one.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Literal

from shardwise.backend.errors import CollectiveError, LaunchError
from shardwise.collectives.environment import read_settings
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.ledger import Record, show_log
from shardwise.collectives.mpi.detect import LauncherEnvironment, launcher_environment
from shardwise.collectives.mpi.transport import mpi_transport
from shardwise.collectives.reduction import Deterministic
from shardwise.collectives.thread.alone import alone_transport
from shardwise.collectives.timeout import Timeout, seconds
from shardwise.collectives.transport import Transport
from shardwise.collectives.world import World

__all__ = [
    "entered_group",
    "flight_record",
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


def init(
    transport: Literal["mpi", "alone"] | None = None,
    *,
    timeout: Timeout | None = None,
    deterministic: Deterministic | None = None,
    debug: bool | None = None,
) -> World:
    """Make the world of this process; all ranks do. Calling it is optional: the first use does the same.

    Parameters
    ----------
    transport : {"mpi", "alone"}, optional
        By default MPI where a launcher started more than one process, else a world of one without MPI.
    timeout : float or timedelta, optional
        Seconds that an operation is waited for, unless its group says otherwise; by default what the
        environment says in ``SHARDWISE_TIMEOUT``, else 600.
    deterministic : {"by-rank-order"}, optional
        Combine the parts of reductions in rank order, whatever the transport and the algorithm, so that a
        program gives the same bits on any transport. By default what the environment says in
        ``SHARDWISE_DETERMINISTIC``; else each transport has an order of its own, which gives the same bits
        on all ranks and in every run.
    debug : bool, optional
        Compare every call of a collective between the ranks before it is made, and raise
        `CollectiveMismatchError` on all of them, naming both sides, where they differ in operation,
        reduction, root, dtype, shape or sizes. By default what the environment says in ``SHARDWISE_DEBUG``.

    Returns
    -------
    World

    Raises
    ------
    LaunchError
        If the world cannot be made, there is one that is carried otherwise, or a variable of the environment
        has a value that nothing is known of.
    """
    said = read_settings(os.environ)
    patience = said.timeout if timeout is None else seconds(timeout)
    order = deterministic or said.deterministic
    checks = said.debug if debug is None else debug
    maker = _maker.get()
    if said.log:
        show_log()
    with _starting:
        present = _present()
        if present is None and maker is not None:
            present = World(maker(), patience, order, said.folder, checks, said.log)
            _current.set(present)
        elif present is None:
            launched = launcher_environment(os.environ)
            name = transport or _choose(launched)
            if name not in _TRANSPORTS:
                raise LaunchError(
                    f"init: there is no transport {name!r}; choose one of {', '.join(_TRANSPORTS)}, "
                    f"or leave it out. Ranks as threads: shardwise.spawn(fn, nprocs=n, transport='threads')."
                )
            present = World(_TRANSPORTS[name](launched), patience, order, said.folder, checks, said.log)
            _process.append(present)
        elif transport is not None and transport != present.transport.name:
            raise LaunchError(
                f"init(transport={transport!r}): rank {present.rank} is already in a world of {present.size} "
                f"over {present.transport.name!r}; call shutdown() on all ranks first."
            )
        elif timeout is not None and patience != present.timeout:
            raise LaunchError(
                f"init(timeout={patience:g}): rank {present.rank} is already in a world whose time-out is "
                f"{present.timeout} s; call init before the first use, or shutdown() on all ranks first."
            )
        elif deterministic is not None and deterministic != present.deterministic:
            raise LaunchError(
                f"init(deterministic={deterministic!r}): rank {present.rank} is already in a world that is "
                f"not; call init before the first use, or shutdown() on all ranks first."
            )
        elif debug is not None and debug != present.debug:
            raise LaunchError(
                f"init(debug={debug}): rank {present.rank} is already in a world with debug={present.debug}; "
                f"call init before the first use, or shutdown() on all ranks first."
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


def flight_record() -> list[Record]:
    """Give the last 1,000 operations of this rank, oldest first; those that run have no end yet.

    Returns
    -------
    list of Record
    """
    return get_world().ledger.records


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
    try:
        group.member(op)
    except AttributeError as error:
        raise CollectiveError(
            f"{op} on rank {get_world().rank}: group is {type(group).__name__}, wanted a ProcessGroup. "
            f"PyTorch's functions that fill what is given first have other names here, or return it; see "
            f"the table in docs/how-to/from-pytorch.md."
        ) from error
    return group


def new_group(
    ranks: Iterable[int] | None = None,
    timeout: Timeout | None = None,
    *,
    deterministic: Deterministic | None = None,
) -> ProcessGroup:
    """Give another group of these global ranks, in this order.

    `get_group` gives the same object for equal ranks, whose operations keep one order. What must not wait for
    them, in another thread or in the background, runs in a group of its own. Nothing is sent.

    Parameters
    ----------
    ranks : iterable of int, optional
        By default all.
    timeout : float or timedelta, optional
        Seconds that an operation is waited for; by default that of the world.
    deterministic : {"by-rank-order"}, optional
        As for `init`, for this group; by default what the world does.

    Returns
    -------
    ProcessGroup
        A new one at each call. The members must make the groups of equal ranks in the same order; others need
        not call it.

    Raises
    ------
    CollectiveError
        If `ranks` is empty, has one twice, or has one that is not in the world.
    """
    return get_world().new_group(ranks, timeout, deterministic)


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
