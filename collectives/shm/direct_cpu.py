"""An operation on arrays that all can reach: in memory they share, or one copy from another process's memory.

Nothing is staged: whoever makes a part of a result reads it where it lies, and writes it where it belongs.
The operation begins when all have come, and ends when all are done with the others' arrays.
"""

from __future__ import annotations

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import device
from shardwise.collectives.shm import place as at
from shardwise.collectives.shm.atomic_cpu import call_fold, copy, read_process, stream
from shardwise.collectives.shm.fold_cpu import BLOCK
from shardwise.collectives.shm.ring_cpu import all_arrived, in_region, post, said, source_place

__all__ = ["FAILED", "advance_direct", "begin_direct", "choose_direct"]

FAILED = -1000
"""That the memory of another process could not be read."""

_PULL, _PUSH, _REDUCE_HERE, _REDUCE_EVERYWHERE, _REDUCE_COPIES = range(1, 6)
_TURN = 1 << 25  # bytes in one call, so that signals are seen
_PIECE = at.PIECE


@device(exact=True)
def choose_direct(s: Array) -> int:
    """How an operation can go over symmetric memory by what all have said, alike on all ranks; 0 if not."""
    kind = s[at.KIND]
    if s[at.FOLD] == 0 and kind in (at.ALL_REDUCE, at.REDUCE, at.REDUCE_SCATTER):
        return 0
    xs, outs = _alike(s, at.H_X_REGION, at.H_X_REGION), _alike(s, at.H_OUT_REGION, at.H_OUT_REGION)
    if kind == at.ALL_REDUCE and outs:
        return _REDUCE_EVERYWHERE if xs else _REDUCE_COPIES
    if kind in (at.ALL_REDUCE, at.REDUCE, at.REDUCE_SCATTER):
        return _REDUCE_HERE if xs and not (kind == at.ALL_REDUCE and _is_in_place(s)) else 0
    if kind == at.BROADCAST or kind == at.SCATTER:
        return _PULL if _alike(s, at.H_OUT_REGION, at.H_X_REGION) else 0
    if xs:
        return _PULL
    return _PUSH if outs and kind != at.GATHER else 0


@device(exact=True)
def _alike(s: Array, word: int, word_of_root: int) -> bool:
    """Whether all ranks name one region: only one that this rank has itself is sure to be mapped."""
    region = said(s, s[at.ROOT], word_of_root)
    for rank in range(s[at.SIZE]):
        if said(s, rank, word_of_root if rank == s[at.ROOT] else word) != region:
            return False
    return region >= 0


@device(exact=True)
def _is_in_place(s: Array) -> bool:
    """Whether a rank writes where others would still read."""
    found = False
    for rank in range(s[at.SIZE]):
        found = found or said(s, rank, at.H_X_ADDRESS) == said(s, rank, at.H_OUT_ADDRESS)
    return found


@device(exact=True)
def begin_direct(s: Array, mode: int) -> None:
    """Begin; without a mode, by copies from the memory of the other processes."""
    s[at.PATH] = at.DIRECT if mode else at.ONE_COPY
    s[at.MODE] = mode
    if not mode:
        s[at.MODE] = _REDUCE_HERE if s[at.KIND] in (at.REDUCE, at.REDUCE_SCATTER) else _PULL
    s[at.STEP] = 0
    s[at.DONE_BYTES] = 0
    s[at.NEXT] = s[at.BASE] + (3 if mode == _REDUCE_COPIES else 2)


@device(exact=True)
def advance_direct(s: Array, spin: int, yields: int) -> int:
    """Go on as far as the others let."""
    mode = s[at.MODE]
    if s[at.STEP] == 0:
        if mode == _REDUCE_COPIES:  # what is reduced lies where the result will
            if s[at.X] != s[at.OUT]:
                copy(s[at.OUT], s[at.X], s[at.NBYTES])
            post(s, s[at.BASE] + 2)
        s[at.STEP] = 1
    if s[at.STEP] == 1:
        if mode == _REDUCE_COPIES and not all_arrived(s, s[at.BASE] + 2, spin, yields):
            return at.WAITING
        s[at.STEP] = 2
    if s[at.STEP] == 2:
        if mode in (_PULL, _PUSH):
            status = _move(s)
        else:
            status = _reduce(s)
        if status != at.ENDED:
            return status
        post(s, s[at.NEXT])
        s[at.STEP] = 3
    return at.ENDED if all_arrived(s, s[at.NEXT], spin, yields) else at.WAITING


@device(exact=True)
def _reduce(s: Array) -> int:
    """Reduce this rank's slice for all, or all that it wants for itself."""
    kind, rank, size, nbytes, mode = s[at.KIND], s[at.RANK], s[at.SIZE], s[at.NBYTES], s[at.MODE]
    low, high, skipped = 0, nbytes, 0
    everywhere = mode != _REDUCE_HERE
    if everywhere:
        part = (-(-nbytes // size) + 63) // 64 * 64
        low, high = min(rank * part, nbytes), min((rank + 1) * part, nbytes)
    elif kind == at.REDUCE_SCATTER:
        skipped = rank * nbytes
    elif kind == at.REDUCE and rank != s[at.ROOT]:
        return at.ENDED
    begin = low + s[at.DONE_BYTES]
    end = min(high, begin + _TURN)
    if s[at.PATH] == at.DIRECT:
        _reduce_stretch(s, begin, end, skipped, everywhere)
    else:
        for piece in range(begin, end, _PIECE):
            stop = min(end, piece + _PIECE)
            for peer in range(size):
                source = said(s, peer, at.H_X_ADDRESS) + skipped + piece
                pid = s[at.FIXED + 3 * size + peer]
                if peer != rank and not read_process(
                    pid, _copied(s, peer), source, stop - piece, s[at.LIMIT] + 16
                ):
                    return FAILED
            _reduce_stretch(s, piece, stop, skipped, everywhere)
    s[at.DONE_BYTES] = end - low
    return at.ENDED if end >= high else at.MORE


@device(exact=True)
def _copied(s: Array, rank: int) -> int:
    """Where a piece of the array of a rank that cannot be reached is copied to."""
    place: int = s[at.SCRATCH] + BLOCK + rank * _PIECE
    return place


@device(exact=True)
def _reduce_stretch(s: Array, begin: int, end: int, skipped: int, everywhere: bool) -> None:
    """Reduce in blocks that stay in the first cache."""
    rank, size = s[at.RANK], s[at.SIZE]
    word = at.H_OUT_REGION if s[at.MODE] == _REDUCE_COPIES else at.H_X_REGION
    table = source_place(s, 0)
    for block in range(begin, end, BLOCK):
        length = min(BLOCK, end - block)
        for peer in range(size):
            if s[at.PATH] == at.DIRECT:
                s[table + peer] = in_region(s, peer, word) + skipped + block
            elif peer == rank:
                s[table + peer] = s[at.X] + skipped + block
            else:
                s[table + peer] = _copied(s, peer) + block - begin
        out = s[at.OUT] + block
        # Of more than two, one is read when the target holds a sum already; it may not be the target.
        target = out if size == 2 else s[at.SCRATCH]
        call_fold(s[at.FOLD], target, s.ctypes.data + 8 * table, size, length // s[at.WIDTH])
        if target != out:
            copy(out, target, length)
        if everywhere:
            for peer in range(size):
                if peer != rank:
                    copy(in_region(s, peer, at.H_OUT_REGION) + block, target, length)


@device(exact=True)
def _move(s: Array) -> int:
    """Copy from, or to, one rank after the other; a step of `DONE_BYTES` is what goes in one call."""
    kind, rank, size, root, nbytes = s[at.KIND], s[at.RANK], s[at.SIZE], s[at.ROOT], s[at.NBYTES]
    left = _TURN
    while left > 0:
        step = s[at.DONE_BYTES] // nbytes
        if step >= size:
            return at.ENDED
        peer = (rank + step) % size
        begin = s[at.DONE_BYTES] - step * nbytes
        length = min(left, nbytes - begin)
        s[at.DONE_BYTES] += length
        if kind == at.BROADCAST or kind == at.SCATTER:
            if peer != root or (kind == at.BROADCAST and rank == root):
                continue
        elif kind == at.GATHER and rank != root:
            continue
        left -= length
        if s[at.MODE] == _PUSH:
            source = s[at.X] + (peer * nbytes if kind == at.ALL_TO_ALL else 0) + begin
            target = s[at.OUT] if peer == rank else in_region(s, peer, at.H_OUT_REGION)
            target += rank * nbytes + begin
            if source != target:
                _deliver(target, source, length, nbytes)
            continue
        target = s[at.OUT] + begin
        if kind in (at.ALL_GATHER, at.ALL_TO_ALL, at.GATHER):
            target += peer * nbytes
        skipped = (rank * nbytes if kind == at.ALL_TO_ALL or kind == at.SCATTER else 0) + begin
        if peer == rank:
            if s[at.X] + skipped != target:
                _deliver(target, s[at.X] + skipped, length, nbytes)
        elif s[at.PATH] == at.DIRECT:
            _deliver(target, in_region(s, peer, at.H_X_REGION) + skipped, length, nbytes)
        else:
            pid = s[at.FIXED + 3 * size + peer]
            if not read_process(
                pid, target, said(s, peer, at.H_X_ADDRESS) + skipped, length, s[at.LIMIT] + 16
            ):
                return FAILED
    return at.MORE


@device(exact=True)
def _deliver(target: int, source: int, length: int, nbytes: int) -> None:
    """Copy a part of `nbytes`; past the caches where the whole would not stay in them."""
    if nbytes >= at.STREAM:
        stream(target, source, length)
    else:
        copy(target, source, length)
