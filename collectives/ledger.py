"""The ledger: one record for whatever moves between ranks. `explain` reads a stretch of it."""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from shardwise.backend.errors import CollectiveError
from shardwise.backend.source import Place, source_line, spell_place
from shardwise.collectives.table import COLLECTIVES

__all__ = [
    "Conversion",
    "Ledger",
    "Record",
    "conversion",
    "implicit",
    "is_forbidden",
    "is_implicit",
    "no_implicit",
    "refuse_implicit",
    "show_log",
    "spell_record",
]

_log = logging.getLogger(__name__)

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


class Conversion(NamedTuple):
    """What an operation is for, where it changes a layout.

    Attributes
    ----------
    source, target : str
        The layouts before and after it.
    seconds : float
        Predicted.
    """

    source: str
    target: str
    seconds: float


conversion: ContextVar[Conversion | None] = ContextVar("shardwise_conversion", default=None)
"""What the operations that this context issues are for."""

_forbidden: ContextVar[bool] = ContextVar("shardwise_no_implicit", default=False)
is_forbidden = _forbidden.get


@contextmanager
def no_implicit() -> Iterator[None]:
    """Forbid communication that nobody asks for by name, within the block.

    Raises
    ------
    CollectiveError
        In the block, at an operation between several ranks that is implicit; before it, on all its ranks. It
        names the operation, the layouts, the bytes and the line.

    Examples
    --------
    >>> import numpy as np
    >>> from shardwise.collectives import all_reduce, no_implicit
    >>> with no_implicit():
    ...     _ = all_reduce(np.ones(4))  # asked for by name
    """
    token = _forbidden.set(True)
    try:
        yield
    finally:
        _forbidden.reset(token)


def refuse_implicit(op: str, group: str, size: int, rank: int, dtype: np.dtype[Any], shape: Any) -> None:
    """Raise if the operation that is to be issued is implicit: where that is forbidden.

    A barrier, which moves nothing, and a group of one rank may be; what is refused is the same on all ranks.
    """
    if not is_implicit() or size == 1 or op == "barrier":
        return
    moved = COLLECTIVES[op.removesuffix("_object")].moved(math.prod(shape) * dtype.itemsize, size)
    what = conversion.get()
    reason = f" from {what.source} to {what.target}" if what is not None else ""
    raise CollectiveError(
        f"rank {rank}: no_implicit() forbids {op}{reason} on {group}, {dtype}{list(shape)}, {moved} bytes, "
        f"at {source_line(2)}: nobody asked for it by name. Call redistribute there, or leave no_implicit()."
    )


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
    conversion : Conversion or None
        Which layout became which, and the seconds that were predicted; where that is what it was for.
    start, end : float
        Seconds, by ``time.perf_counter``; `end` is NaN while the operation runs.
    """

    __slots__ = (
        "_place", "conversion", "dtype", "end", "group", "how", "implicit", "op", "seq", "shape", "size",
        "start",
    )  # fmt: skip

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
        self.conversion = conversion.get()
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
    """The last records of a world, and those who listen.

    Parameters
    ----------
    capacity : int
    log : int, optional
        The rank that each record is logged for as it is written; nothing is by default.

    Attributes
    ----------
    write : callable
        Append one record; the oldest one goes when the ring is full. It is the ring's own method as long as
        nobody listens.
    """

    write: Callable[[Record], None]

    def __init__(self, capacity: int = _RING, log: int | None = None) -> None:
        self._log = log
        self._ring: deque[Record] = deque(maxlen=capacity)
        self._listeners: tuple[list[Record], ...] = ()
        self._lock = threading.Lock()
        self._choose()

    @property
    def records(self) -> list[Record]:
        """The records in the ring, oldest first."""
        return list(self._ring)

    def listen(self, records: list[Record]) -> None:
        """Append each coming record to `records` too."""
        with self._lock:
            self._listeners = (*self._listeners, records)
            self._choose()

    def ignore(self, records: list[Record]) -> None:
        """Undo `listen`."""
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each is not records)
            self._choose()

    def _choose(self) -> None:
        self.write = self._ring.append if not self._listeners and self._log is None else self._tell

    def _tell(self, record: Record) -> None:
        self._ring.append(record)
        for listener in self._listeners:
            listener.append(record)
        if self._log is not None:
            _log.info("%s", spell_record(self._log, record))


def show_log() -> None:
    """Have what is logged of records come out on standard error, unless the program has seen to it."""
    _log.setLevel(logging.INFO)
    if not _log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        _log.addHandler(handler)


def spell_record(rank: int, record: Record) -> str:
    """Write a record of a rank as one line.

    Examples
    --------
    >>> spell_record(0, Record("all_gather", 3, "world", 2, np.dtype("f"), (8,), True, place="train.py:7"))
    'rank 0: all_gather #3 of world, float32[8], 32 bytes, implicit, train.py:7'
    """
    what = f"rank {rank}: {record.op} #{record.seq} of {record.group}, {record.dtype}{list(record.shape)}"
    words = [what, f"{record.bytes} bytes"]
    if record.conversion is not None:
        source, target, seconds = record.conversion
        words.append(f"{source} -> {target}, {1e6 * seconds:.1f} us predicted")
    words += ["implicit"] if record.implicit else []
    return ", ".join([*words, record.source])
