"""Waiting for all ranks of a group."""

from __future__ import annotations

import time
import zlib
from typing import Literal, overload

import numpy as np

from shardwise.backend.errors import CollectiveTimeoutError
from shardwise.backend.source import source_line
from shardwise.collectives.context import entered_group
from shardwise.collectives.form.operand import itself
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue.alike import issue_barrier
from shardwise.collectives.issue.message import issue_recv, issue_send
from shardwise.collectives.ledger import implicit
from shardwise.collectives.rank_list import rank_list
from shardwise.collectives.timeout import Timeout, seconds
from shardwise.collectives.work import Work

__all__ = ["barrier", "monitored_barrier"]

_BYTE = np.dtype(np.uint8)
_TAGS = 0xFFFFF  # those that a message may have


@overload
def barrier(
    group: ProcessGroup | None = ..., timeout: Timeout | None = ..., *, async_op: Literal[False] = ...
) -> None: ...
@overload
def barrier(
    group: ProcessGroup | None = ..., timeout: Timeout | None = ..., *, async_op: Literal[True]
) -> Work[None]: ...
def barrier(
    group: ProcessGroup | None = None, timeout: Timeout | None = None, *, async_op: bool = False
) -> Work[None] | None:
    """Wait until all ranks of the group have called it.

    Parameters
    ----------
    group : ProcessGroup, optional
        By default all ranks.
    timeout : float or timedelta, optional
        Seconds; by default that of the group.
    async_op : bool
        Return a `Work` without waiting.

    Raises
    ------
    CollectiveTimeoutError
        If they have not all come in time.
    CollectiveError
        If this rank is not in the group.
    """
    work = issue_barrier(group, async_op)
    if async_op:
        return work
    work.wait(timeout)
    return None


def monitored_barrier(group: ProcessGroup | None = None, timeout: Timeout | None = None) -> None:
    """Wait until all ranks of the group have called it; name those that have not.

    Parameters
    ----------
    group : ProcessGroup, optional
        By default all ranks.
    timeout : float or timedelta, optional
        Seconds; by default that of the group.

    Raises
    ------
    CollectiveTimeoutError
        If they have not all come in time; the message names all that are missing.
    CollectiveError
        If this rank is not in the group, or another one has left the world.

    Notes
    -----
    Every rank tells every other one by a message of its own, n (n - 1) in all, so that it works where a
    collective of the group is stuck; `barrier` takes fewer steps.
    """
    op = "monitored_barrier"
    group = entered_group(group, op)
    patience = group.timeout if timeout is None else seconds(timeout)
    tag = zlib.crc32(f"{group.ranks}{group.label}".encode()) & _TAGS
    others = [rank for rank in group.ranks if rank != group.transport.rank]
    here = np.zeros(1, _BYTE)
    with implicit():
        coming = [issue_recv((1,), _BYTE, rank, tag, "barrier", None, itself, True) for rank in others]
        told = [issue_send(here, rank, tag, "barrier", True) for rank in others]
    deadline = time.monotonic() + patience
    missing = []
    for rank, work in zip(others, coming, strict=True):
        try:
            work.wait(max(0.0, deadline - time.monotonic()))
        except CollectiveTimeoutError:
            missing.append(rank)
    if missing:
        has = "has" if len(missing) == 1 else "have"
        raise CollectiveTimeoutError(
            f"{group.where(op)}: {rank_list(missing)} of {group.size} {has} not come within {patience:g} s "
            f"to the barrier at {source_line()}; look what they wait for, or give them more time by timeout=."
        )
    for sent in told:
        sent.wait()
