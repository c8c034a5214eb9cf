"""Collectives of a group that spans hosts: inside each host by its own channel, between hosts slice by slice.

Where every host has the same number of members, rank i of each host carries slice i to the other hosts, so
that what goes over the network is what one rank alone would send, and all links of a host are used. The
members need not be in any order. What is not worth it, or not defined by parts, goes over the whole group's
communicator.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np

from shardwise.backend.array import Array
from shardwise.collectives.chain import Chain
from shardwise.collectives.layout import Stretch
from shardwise.collectives.pending import Pending
from shardwise.collectives.reduction import PLAIN, Reduction, divide
from shardwise.collectives.transport import Channel

__all__ = ["HierarchicalChannel", "HostPlan"]

Links = Generator[tuple[Pending, bool], None, None]

_LEAST = 1 << 15  # bytes of a rank below which one message between all ranks is faster


@dataclass(frozen=True, slots=True)
class HostPlan:
    """Where the members of a group are.

    Attributes
    ----------
    members : tuple of tuple of int
        For each host, in order of its first member, the ranks of the group that are on it.
    """

    members: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(hosts: Sequence[str]) -> HostPlan:
        """Make it of the host of each rank of the group.

        Examples
        --------
        >>> HostPlan.of(["a", "b", "a", "b"]).members
        ((0, 2), (1, 3))
        """
        found: dict[str, list[int]] = {}
        for rank, host in enumerate(hosts):
            found.setdefault(host, []).append(rank)
        return HostPlan(tuple(map(tuple, found.values())))

    @property
    def is_worth_it(self) -> bool:
        """Whether there are several hosts with several members each, of equal number."""
        each = {len(ranks) for ranks in self.members}
        return len(self.members) > 1 and len(each) == 1 and each != {1}

    def inside(self, rank: int) -> tuple[int, ...]:
        """Give the ranks on the host of `rank`."""
        return next(ranks for ranks in self.members if rank in ranks)

    def across(self, rank: int) -> tuple[int, ...]:
        """Give the ranks that have the same place on their hosts as `rank` has on its own."""
        place = self.inside(rank).index(rank)
        return tuple(ranks[place] for ranks in self.members)


class HierarchicalChannel:
    """One channel of three.

    Parameters
    ----------
    plan : HostPlan
    rank : int
        Place in the group.
    inside : Channel
        Of the ranks of this host, in the order of the plan.
    across : Channel
        Of those with the same place on their hosts, in the order of the plan.
    whole : Channel
        Of all.
    """

    def __init__(self, plan: HostPlan, rank: int, inside: Channel, across: Channel, whole: Channel) -> None:
        self._inside = inside
        self._across = across
        self._whole = whole
        self._local = plan.inside(rank)
        self._place = self._local.index(rank)
        self._hosts = len(plan.members)
        self._size = self._hosts * len(self._local)
        # The rank of the group of each row, where rows go by place and then by host.
        self._by_place = [ranks[place] for place in range(len(self._local)) for ranks in plan.members]
        self._places = {rank: ranks.index(rank) for ranks in plan.members for rank in ranks}
        self._host_of = {rank: host for host, ranks in enumerate(plan.members) for rank in ranks}

    def all_reduce(self, x: Array, out: Array, op: Reduction) -> Pending:
        if x.nbytes < _LEAST or not self._splits(op, x):
            return self._whole.all_reduce(x, out, op)
        return Chain(self._all_reduce(x, out, op))

    def reduce_scatter(self, x: Array, out: Array, op: Reduction) -> Pending:
        if x.nbytes < _LEAST or not self._splits(op, x):
            return self._whole.reduce_scatter(x, out, op)
        return Chain(self._reduce_scatter(x, out, op))

    def all_gather(self, x: Array, out: Array) -> Pending:
        if x.nbytes < _LEAST:
            return self._whole.all_gather(x, out)
        return Chain(self._all_gather(x, out))

    def broadcast(self, x: Array, root: int) -> Pending:
        if x.nbytes < _LEAST:
            return self._whole.broadcast(x, root)
        return Chain(self._broadcast(x, root))

    def barrier(self) -> Pending:
        return self._whole.barrier()

    def all_to_all(self, x: Array, out: Array) -> Pending:
        return self._whole.all_to_all(x, out)

    def reduce(self, x: Array, out: Array | None, op: Reduction, root: int) -> Pending:
        return self._whole.reduce(x, out, op, root)

    def gather(self, x: Array, out: Array | None, root: int) -> Pending:
        return self._whole.gather(x, out, root)

    def scatter(self, x: Array | None, out: Array, root: int) -> Pending:
        return self._whole.scatter(x, out, root)

    def exchange(
        self,
        x: Array,
        out: Array,
        sent: Sequence[Stretch | None],
        received: Sequence[Stretch | None],
    ) -> Pending:
        return self._whole.exchange(x, out, sent, received)

    def close(self) -> None:
        self._inside.close()
        self._across.close()
        self._whole.close()

    @staticmethod
    def _splits(op: Reduction, x: Array) -> bool:
        """Whether a reduction of reductions is one; narrow floats would be rounded at every level."""
        return (op, x.dtype) in PLAIN and x.dtype != np.float16

    def _all_reduce(self, x: Array, out: Array, op: Reduction) -> Links:
        total: Reduction = "sum" if op == "avg" else op
        members = len(self._local)
        part = -(-x.size // members)
        rows = np.empty((members, part), x.dtype)
        flat = rows.reshape(-1)
        flat[: x.size] = x.reshape(-1)
        flat[x.size :] = x.reshape(-1)[:1]  # as good as any number, and not uninitialised memory
        mine = rows[self._place]
        yield self._inside.reduce_scatter(rows, mine, total), True
        yield self._across.all_reduce(mine, mine, total), True
        if op == "avg":
            divide(mine, self._size)
        yield self._inside.all_gather(mine, rows), False
        out.reshape(-1)[:] = flat[: x.size]

    def _reduce_scatter(self, x: Array, out: Array, op: Reduction) -> Links:
        total: Reduction = "sum" if op == "avg" else op
        members = len(self._local)
        rows = x.reshape(self._size, -1)[self._by_place].reshape(members, self._hosts, -1)
        mine = np.empty(rows.shape[1:], x.dtype)
        yield self._inside.reduce_scatter(rows, mine, total), True
        result = out.reshape(-1)
        own = np.empty_like(result)
        yield self._across.reduce_scatter(mine, own, total), False
        if op == "avg":
            divide(own, self._size)
        result[:] = own

    def _all_gather(self, x: Array, out: Array) -> Links:
        column = np.empty((self._hosts, x.size), x.dtype)
        yield self._across.all_gather(x.reshape(-1), column), True
        rows = np.empty((len(self._local), *column.shape), x.dtype)
        yield self._inside.all_gather(column, rows), False
        out.reshape(self._size, -1)[self._by_place] = rows.reshape(self._size, -1)

    def _broadcast(self, x: Array, root: int) -> Links:
        if self._place == self._places[root]:
            yield self._across.broadcast(x, self._host_of[root]), True
        yield self._inside.broadcast(x, self._places[root]), False
