"""Where everything lies: in the memory that ranks share, and in the numbers that a rank keeps about its ring.

Each rank of a group on one host has a segment, which the others map. It holds a counter of how far the rank
has come, what it says of the operation that it is in (its header), and room for data on their way. The
counter rises through all operations; that one rank has reached a number is all that another ever waits for.
"""

from __future__ import annotations

__all__: list[str] = []

# In a segment, in bytes. What different ranks write at different times is on lines of its own.
COUNTER, SLEEPERS = 0, 64
HEADERS, HEADER_STEP = 128, 128  # two, used by turns
EAGER = 4096  # two rooms, used by turns, for data that are sent along with the header
EAGER_ROOM = 1 << 15
CHUNKS = EAGER + 2 * EAGER_ROOM  # two rooms, used by turns, for the chunks of large data
CHUNK_ROOM = 1 << 18
SEGMENT = CHUNKS + 2 * CHUNK_ROOM

STREAM = 1 << 22  # bytes from which a result is written past the caches

PIECE = 1 << 16  # of a rank's array, copied to be reduced

# In a header, in numbers of eight bytes.
H_CALL, H_NBYTES, H_X_REGION, H_X_OFFSET, H_OUT_REGION, H_OUT_OFFSET, H_X_ADDRESS, H_OUT_ADDRESS = range(8)

# In the state of a ring: an array of int64.
(
    RANK,
    SIZE,
    CALL,  # what is called, in one number: equal on all ranks, or they disagree
    KIND,
    ROOT,
    FOLD,  # address of the loop that reduces
    WIDTH,  # bytes of one element of it
    NBYTES,  # of what belongs to one rank
    X,
    X_BYTES,  # 0 where the rank gives nothing
    OUT,
    OUT_BYTES,  # 0 where the rank gets nothing
    PATH,
    PHASE,
    TURN,  # number of the operation
    BASE,  # counter at its begin
    NEXT,  # counter at the begin of the next one
    STEP,
    DONE_BYTES,
    CHUNK,
    CHUNKS_LEFT,
    MODE,
    WAIT_PEER,
    WAIT_VALUE,
    REGIONS,  # address of the table of symmetric regions
    REGIONS_BEGIN,
    REGIONS_END,
    REGION_HIT,
    SCRATCH,  # address of a block
    SAID,  # what the last call said, for a rank that was interrupted as it was told
    LIMIT,  # address of a timespec, and behind it of an iovec pair
    MEET_SPIN,  # turns in which a rank that begins looks for the others
    MEET_YIELDS,  # and those with the core left to others
    SPIN,  # the same for those that work on the operation
    YIELDS,
    FIXED,
) = range(36)
# Behind FIXED: for each rank the address of its segment; how far it was seen; a source; its process.

# Rows of the table of regions: bytes (0 once freed), then the address of each rank's part.
REGION_HEAD = 1

# Behind the elements of a region: a cell for every rank that signals to this one, and every channel.
SIGNAL_CHANNELS = 8
SIGNAL_CELL, SIGNAL_SLEEPERS, SIGNAL_TAKEN = 64, 8, 16

KINDS = (
    "barrier",
    "all_reduce",
    "reduce",
    "reduce_scatter",
    "all_gather",
    "gather",
    "all_to_all",
    "broadcast",
    "scatter",
    "exchange",
)
(
    BARRIER,
    ALL_REDUCE,
    REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    GATHER,
    ALL_TO_ALL,
    BROADCAST,
    SCATTER,
    EXCHANGE,
) = range(10)

# How an operation goes, once all have come.
# `PLACED` ends there: each rank has said along with its header where its result lies.
AT_ONCE, STAGED, ONE_COPY, BY_MPI, DIRECT, PLACED = range(6)

# Phases, and what a call of the ring says.
IDLE, MEETING, RUNNING = range(3)
WAITING, ENDED, ELSEWHERE, MORE = range(4)  # below 0: -1 - rank that disagrees
