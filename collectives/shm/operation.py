"""One operation of a ring, which its lane tests and its rank waits for."""

from __future__ import annotations

from collections.abc import Callable

from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveError
from shardwise.collectives.pending import Pending
from shardwise.collectives.shm import place as at
from shardwise.collectives.shm.patience import Patience

__all__ = ["Call", "Operation"]

Call = Callable[..., int]


class Operation:
    """Pending: what the compiled call has begun and not ended.

    Parameters
    ----------
    status : int
        What the call has said.
    run : callable
        The compiled call.
    state : array of int64
        Of the ring.
    patience : Patience
    disagree : callable
        Gives the error for a rank that calls something else.
    elsewhere : callable or None
        Issues the operation to MPI once all have come.
    """

    __slots__ = ("_disagree", "_elsewhere", "_inner", "_patience", "_run", "_state", "_status", "open")

    def __init__(
        self,
        status: int,
        run: Call,
        state: Array,
        patience: Patience,
        disagree: Callable[[int], CollectiveError],
        elsewhere: Callable[[], Pending] | None,
    ) -> None:
        self.open = True
        self._run = run
        self._state = state
        self._patience = patience
        self._disagree = disagree
        self._elsewhere = elsewhere
        self._inner: Pending | None = None
        self._status = status

    def test(self) -> bool:
        if self._inner is not None:
            return self._advance(self._inner)
        status = self._status
        if status != at.ELSEWHERE and status >= 0 and status != at.ENDED:
            status = self._status = self._run(self._state, -1, 0, 0, 0, 0, 0, 0)
        if status == at.ENDED:
            self.open = False
            return True
        if status < 0:
            self.open = False
            raise self._disagree(-1 - status)
        if status == at.ELSEWHERE and self._elsewhere is not None:
            self._inner = self._elsewhere()
            return self._advance(self._inner)
        return False

    def pause(self, waited: float, expected: float) -> None:
        if self._inner is not None:
            self._inner.pause(waited, expected)
        elif self._status != at.MORE:
            self._patience.pause(self._state, waited, expected)

    def _advance(self, inner: Pending) -> bool:
        ended = inner.test()
        self.open = not ended and inner.open
        return ended
