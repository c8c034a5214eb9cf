"""How the ranks of a group come to share memory: each makes a segment, and maps those of the others.

Whether they can is agreed: where one cannot, none does, and MPI carries the group.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
from collections.abc import Callable
from functools import partial

import numpy as np

from shardwise.backend.kernels.unavailable import FusedUnavailableError
from shardwise.collectives.shm import memory, place
from shardwise.collectives.shm.channel import ShmChannel
from shardwise.collectives.shm.handover import Handover
from shardwise.collectives.shm.patience import Patience
from shardwise.collectives.shm.region import Regions
from shardwise.collectives.shm.ring import Ring
from shardwise.collectives.transport import Channel

__all__ = ["join_ring"]

_logger = logging.getLogger(__name__)


def join_ring(
    name: str,
    ranks: tuple[int, ...],
    rank: int,
    handover: Handover,
    by_mpi: Channel,
    crowded: bool,
    ask: Callable[[], None],
) -> Channel:
    """Give the channel of a group on one host: over shared memory, or `by_mpi` if not all of them can.

    Parameters
    ----------
    name : str
        Of the group, the same for all members and for no other group.
    ranks : tuple of int
        Global ranks of the members.
    rank : int
        Global rank of this process.
    handover : Handover
    by_mpi : Channel
        Of the same group.
    crowded : bool
        Whether this rank has no core for itself.
    ask : callable
        Raises if a member has gone.
    """
    reason = ""
    try:
        from shardwise.collectives.shm.engine_cpu import load_engine
        from shardwise.collectives.shm.fold_cpu import fold_of
        from shardwise.collectives.shm.lay_cpu import load_lay

        engine, lay = load_engine(), load_lay()
    except (ImportError, FusedUnavailableError) as error:
        reason = f"rank {rank}: {type(error).__name__}: {error}"
    shared = handover.share(f"ring {name}", ranks, place.SEGMENT, reason)
    if not shared.parts:
        if rank == ranks[0]:
            _logger.warning(
                "ranks %s are on one host but talk through MPI, which is slower: %s",
                list(ranks),
                shared.reason,
            )
        return by_mpi
    ring = Ring(ranks.index(rank), shared.parts, shared.pids)
    reads, opens = _can_reach_others(f"ring {name}", ranks, rank, handover, ring, engine.peek)
    if rank == ranks[0]:
        how = "and each other's" if reads else "and not each other's"
        _logger.info("ranks %s talk through shared memory, %s private memory", list(ranks), how)
    patience = Patience(engine.rest, crowded, ask)
    regions = Regions(ring, engine, patience, partial(handover.share, ranks=ranks), name)
    return ShmChannel(
        ring, engine.run, fold_of, by_mpi, patience, ranks, regions, reads, lay if opens else None
    )


def _can_reach_others(
    name: str,
    ranks: tuple[int, ...],
    rank: int,
    handover: Handover,
    ring: Ring,
    peek: Callable[..., int],
) -> tuple[bool, bool]:
    """Try what systems may forbid: to read each other's memory, and to open each other's files."""
    token = np.array([secrets.randbits(62)], np.int64)
    try:
        probe = memory.create(token.nbytes)
    except OSError:
        probe = -1
    if probe >= 0:
        os.pwrite(probe, token.tobytes(), 0)
    mine = {"pid": os.getpid(), "token": int(token[0]), "address": token.ctypes.data, "file": probe}
    told = handover.tell(f"{name} token", ranks, mine)
    there = [each for other, each in told.items() if other != rank]
    reads = all(
        peek(ring.state, int(str(each["pid"])), int(str(each["address"]))) == each["token"] for each in there
    )
    opens = all(
        _first_number(int(str(each["pid"])), int(str(each["file"]))) == each["token"] for each in there
    )
    agreed = handover.tell(f"{name} read", ranks, {"reads": int(reads), "opens": int(opens)})
    if probe >= 0:
        os.close(probe)
    return (
        all(each["reads"] == 1 for each in agreed.values()),
        all(each["opens"] == 1 for each in agreed.values()),
    )


def _first_number(pid: int, descriptor: int) -> int:
    """Read the number that a file of another process begins with, or give -1."""
    if descriptor < 0:
        return -1
    try:
        opened = memory.open_of(pid, descriptor)
    except OSError:
        return -1
    try:
        return int.from_bytes(os.pread(opened, 8, 0), sys.byteorder)
    finally:
        os.close(opened)
