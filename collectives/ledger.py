"""The ledger: one record for whatever moves between ranks. `explain` reads a stretch of it."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Any

import numpy as np

from shardwise.backend.source import Place, spell_place
from shardwise.collectives.table import COLLECTIVES

__all__ = ["Ledger", "Record", "implicit", "is_implicit"]

_RING = 1000  # records that a world keeps when nobody is listening
_RUNNING = float("nan")

_implicit: ContextVar[bool] = ContextVar("shardwise_implicit", default=False)
is_implicit = _implicit.get


@contextmanager
def implicit() -> Iterator[None]:
    """Mark whatever the block communicates as asked for by nobody: a layout conversion, a bucket."""
    token = _implicit.set(True)
    try:
        yield
    finally:
        _implicit.reset(token)


class Record:
    """One operation of one rank, written when it is issued and completed when it ends.

    Attributes
    ----------
    op : str
        Name in `COLLECTIVES`, or that of an object form, such as ``all_gather_object``.
    seq : int
        Number of the operation in its group (point-to-point: in the world), from 0.
    group : str
        Name of the group, or ``"0 -> 1"`` for a message.
    size : int
        Ranks in the group.
    dtype : numpy.dtype
    shape : tuple of int
        Of this rank's input (`broadcast`, `recv` and `scatter`: of the buffer that is filled).
    implicit : bool
        Whether nobody asked for it by name (a layout conversion, a gradient bucket).
    how : str, int or None
        The reduction, or the global rank that is special: the source, the destination.
    start, end : float
        Seconds, by ``time.perf_counter``; `end` is NaN while the operation runs.
    """

    __slots__ = ("_place", "dtype", "end", "group", "how", "implicit", "op", "seq", "shape", "size", "start")

    # Written before each operation: as few steps as possible, and whatever can be found out later is.
    def __init__(
        self,
        op: str,
        seq: int,
        group: str,
        size: int,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        implicit: bool = False,
        how: str | int | None = None,
        place: Place | str = "",
    ) -> None:
        self.op = op
        self.seq = seq
        self.group = group
        self.size = size
        self.dtype = dtype
        self.shape = shape
        self.implicit = implicit
        self.how = how
        self._place = place
        self.end = _RUNNING
        self.start = perf_counter()

    @property
    def source(self) -> str:
        """``"path:line"`` of the caller outside the package; empty where nobody said."""
        return self._place if isinstance(self._place, str) else spell_place(self._place)

    @property
    def where(self) -> str:
        """Which operation it is, and the line that called it; for messages."""
        return f"{self.op} #{self.seq} of {self.group}, called at {self.source}"

    @property
    def nbytes(self) -> int:
        """Bytes of an array of that shape and dtype."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def bytes(self) -> int:
        """Bytes that this rank must send at least, by the formula of the collective."""
        return COLLECTIVES[self.op.removesuffix("_object")].moved(self.nbytes, self.size)

    @property
    def seconds(self) -> float:
        """Time from issue to end; NaN while the operation runs."""
        return self.end - self.start

    def __repr__(self) -> str:
        return (
            f"Record({self.op} #{self.seq} of {self.group}, {self.dtype}{list(self.shape)}, "
            f"{self.bytes} bytes, {self.source})"
        )


class Ledger:
    """The last records of a world, and those who listen."""

    def __init__(self, capacity: int = _RING) -> None:
        self._ring: deque[Record] = deque(maxlen=capacity)
        self._listeners: tuple[list[Record], ...] = ()
        self._lock = threading.Lock()

    def write(self, record: Record) -> None:
        """Append one record; the oldest one goes when the ring is full."""
        self._ring.append(record)
        for listener in self._listeners:
            listener.append(record)

    @property
    def records(self) -> list[Record]:
        """The records in the ring, oldest first."""
        return list(self._ring)

    def listen(self, records: list[Record]) -> None:
        """Append each coming record to `records` too."""
        with self._lock:
            self._listeners = (*self._listeners, records)

    def ignore(self, records: list[Record]) -> None:
        """Undo `listen`."""
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each is not records)
