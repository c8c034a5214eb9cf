"""An operation on much data in arrays of a process's own: in chunks, through rooms that others read.

Chunk k is put into the rank's own room, then combined (reduced, or taken out of the others' rooms), and a
reduction is then fetched from those that made its parts. While a chunk is combined the next one is already
put. The counter rises by one with every put and every combining, so that it says how far a rank is:
put 0, put 1, combined 0, put 2, combined 1, and so on.

A rank reduces its own slice of each chunk, in blocks that stay in the first cache, and copies a block out at
once: two streams of stores in one loop take 2.5 times as long. Of two ranks each leaves its results in the
room of the other, from which it has just read.
"""

from __future__ import annotations

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import device
from shardwise.collectives.shm import place as at
from shardwise.collectives.shm.atomic_cpu import call_fold, copy
from shardwise.collectives.shm.fold_cpu import BLOCK
from shardwise.collectives.shm.ring_cpu import all_arrived, post, segment, source_place

__all__ = ["advance_staged", "begin_staged"]

_TURNS = 64  # chunks in one call, so that signals are seen


@device(exact=True)
def begin_staged(s: Array) -> None:
    """Cut into equal chunks."""
    kind, nbytes, size = s[at.KIND], s[at.NBYTES], s[at.SIZE]
    room = at.CHUNK_ROOM
    if kind in (at.REDUCE_SCATTER, at.ALL_TO_ALL, at.SCATTER):
        room = at.CHUNK_ROOM // size // 64 * 64
    number = -(-nbytes // room)
    s[at.CHUNK] = -(-nbytes // (64 * number)) * 64
    s[at.CHUNKS_LEFT] = -(-nbytes // s[at.CHUNK])
    s[at.STEP] = 0
    s[at.NEXT] = s[at.BASE] + 2 + 2 * s[at.CHUNKS_LEFT]


@device(exact=True)
def advance_staged(s: Array, spin: int, yields: int) -> int:
    """Go on as far as the others let; step 3 k + 0, 1, 2 puts chunk k, combines and fetches chunk k - 1."""
    first, number = s[at.BASE] + 1, s[at.CHUNKS_LEFT]
    reduces_all = s[at.KIND] == at.ALL_REDUCE or s[at.KIND] == at.REDUCE
    last = s[at.STEP] + 3 * _TURNS
    while s[at.STEP] < last:
        k, phase = s[at.STEP] // 3, s[at.STEP] % 3
        if phase == 0:
            if k < number:
                if k >= 2 and not all_arrived(s, first + 2 * k - 1, spin, yields):  # combined k - 2
                    return at.WAITING
                _put(s, k)
            post(s, first + max(2 * k, 1))
        elif k > 0:
            if phase == 1:
                if not all_arrived(s, first + max(2 * (k - 1), 1), spin, yields):  # put k - 1
                    return at.WAITING
                if reduces_all:
                    _reduce(s, k - 1)
                else:
                    _take(s, k - 1)
                post(s, first + 2 * k + 1)
            else:
                if reduces_all:
                    if not all_arrived(s, first + 2 * k + 1, spin, yields):
                        return at.WAITING
                    _fetch(s, k - 1)
                if k == number:
                    return at.ENDED
        s[at.STEP] += 1
    return at.MORE


@device(exact=True)
def _room(s: Array, rank: int, k: int) -> int:
    return segment(s, rank) + at.CHUNKS + (k & 1) * at.CHUNK_ROOM


@device(exact=True)
def _slice(s: Array, rank: int, length: int) -> tuple[int, int]:
    """The part of a chunk that a rank reduces: the same bytes of a full chunk and of a shorter last one."""
    part = (-(-s[at.CHUNK] // s[at.SIZE]) + 63) // 64 * 64
    return min(rank * part, length), min((rank + 1) * part, length)


@device(exact=True)
def _put(s: Array, k: int) -> None:
    kind, rank, root, size = s[at.KIND], s[at.RANK], s[at.ROOT], s[at.SIZE]
    begin = k * s[at.CHUNK]
    length = min(s[at.CHUNK], s[at.NBYTES] - begin)
    room, source = _room(s, rank, k), s[at.X] + begin
    if kind == at.ALL_REDUCE or kind == at.REDUCE:
        low, high = _slice(s, rank, length)
        if low > 0:
            copy(room, source, low)
        if high < length:
            copy(room + high, source + high, length - high)
    elif (
        kind == at.ALL_GATHER
        or (kind == at.GATHER and rank != root)
        or (kind == at.BROADCAST and rank == root)
    ):
        copy(room, source, length)
    elif kind in (at.REDUCE_SCATTER, at.ALL_TO_ALL) or (kind == at.SCATTER and rank == root):
        for peer in range(size):
            if peer != rank:
                copy(room + peer * s[at.CHUNK], source + peer * s[at.NBYTES], length)


@device(exact=True)
def _reduce(s: Array, k: int) -> None:
    rank, size = s[at.RANK], s[at.SIZE]
    begin = k * s[at.CHUNK]
    low, high = _slice(s, rank, min(s[at.CHUNK], s[at.NBYTES] - begin))
    left = _room(s, 1 - rank if size == 2 else rank, k)
    wanted = s[at.KIND] == at.ALL_REDUCE or rank == s[at.ROOT]
    table = source_place(s, 0)
    for block in range(low, high, BLOCK):
        part = min(BLOCK, high - block)
        for peer in range(size):
            s[table + peer] = s[at.X] + begin + block if peer == rank else _room(s, peer, k) + block
        out = s[at.OUT] + begin + block
        # Of more than two, one is read when the target holds a sum already; it may not be the target.
        target = out if wanted and size == 2 else s[at.SCRATCH]
        call_fold(s[at.FOLD], target, s.ctypes.data + 8 * table, size, part // s[at.WIDTH])
        if wanted and target != out:
            copy(out, target, part)
        copy(left + block, target, part)


@device(exact=True)
def _fetch(s: Array, k: int) -> None:
    rank, size = s[at.RANK], s[at.SIZE]
    if s[at.KIND] == at.REDUCE and rank != s[at.ROOT]:
        return
    begin = k * s[at.CHUNK]
    length = min(s[at.CHUNK], s[at.NBYTES] - begin)
    for step in range(1, size):
        peer = (rank + step) % size
        low, high = _slice(s, peer, length)
        if high > low:
            copy(s[at.OUT] + begin + low, _room(s, rank if size == 2 else peer, k) + low, high - low)


@device(exact=True)
def _take(s: Array, k: int) -> None:
    kind, rank, root, size, nbytes = s[at.KIND], s[at.RANK], s[at.ROOT], s[at.SIZE], s[at.NBYTES]
    begin = k * s[at.CHUNK]
    length = min(s[at.CHUNK], nbytes - begin)
    out = s[at.OUT] + begin
    if kind == at.ALL_GATHER or (kind == at.GATHER and rank == root):
        for step in range(size):
            peer = (rank + step) % size
            target = out + peer * nbytes
            if peer != rank:
                copy(target, _room(s, peer, k), length)
            elif target != s[at.X] + begin:
                copy(target, s[at.X] + begin, length)
    elif kind == at.BROADCAST and rank != root:
        copy(out, _room(s, root, k), length)
    elif kind == at.SCATTER:
        if rank != root:
            copy(out, _room(s, root, k) + rank * s[at.CHUNK], length)
        elif out != s[at.X] + rank * nbytes + begin:
            copy(out, s[at.X] + rank * nbytes + begin, length)
    elif kind == at.ALL_TO_ALL:
        for step in range(size):
            peer = (rank + step) % size
            if peer == rank:
                copy(out + rank * nbytes, s[at.X] + rank * nbytes + begin, length)
            else:
                copy(out + peer * nbytes, _room(s, peer, k) + rank * s[at.CHUNK], length)
    elif kind == at.REDUCE_SCATTER:
        table = source_place(s, 0)
        for block in range(0, length, BLOCK):
            part = min(BLOCK, length - block)
            for peer in range(size):
                own = s[at.X] + rank * nbytes + begin
                s[table + peer] = (own if peer == rank else _room(s, peer, k) + rank * s[at.CHUNK]) + block
            # As in _reduce: out may be this rank's own part of x.
            target = out + block if size == 2 else s[at.SCRATCH]
            call_fold(s[at.FOLD], target, s.ctypes.data + 8 * table, size, part // s[at.WIDTH])
            if size > 2:
                copy(out + block, target, part)
