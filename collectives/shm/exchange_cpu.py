"""An operation on little data: all send it along with their header, and each takes what it wants."""

from __future__ import annotations

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import device
from shardwise.collectives.shm import place as at
from shardwise.collectives.shm.atomic_cpu import call_fold, copy
from shardwise.collectives.shm.fold_cpu import BLOCK
from shardwise.collectives.shm.ring_cpu import eager_room, source_place

__all__ = ["finish_at_once"]


@device(exact=True)
def finish_at_once(s: Array) -> None:
    """Make the result of what all have sent along."""
    kind, nbytes, rank, size, root = s[at.KIND], s[at.NBYTES], s[at.RANK], s[at.SIZE], s[at.ROOT]
    out = s[at.OUT]
    if nbytes == 0:
        return
    if kind in (at.ALL_REDUCE, at.REDUCE_SCATTER) or (kind == at.REDUCE and rank == root):
        skipped = rank * nbytes if kind == at.REDUCE_SCATTER else 0
        table = source_place(s, 0)
        for begin in range(0, nbytes, BLOCK):
            for peer in range(size):
                s[table + peer] = eager_room(s, peer) + skipped + begin
            part = min(BLOCK, nbytes - begin)
            call_fold(s[at.FOLD], out + begin, s.ctypes.data + 8 * table, size, part // s[at.WIDTH])
    elif kind == at.ALL_GATHER or (kind == at.GATHER and rank == root):
        for peer in range(size):
            target = out + peer * nbytes
            if peer != rank or target != s[at.X]:
                copy(target, eager_room(s, peer), nbytes)
    elif kind == at.ALL_TO_ALL:
        for peer in range(size):
            copy(out + peer * nbytes, eager_room(s, peer) + rank * nbytes, nbytes)
    elif kind == at.BROADCAST and rank != root:
        copy(out, eager_room(s, root), nbytes)
    elif kind == at.SCATTER:
        copy(out, eager_room(s, root) + rank * nbytes, nbytes)
