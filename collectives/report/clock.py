"""How far the clocks of the ranks are apart: measured by messages there and back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shardwise.collectives.context import get_world
from shardwise.collectives.form.rooted import broadcast
from shardwise.collectives.issue.message import issue_recv, issue_send
from shardwise.collectives.ledger import implicit

__all__ = ["clock_offsets"]

_ROUNDS = 8
_TAG = (1 << 20) - 1  # the last one: messages of the user's that wait are not taken for ours


def clock_offsets(read: Callable[[], float]) -> list[float]:
    """Tell by how much each rank's clock is ahead of rank 0's. All ranks of the world call it.

    Parameters
    ----------
    read : callable
        Reads the clock, in seconds: ``time.time``, ``time.perf_counter``.

    Returns
    -------
    list of float
        Seconds by rank, the same on all ranks. 0 where the difference is within what the fastest message
        there and back leaves open, as it is for ranks of one host that read one clock.

    References
    ----------
    Cristian, "Probabilistic clock synchronization", Distributed Computing 3, 1989.

    Notes
    -----
    Eight small messages each way between rank 0 and every other rank, one rank after the other.
    """
    world = get_world()
    offsets = np.zeros(world.size)
    with implicit():
        for rank in range(1, world.size):
            if world.rank == 0:
                offsets[rank] = _ask(rank, read)
            elif world.rank == rank:
                _answer(read)
        offsets = broadcast(offsets)
    return [float(offset) for offset in offsets]


def _ask(rank: int, read: Callable[[], float]) -> float:
    best, offset = float("inf"), 0.0
    for _ in range(_ROUNDS):
        sent = read()
        _send(sent, rank)
        theirs = _receive(rank)
        took = read() - sent
        if took < best:
            best, offset = took, theirs - (sent + took / 2)
    return offset if abs(offset) > best / 2 else 0.0


def _answer(read: Callable[[], float]) -> None:
    for _ in range(_ROUNDS):
        _receive(0)
        _send(read(), 0)


def _send(value: float, rank: int) -> None:
    issue_send(np.array([value]), rank, _TAG, "object", False).wait()


def _receive(rank: int) -> float:
    got = issue_recv((1,), np.float64, rank, _TAG, "object", None, lambda array: array, False).wait()
    return float(got[0])
