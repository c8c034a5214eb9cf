"""What all operations of a ring of ranks share: to come further, to wait, to say what is called."""

from __future__ import annotations

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import device
from shardwise.collectives.shm import place as at
from shardwise.collectives.shm.atomic_cpu import (
    copy,
    futex_wake,
    load32,
    load64,
    numbers,
    relax,
    store64,
    yield_core,
)

__all__ = [
    "all_arrived",
    "arrived",
    "disagreeing",
    "eager_room",
    "header",
    "in_region",
    "post",
    "said",
    "segment",
    "source_place",
    "write_header",
]


@device(exact=True)
def segment(s: Array, rank: int) -> int:
    """Where the segment of a rank begins."""
    place: int = s[at.FIXED + rank]
    return place


@device(exact=True)
def source_place(s: Array, rank: int) -> int:
    """Index in the state at which the source of a rank is written for a fold."""
    index: int = at.FIXED + 2 * s[at.SIZE] + rank
    return index


@device(exact=True)
def post(s: Array, value: int) -> None:
    """Say that this rank has come so far, and wake those that sleep until it has."""
    mine = segment(s, s[at.RANK])
    store64(mine + at.COUNTER, value)
    if load32(mine + at.SLEEPERS) != 0:
        futex_wake(mine + at.COUNTER)


@device(exact=True)
def arrived(s: Array, rank: int, value: int, spin: int, yields: int) -> bool:
    """Whether a rank has come so far; looked at for `spin` turns, and as many with the core left to others.

    Where it has not, the state says whom to wait for.
    """
    seen = at.FIXED + s[at.SIZE] + rank
    if s[seen] >= value:
        return True
    place = segment(s, rank) + at.COUNTER
    turns = 0
    while True:
        now = load64(place)
        if now >= value:
            s[seen] = now
            return True
        if turns < spin:
            relax()
        elif turns < spin + yields:
            yield_core()
        else:
            s[at.WAIT_PEER] = rank
            s[at.WAIT_VALUE] = value
            return False
        turns += 1


@device(exact=True)
def all_arrived(s: Array, value: int, spin: int, yields: int) -> bool:
    """Whether all ranks have come so far."""
    rank, size = s[at.RANK], s[at.SIZE]
    for step in range(1, size):
        peer = rank + step
        if not arrived(s, peer - size if peer >= size else peer, value, spin, yields):
            return False
    return True


@device(exact=True)
def header(s: Array, rank: int) -> int:
    """Where the header of a rank for this operation is."""
    place: int = segment(s, rank) + at.HEADERS + (s[at.TURN] & 1) * at.HEADER_STEP
    return place


@device(exact=True)
def said(s: Array, rank: int, word: int) -> int:
    """Read a number of a rank's header."""
    number: int = numbers(header(s, rank), 8)[word]
    return number


@device(exact=True)
def eager_room(s: Array, rank: int) -> int:
    """Where the data are that a rank has sent along with its header."""
    place: int = segment(s, rank) + at.EAGER + (s[at.TURN] & 1) * at.EAGER_ROOM
    return place


@device(exact=True)
def disagreeing(s: Array) -> int:
    """Give a rank that calls something else than this one, or -1."""
    for rank in range(s[at.SIZE]):
        if said(s, rank, at.H_CALL) != s[at.CALL] or said(s, rank, at.H_NBYTES) != s[at.NBYTES]:
            return rank
    return -1


@device(exact=True)
def write_header(s: Array) -> None:
    """Say what this rank calls, and where its arrays are; send small data along."""
    mine = numbers(header(s, s[at.RANK]), 8)
    mine[at.H_CALL] = s[at.CALL]
    mine[at.H_NBYTES] = s[at.NBYTES]
    if s[at.PATH] == at.AT_ONCE or s[at.PATH] == at.PLACED:
        if s[at.X_BYTES] > 0:
            copy(eager_room(s, s[at.RANK]), s[at.X], s[at.X_BYTES])
        return
    _find_region(s, s[at.X], s[at.X_BYTES], at.H_X_REGION, mine)
    _find_region(s, s[at.OUT], s[at.OUT_BYTES], at.H_OUT_REGION, mine)
    mine[at.H_X_ADDRESS] = s[at.X]
    mine[at.H_OUT_ADDRESS] = s[at.OUT]


@device(exact=True)
def _find_region(s: Array, place: int, nbytes: int, word: int, mine: Array) -> None:
    """Write which symmetric region holds an array, and where in it; -1 if none does."""
    mine[word] = -1
    if nbytes == 0:
        return
    row = at.REGION_HEAD + s[at.SIZE]
    first, end, hit = s[at.REGIONS_BEGIN], s[at.REGIONS_END], s[at.REGION_HIT]
    for turn in range(first - 1, end):
        region = hit if turn < first else turn
        if region < first or region >= end:
            continue
        place_of = numbers(s[at.REGIONS] + 8 * row * region, row)
        begin = place_of[at.REGION_HEAD + s[at.RANK]]
        if begin <= place and place + nbytes <= begin + place_of[0]:
            mine[word] = region
            mine[word + 1] = place - begin
            s[at.REGION_HIT] = region
            return


@device(exact=True)
def in_region(s: Array, rank: int, word: int) -> int:
    """Where the array is that the header of a rank names at `word`, as this process sees it."""
    theirs = numbers(header(s, rank), 8)
    region = theirs[word]
    row = at.REGION_HEAD + s[at.SIZE]
    begin: int = numbers(s[at.REGIONS] + 8 * row * region, row)[at.REGION_HEAD + rank]
    return begin + int(theirs[word + 1])
