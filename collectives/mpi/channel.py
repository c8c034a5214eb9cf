"""The collectives of one group over an MPI communicator, nonblocking.

Movement is in bytes, so that every dtype moves alike; what is larger than one message may be (MPI counts in
32 bits) goes as several point-to-point messages. Reductions that MPI computes as NumPy does are MPI's. The
others (narrow floats, which are summed in float32; min and max of floats, through which NaN must go; what MPI
lacks) exchange parts and combine them by definition, in rank order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from shardwise.backend.array import Array
from shardwise.collectives.layout import Stretch
from shardwise.collectives.mpi.message import Messages, Watch
from shardwise.collectives.mpi.native import Natives
from shardwise.collectives.mpi.piece import CHUNK, as_bytes, cut
from shardwise.collectives.mpi.request import Issued, Phase, Phased
from shardwise.collectives.reduction import Reduction, combine, divide

if TYPE_CHECKING:  # importing it for real starts MPI
    from mpi4py import MPI

__all__ = ["MPIChannel"]

_SMALL = 1 << 14  # bytes below which a reduction by definition gathers everything everywhere


class MPIChannel:
    """The collectives of one communicator.

    Parameters
    ----------
    mpi : module
        ``mpi4py.MPI``.
    comm : MPI.Intracomm
        Of this group alone; it is freed by `close`.
    ranks : tuple of int
        Global ranks of the members, for messages.
    natives : Natives
    watch : callable
        How to wait.
    chunk : int
        Bytes of the largest message.
    """

    def __init__(
        self,
        mpi: ModuleType,
        comm: MPI.Intracomm,
        ranks: tuple[int, ...],
        natives: Natives,
        watch: Watch,
        chunk: int = CHUNK,
    ) -> None:
        self._mpi = mpi
        self._comm = comm
        self._ranks = ranks
        self._byte: MPI.Datatype = mpi.BYTE
        self._in_place = mpi.IN_PLACE
        self._natives = natives.table
        self._watch = watch
        self._chunk = chunk
        # What is exchanged to be combined goes in pieces that stay in a cache of a few MiB.
        self._piece = min(chunk, max(1 << 20, comm.size << 16))
        self._size = comm.size
        self._rank = comm.rank

    def all_reduce(self, x: Array, out: Array, op: Reduction) -> Issued | Phased:
        native = self._natives.get((x.dtype, op))
        if native is None:
            if x.nbytes * self._size <= _SMALL:
                return self._gather_and_combine(x, out, op)
            return Phased(self._exchange_and_combine(x, out, op), self._watch)
        datatype, operation = native
        then = self._averaging(out) if op == "avg" else None
        if x.nbytes <= self._chunk:
            sent = self._in_place if x is out else [x, x.size, datatype]
            return Issued(
                [self._comm.Iallreduce(sent, [out, x.size, datatype], operation)], self._watch, then
            )
        requests = [
            self._comm.Iallreduce(
                self._in_place if x is out else [piece, piece.size, datatype],
                [filled, piece.size, datatype],
                operation,
            )
            for piece, filled in zip(cut(x, self._chunk), cut(out, self._chunk), strict=True)
        ]
        return Issued(requests, self._watch, then)

    def all_gather(self, x: Array, out: Array) -> Issued:
        sent, rows = as_bytes(x), _rows(out)
        in_place = np.may_share_memory(x, out)
        if rows.size <= self._chunk:
            request = self._comm.Iallgather(
                self._in_place if in_place else [sent, self._byte], [rows, self._byte]
            )
            return Issued([request], self._watch)
        if not in_place:
            rows[self._rank] = sent
        others = self._others()
        return Issued(
            self._messages([(i, sent) for i in others], [(i, rows[i]) for i in others]), self._watch
        )

    def all_to_all(self, x: Array, out: Array) -> Issued:
        return Issued(self._swap(x, out), self._watch)

    def reduce_scatter(self, x: Array, out: Array, op: Reduction) -> Issued:
        # On the MPIs measured this is up to ten times faster than their own, and the same for every dtype.
        parts = np.empty_like(x)
        return Issued(self._swap(x, parts), self._watch, lambda: combine(_split(parts), op, out))

    def exchange(
        self,
        x: Array,
        out: Array,
        sent: Sequence[Stretch | None],
        received: Sequence[Stretch | None],
    ) -> Messages:
        own, mine = sent[self._rank], received[self._rank]
        if own is not None and mine is not None:
            out[slice(*mine)] = x[slice(*own)]
        others = self._others()
        rooms = [(i, as_bytes(out[slice(*part)])) for i in others if (part := received[i]) is not None]
        parts = [(i, as_bytes(x[slice(*part)])) for i in others if (part := sent[i]) is not None]
        receives = [
            (self._comm.Irecv([piece, self._byte], i), piece.size, i)
            for i, room in rooms
            for piece in cut(room, self._chunk)
        ]
        return Messages(self._mpi, receives, self._messages(parts, []), self._watch, self._other_size)

    def broadcast(self, x: Array, root: int) -> Issued:
        requests = [self._comm.Ibcast([piece, self._byte], root) for piece in cut(as_bytes(x), self._chunk)]
        return Issued(requests, self._watch)

    def reduce(self, x: Array, out: Array | None, op: Reduction, root: int) -> Issued | Phased:
        native = self._natives.get((x.dtype, op))
        if native is None:
            return Phased(self._collect_and_combine(x, out, op, root), self._watch)
        datatype, operation = native
        if out is None:
            requests = [
                self._comm.Ireduce([piece, piece.size, datatype], None, operation, root)
                for piece in cut(x, self._chunk)
            ]
            return Issued(requests, self._watch)
        requests = [
            self._comm.Ireduce(
                self._in_place if x is out else [piece, piece.size, datatype],
                [filled, piece.size, datatype],
                operation,
                root,
            )
            for piece, filled in zip(cut(x, self._chunk), cut(out, self._chunk), strict=True)
        ]
        return Issued(requests, self._watch, self._averaging(out) if op == "avg" else None)

    def gather(self, x: Array, out: Array | None, root: int) -> Issued:
        return Issued(self._collect(x, out, root), self._watch)

    def scatter(self, x: Array | None, out: Array, root: int) -> Issued:
        filled = as_bytes(out)
        if filled.size * self._size <= self._chunk:
            sent = None if x is None else [as_bytes(x), self._byte]
            if x is not None and np.may_share_memory(x, out):
                return Issued([self._comm.Iscatter(sent, self._in_place, root)], self._watch)
            return Issued([self._comm.Iscatter(sent, [filled, self._byte], root)], self._watch)
        if x is None:
            return Issued(self._messages([], [(root, filled)]), self._watch)
        rows = _rows(x)
        if not np.may_share_memory(x, out):
            np.copyto(filled, rows[root])
        return Issued(self._messages([(i, rows[i]) for i in self._others()], []), self._watch)

    def barrier(self) -> Issued:
        return Issued([self._comm.Ibarrier()], self._watch)

    def close(self) -> None:
        self._comm.Free()

    def _gather_and_combine(self, x: Array, out: Array, op: Reduction) -> Issued:
        """Reduce little: everyone gets everything, in one phase."""
        parts = np.empty((self._size, *x.shape), x.dtype)
        request = self._comm.Iallgather([as_bytes(x), self._byte], [as_bytes(parts), self._byte])
        return Issued([request], self._watch, lambda: combine(_split(parts), op, out))

    def _exchange_and_combine(self, x: Array, out: Array, op: Reduction) -> Generator[Phase, None, None]:
        """Reduce much, piece by piece: everyone combines its share of the elements and gives it to all."""
        n, rank, width = self._size, self._rank, x.dtype.itemsize
        pieces, targets = cut(x, self._piece), cut(out, self._piece)
        for i, (piece, target) in enumerate(zip(pieces, targets, strict=True)):
            filled = target.reshape(-1)
            bounds = [piece.size * part // n for part in range(n + 1)]
            counts = [(end - begin) * width for begin, end in pairwise(bounds)]
            places = [begin * width for begin in bounds[:-1]]
            share = bounds[rank + 1] - bounds[rank]
            parts = np.empty((n, share), x.dtype)
            yield (
                [
                    self._comm.Ialltoallv(
                        [as_bytes(piece), (counts, places), self._byte],
                        [as_bytes(parts), ([share * width] * n, None), self._byte],
                    )
                ],
                True,
            )
            combine(_split(parts), op, filled[bounds[rank] : bounds[rank + 1]])
            yield (
                [self._comm.Iallgatherv(self._in_place, [as_bytes(filled), (counts, places), self._byte])],
                i + 1 < len(pieces),
            )

    def _collect_and_combine(
        self, x: Array, out: Array | None, op: Reduction, root: int
    ) -> Generator[Phase, None, None]:
        """Reduce on one rank, piece by piece."""
        pieces = cut(x, self._piece)
        targets = pieces if out is None else cut(out, self._piece)
        for i, (piece, filled) in enumerate(zip(pieces, targets, strict=True)):
            parts = None if out is None else np.empty((self._size, *piece.shape), x.dtype)
            yield self._collect(piece, parts, root), i + 1 < len(pieces)
            if parts is not None:
                combine(_split(parts), op, filled)

    def _collect(self, x: Array, out: Array | None, root: int) -> list[MPI.Request]:
        sent = as_bytes(x)
        if sent.size * self._size <= self._chunk:
            if out is None:
                return [self._comm.Igather([sent, self._byte], None, root)]
            source = self._in_place if np.may_share_memory(x, out) else [sent, self._byte]
            return [self._comm.Igather(source, [as_bytes(out), self._byte], root)]
        if out is None:
            return self._messages([(root, sent)], [])
        rows = _rows(out)
        if not np.may_share_memory(x, out):
            rows[root] = sent
        return self._messages([], [(i, rows[i]) for i in self._others()])

    def _swap(self, x: Array, out: Array) -> list[MPI.Request]:
        if x.nbytes <= self._chunk:
            return [self._comm.Ialltoall([as_bytes(x), self._byte], [as_bytes(out), self._byte])]
        sent, rows = _rows(x), _rows(out)
        rows[self._rank] = sent[self._rank]
        others = self._others()
        return self._messages([(i, sent[i]) for i in others], [(i, rows[i]) for i in others])

    def _messages(
        self, sends: Sequence[tuple[int, Array]], receives: Sequence[tuple[int, Array]]
    ) -> list[MPI.Request]:
        """Send and receive bytes point to point, in messages that MPI can count."""
        requests = [
            self._comm.Irecv([piece, self._byte], peer)
            for peer, filled in receives
            for piece in cut(filled, self._chunk)
        ]
        requests += [
            self._comm.Isend([piece, self._byte], peer)
            for peer, sent in sends
            for piece in cut(sent, self._chunk)
        ]
        return requests

    def _other_size(self, sender: int, came: str) -> str:
        return (
            f"ranks disagree on the sizes of what they exchange: rank {self._ranks[self._rank]} received "
            f"{came} from rank {self._ranks[sender]}."
        )

    def _others(self) -> list[int]:
        return [(self._rank + i) % self._size for i in range(1, self._size)]

    def _averaging(self, out: Array) -> Callable[[], object]:
        return lambda: divide(out, self._size)


def _rows(x: Array) -> Array:
    return x.reshape(x.shape[0], -1).view(np.uint8) if x.size else np.empty((x.shape[0], 0), np.uint8)


def _split(parts: Array) -> list[Array]:
    return [parts[i, ...] for i in range(parts.shape[0])]
