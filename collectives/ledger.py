"""The ledger: one record for whatever moves between ranks, and `explain` to read a stretch of it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any

import numpy as np

from shardwise.collectives.table import COLLECTIVES

__all__ = ["Explanation", "Ledger", "Record", "implicit", "is_implicit"]

_RING = 1000  # records that a world keeps when nobody is listening

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
    nbytes : int
        Bytes of an array of that shape and dtype.
    source : str
        ``"path:line"`` of the caller outside the package.
    implicit : bool
        Whether nobody asked for it by name (a layout conversion, a gradient bucket).
    start, end : float
        Seconds, by ``time.perf_counter``; `end` is NaN while the operation runs.
    """

    __slots__ = (
        "dtype",
        "end",
        "group",
        "implicit",
        "nbytes",
        "op",
        "seq",
        "shape",
        "size",
        "source",
        "start",
    )

    def __init__(
        self,
        op: str,
        seq: int,
        group: str,
        size: int,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        nbytes: int,
        implicit: bool = False,
    ) -> None:
        self.op = op
        self.seq = seq
        self.group = group
        self.size = size
        self.dtype = dtype
        self.shape = shape
        self.nbytes = nbytes
        self.source = ""  # to be filled in by who writes it
        self.implicit = implicit
        self.start = time.perf_counter()
        self.end = float("nan")

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


class Explanation:
    """What moved between entering and leaving the block of `explain`.

    Attributes
    ----------
    records : list of Record
        In the order of issue.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.records: list[Record] = []

    def __enter__(self) -> Explanation:
        self._ledger.listen(self.records)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ledger.ignore(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def total_bytes(self) -> int:
        """Sum the bytes that this rank must send at least."""
        return sum(record.bytes for record in self.records)

    def table(self) -> str:
        """Draw the records as text, those of one line, op, group and size together.

        Returns
        -------
        str
            A heading, one line per kind of operation in order of first issue, and a line of totals.
        """
        rows: dict[tuple[str, str, str, str, bool], list[Record]] = {}
        for record in self.records:
            what = f"{record.dtype}{list(record.shape)}"
            rows.setdefault((record.op, what, record.group, record.source, record.implicit), []).append(
                record
            )
        lines = [("times", "op", "array", "bytes", "group", "ms", "asked", "line")]
        for (op, what, group, source, implicit), records in rows.items():
            seconds = sum(record.seconds for record in records)
            lines.append(
                (
                    str(len(records)),
                    op,
                    what,
                    str(sum(record.bytes for record in records)),
                    group,
                    f"{1e3 * seconds:.3f}",
                    "implicit" if implicit else "by name",
                    source,
                )
            )
        lines.append((str(len(self.records)), "total", "", str(self.total_bytes()), "", "", "", ""))
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )
