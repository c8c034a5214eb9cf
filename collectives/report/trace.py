"""A trace of a step, as Chrome and Perfetto read it: what each rank computed, and what moved meanwhile.

Every rank is a process of the trace; every thread that ran ops, and every group, is a track in it.

References
----------
"Trace Event Format", Google, 2016: https://chromium.googlesource.com/catapult/+/HEAD/tracing/README.md
"""

from __future__ import annotations

import json
import math
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shardwise.collectives.ledger import Record
from shardwise.tensor.timeline import Span

__all__ = ["RankTrace", "Slice", "Track", "rank_trace", "write_trace"]


@dataclass(frozen=True, slots=True)
class Slice:
    """Something that took from `start` to `end`, in seconds of its rank's clock."""

    name: str
    category: str
    start: float
    end: float
    args: dict[str, str | int | bool]


@dataclass(frozen=True, slots=True)
class Track:
    """Slices of which any two are apart, or one lies within the other."""

    name: str
    slices: list[Slice]


@dataclass(frozen=True, slots=True)
class RankTrace:
    """What one rank did."""

    rank: int
    host: str
    tracks: list[Track]


def rank_trace(
    rank: int, host: str, records: Sequence[Record], spans: Sequence[Span], now: float
) -> RankTrace:
    """Lay out what one rank did on tracks.

    Parameters
    ----------
    rank : int
    host : str
    records : sequence of Record
        What moved.
    spans : sequence of Span
        What was computed.
    now : float
        Until when operations are drawn that have not ended.
    """
    tracks: list[Track] = []
    threads: dict[str, list[Span]] = {}
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        threads.setdefault(span.thread, []).append(span)
    for thread, ran in threads.items():
        name = f"compute ({thread})" if len(threads) > 1 else "compute"
        tracks.append(Track(name, [*_modules(ran), *map(_computed, ran)]))
    groups: dict[str, list[Slice]] = {}
    for record in sorted(records, key=lambda record: record.start):
        name = "messages" if "->" in record.group else record.group
        groups.setdefault(name, []).append(_moved(record, now))
    for name, slices in groups.items():
        for number, lane in enumerate(_lanes(slices), 1):
            tracks.append(Track(f"{name} ({number})" if number > 1 else name, lane))
    return RankTrace(rank, host, tracks)


def write_trace(path: str | os.PathLike[str], traces: Sequence[RankTrace], offsets: Sequence[float]) -> None:
    """Write the traces of some ranks into one file, as a whole or not at all.

    Parameters
    ----------
    path : path
        A folder that is there, and a name.
    traces : sequence of RankTrace
    offsets : sequence of float
        Per trace: by how many seconds its clock is ahead of the first one's.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    both = list(zip(traces, offsets, strict=True))
    starts = [
        each.start - offset for trace, offset in both for track in trace.tracks for each in track.slices
    ]
    first = min(starts, default=0.0)
    events = [event for trace, offset in both for event in _events(trace, offset + first)]
    path = Path(path)
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")  # ranks may write to one name at once
    try:
        part.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}), encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _events(trace: RankTrace, zero: float) -> Iterator[dict[str, object]]:
    """Give the entries of the file, in microseconds from `zero`."""
    pid = trace.rank
    yield _named("process_name", pid, 0, {"name": f"rank {pid} on {trace.host}"})
    yield _named("process_sort_index", pid, 0, {"sort_index": pid})
    for tid, track in enumerate(trace.tracks, 1):
        yield _named("thread_name", pid, tid, {"name": track.name})
        yield _named("thread_sort_index", pid, tid, {"sort_index": tid})
        for each in track.slices:
            yield {
                "ph": "X",
                "name": each.name,
                "cat": each.category,
                "pid": pid,
                "tid": tid,
                "ts": round(1e6 * (each.start - zero), 3),
                "dur": round(1e6 * (each.end - each.start), 3),
                "args": each.args,
            }


def _named(what: str, pid: int, tid: int, args: dict[str, object]) -> dict[str, object]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def _computed(span: Span) -> Slice:
    args: dict[str, str | int | bool] = {"module": span.module} if span.module else {}
    name = f"{span.name} backward" if span.way == "backward" else span.name
    return Slice(name, span.way, span.start, span.end, args)


def _moved(record: Record, now: float) -> Slice:
    args: dict[str, str | int | bool] = {
        "array": f"{record.dtype}{list(record.shape)}",
        "bytes": record.bytes,
        "number": record.seq,
        "group": record.group,
        "line": record.source,
        "asked": "implicit" if record.implicit else "by name",
    }
    if record.how is not None:
        args["how"] = record.how
    pending = math.isnan(record.end)
    if pending:
        args["pending"] = True
    return Slice(record.op, "communication", record.start, now if pending else record.end, args)


def _modules(spans: Sequence[Span]) -> list[Slice]:
    """Give a slice for every stretch of ops of one module, around those of the modules in it."""
    slices: list[Slice] = []
    running: list[int] = []  # the slices of the module of the last op, and of those around it
    for span in spans:
        parts = span.module.split(".") if span.module else []
        paths = [".".join(parts[: depth + 1]) for depth in range(len(parts))]
        kept = 0
        for place, path in zip(running, paths, strict=False):
            if (slices[place].name, slices[place].args["way"]) != (path, span.way):
                break
            slices[place] = replace(slices[place], end=max(slices[place].end, span.end))
            kept += 1
        del running[kept:]
        for path in paths[kept:]:
            running.append(len(slices))
            slices.append(Slice(path, "module", span.start, span.end, {"way": span.way}))
    return slices


def _lanes(slices: Sequence[Slice]) -> list[list[Slice]]:
    """Share out slices, ordered by start, so that those of one lane do not overlap."""
    lanes: list[list[Slice]] = []
    for each in slices:
        for lane in lanes:
            if lane[-1].end <= each.start:
                lane.append(each)
                break
        else:
            lanes.append([each])
    return lanes
