"""`DeviceLink`: arrays of devices between stages, by a communicator and a stream for each directed edge.

NCCL matches messages by their order alone, and opposite ones of two ranks wait for each other for ever where
both begin with the same direction on one communicator. With one per direction neither can happen, since all
messages of an edge come in the order of the program on both ends. A message is the broadcast of a group of
two, so that time-outs, verdicts and the ledger are those of any other operation. Where arrays go by way
of the host, they are messages of the world instead, as arrays of the host are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.collectives import ProcessGroup, Work, broadcast, implicit, irecv, isend, new_group
from shardwise.pipelining.edge import TAG
from shardwise.pipelining.meta import Meta
from shardwise.pipelining.need import carried, taker
from shardwise.pipelining.program import Program

__all__ = ["DeviceLink", "directed_edges"]


def directed_edges(program: Program, ranks: Sequence[int]) -> list[tuple[int, int]]:
    """Return who sends to whom in a lowered program, by global ranks, ascending.

    Examples
    --------
    >>> directed_edges(Program.from_text("0F0,0SEND_F0\\n1RECV_F0,1F0"), (4, 7))
    [(4, 7)]
    """
    owners = program.owners
    found = set()
    for place, actions in enumerate(program):
        for action in actions:
            if action.kind.startswith("SEND"):
                event = carried(action)
                found.add((ranks[place], ranks[owners[taker(event)[1], event[2]]]))
    return sorted(found)


class DeviceLink:
    """The edges of a pipeline whose ranks all compute on devices.

    Parameters
    ----------
    here : int
        Global rank.
    like : array
        One on this rank's device.
    """

    def __init__(self, here: int, like: Array) -> None:
        self._here, self._like = here, like
        self._groups: dict[tuple[int, int], ProcessGroup] = {}

    def connect(self, edges: Iterable[tuple[int, int]]) -> None:
        """Connect the ends of edges that are not yet. All ranks of the pipeline call it with the same edges.

        They are connected before any message is sent, one after the other in one order: communicators that
        are made in the middle of a program wait for ranks that wait for something else.
        """
        with implicit():
            for edge in sorted(set(edges) - self._groups.keys()):
                if self._here not in edge:
                    continue
                group = self._groups[edge] = new_group(sorted(edge))
                hello = np.zeros_like(self._like, shape=(1,))
                broadcast(hello, edge[0], group, out=hello, async_op=True).wait()

    def send(self, array: Array, rank: int) -> Work[Any]:
        """Begin to send to a global rank."""
        group = self._groups[self._here, rank]
        if group.device_transport == "staged":
            return isend(array, rank, TAG)
        return broadcast(array, self._here, group, out=array, async_op=True)

    def receive(self, meta: Meta, rank: int) -> Work[Array]:
        """Begin to receive from a global rank, on this rank's device."""
        room = np.empty_like(self._like, meta.dtype, order="C", shape=meta.local_shape)
        group = self._groups[rank, self._here]
        if group.device_transport == "staged":
            return irecv(out=room, src=rank, tag=TAG)
        return broadcast(room, rank, group, out=room, async_op=True)
