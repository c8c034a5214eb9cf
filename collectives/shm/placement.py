"""A collective whose parts each rank lays into the results of the others, between two meetings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from shardwise.backend.array import Array
from shardwise.collectives.pending import Pending
from shardwise.collectives.placing import Lay, Placing
from shardwise.collectives.shm.arena import Block

__all__ = ["Placement"]


class Placement:
    """Pending: all say where their results are to lie, lay what they have, and meet again.

    What was begun can be taken up again after an interrupt: to lay the pieces twice changes nothing.

    Parameters
    ----------
    placing : Placing
    block : Block or None
        Where this rank's result is to lie.
    meeting : Pending
        In which all say so.
    told : callable
        Gives what they have said, when that has ended: a row for each rank.
    reach : callable
        Gives the bytes of a rank that lie where it says.
    lay : callable
        Copies the pieces to where they belong.
    ordinary : callable
        Begins the collective the ordinary way.
    barrier : callable
        Begins the second meeting.
    """

    def __init__(
        self,
        placing: Placing,
        block: Block | None,
        meeting: Pending,
        told: Callable[[], Sequence[Sequence[int]]],
        reach: Callable[[int, Sequence[int], int], Array],
        lay: Lay,
        ordinary: Callable[[], Pending],
        barrier: Callable[[], Pending],
    ) -> None:
        self._placing = placing
        self._block = block
        self._told = told
        self._reach = reach
        self._lay = lay
        self._ordinary = ordinary
        self._barrier = barrier
        self._now = meeting
        self._last = False

    @property
    def open(self) -> bool:
        """Whether more may be issued."""
        return not self._last or self._now.open

    def test(self) -> bool:
        while self._now.test():
            if self._last:
                return True
            placing, block, told = self._placing, self._block, self._told()
            if block is None or any(each[0] < 0 for each in told):
                self._now, self._last = self._ordinary(), True
                continue
            results: list[Array] = []
            for member, (shape, where) in enumerate(zip(placing.shapes, told, strict=True)):
                nbytes = math.prod(shape) * placing.dtype.itemsize
                whole = block.bytes() if member == placing.rank else self._reach(member, where, nbytes)
                results.append(whole.view(placing.dtype).reshape(shape))
            self._lay(placing.pieces, results)
            placing.out = results[placing.rank]
            self._now, self._last = self._barrier(), True
        return False

    def pause(self, waited: float, expected: float) -> None:
        self._now.pause(waited, expected)
