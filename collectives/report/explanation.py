"""`explain`: what moved, and what was computed, in a block of code."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType

from shardwise.backend.errors import CollectiveError
from shardwise.collectives.context import get_world
from shardwise.collectives.form.object_form import broadcast_object, gather_object
from shardwise.collectives.ledger import Conversion, Record, implicit
from shardwise.collectives.report.clock import clock_offsets
from shardwise.collectives.report.trace import rank_trace, write_trace
from shardwise.collectives.world import World
from shardwise.tensor.timeline import Span, time_ops

__all__ = ["Explanation", "Moved", "explain"]

_CONVERSION = ("predicted", "from", "to")


@dataclass(frozen=True, slots=True)
class Moved:
    """Some operations together.

    Attributes
    ----------
    times : int
        How many there were.
    bytes : int
        What this rank must send for them at least.
    seconds : float
        From issue to end of each, summed; NaN if one still runs.
    """

    times: int
    bytes: int
    seconds: float


class Explanation:
    """What moved between entering and leaving the block of `explain`, and what was computed there.

    Attributes
    ----------
    records : list of Record
        In the order of issue.
    spans : list of Span
        The ops that ran, in the order in which they ended.
    """

    def __init__(self, world: World, compute: bool = True) -> None:
        self._world = world
        self._compute = compute
        self._blocks: list[ExitStack] = []
        self.records: list[Record] = []
        self.spans: list[Span] = []

    def __enter__(self) -> Explanation:
        block = ExitStack()
        self._world.ledger.listen(self.records)
        block.callback(self._world.ledger.ignore, self.records)
        if self._compute:
            block.enter_context(time_ops(self.spans))
        self._blocks.append(block)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._blocks.pop().close()

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def total_bytes(self) -> int:
        """Sum the bytes that this rank must send at least."""
        return sum(record.bytes for record in self.records)

    def by_op(self) -> dict[str, Moved]:
        """Sum up the records of each op, by its name, in order of first issue."""
        return self._by(lambda record: record.op)

    def by_line(self) -> dict[str, Moved]:
        """Sum up the records of each line of the user's code, ``"path:line"``, in order of first issue."""
        return self._by(lambda record: record.source)

    def table(self) -> str:
        """Draw the records as text, those of one line, op, group and size together.

        Returns
        -------
        str
            A heading, one line per kind of operation in order of first issue, and a line of totals. Paths
            of files in the working directory are short. Where an operation changed a layout, three columns
            more say how many milliseconds were predicted, and from which layout to which it went.
        """
        rows: dict[tuple[str, str, str, str, bool, Conversion | None], list[Record]] = {}
        for record in self.records:
            what = f"{record.dtype}{list(record.shape)}"
            kind = (record.op, what, record.group, record.source, record.implicit, record.conversion)
            rows.setdefault(kind, []).append(record)
        converts = any(record.conversion is not None for record in self.records)
        lines = [
            ("times", "op", "array", "bytes", "group", "ms", *_CONVERSION[: 3 * converts], "asked", "line")
        ]
        for (op, what, group, source, unasked, change), records in rows.items():
            moved = _sum(records)
            spelled = ("", "", "")
            if change is not None:
                spelled = (f"{1e3 * moved.times * change.seconds:.3f}", change.source, change.target)
            lines.append(
                (
                    str(moved.times),
                    op,
                    what,
                    str(moved.bytes),
                    group,
                    f"{1e3 * moved.seconds:.3f}",
                    *spelled[: 3 * converts],
                    "implicit" if unasked else "by name",
                    _short(source),
                )
            )
        total = (str(len(self.records)), "total", "", str(self.total_bytes()))
        lines.append((*total, *[""] * (len(lines[0]) - len(total))))
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )

    def trace(self, path: str | os.PathLike[str], *, all_ranks: bool = False) -> None:
        """Write a trace that Perfetto (https://ui.perfetto.dev) and ``chrome://tracing`` show.

        Every rank is a process, with a track for what each of its threads computed, forward and backward,
        inside the modules that did, and a track for each group; operations of a group that overlap get
        further ones.

        Parameters
        ----------
        path : path
            The file to write, in a folder that is there.
        all_ranks : bool
            Put all ranks of the world into one file, which rank 0 writes, with their clocks set alike. All
            ranks call this then. Otherwise this rank alone is written, so give each rank a path of its own.

        Raises
        ------
        OSError
            If the file cannot be written.
        CollectiveError
            If rank 0 could not write the file of all ranks, on the others.

        Notes
        -----
        With `all_ranks`: eight small messages each way between rank 0 and every other rank, one gather and
        one broadcast of objects; implicit.
        """
        world = self._world
        mine = rank_trace(world.rank, world.hostname, self.records, self.spans, time.perf_counter())
        if not all_ranks:
            write_trace(path, [mine], [0.0])
            return
        error: OSError | None = None
        with implicit():
            offsets = clock_offsets(time.perf_counter)
            traces = gather_object(mine)
            if traces is not None:
                try:
                    write_trace(path, traces, offsets)
                except OSError as failure:
                    error = failure
            told = broadcast_object(None if error is None else f"{type(error).__name__}: {error}")
        if error is not None:
            raise error
        if told is not None:
            raise CollectiveError(
                f"trace on rank {world.rank}: rank 0 could not write the trace of all ranks: {told}."
            )

    def _by(self, key: Callable[[Record], str]) -> dict[str, Moved]:
        parts: dict[str, list[Record]] = {}
        for record in self.records:
            parts.setdefault(key(record), []).append(record)
        return {name: _sum(records) for name, records in parts.items()}


def explain(*, compute: bool = True) -> Explanation:
    """Collect what moves between the ranks inside a ``with`` block, and when ops run there.

    Parameters
    ----------
    compute : bool
        Whether to time ops, for `Explanation.trace`; each then costs about a microsecond more.

    Returns
    -------
    Explanation
        A context manager, with `records`, `total_bytes`, `table`, `by_op`, `by_line` and `trace`.

    Examples
    --------
    >>> import numpy as np
    >>> from shardwise import collectives
    >>> with collectives.explain() as moved:
    ...     _ = collectives.all_reduce(np.ones(4, np.float32))
    >>> [(record.op, record.shape) for record in moved.records]
    [('all_reduce', (4,))]
    """
    return Explanation(get_world(), compute)


def _short(source: str) -> str:
    """Write a line of a file in the working directory without the directory."""
    return source.removeprefix(os.getcwd().rstrip(os.sep) + os.sep)


def _sum(records: Sequence[Record]) -> Moved:
    return Moved(
        len(records), sum(record.bytes for record in records), sum(record.seconds for record in records)
    )
