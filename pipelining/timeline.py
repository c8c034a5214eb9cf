"""`write_trace`: a run as a trace for Chrome or Perfetto, with arrows for what goes between ranks."""

from __future__ import annotations

import json
from pathlib import Path

from shardwise.pipelining.need import taker
from shardwise.pipelining.simulation import Simulation
from shardwise.pipelining.span import Span, Transfer

__all__ = ["trace_events", "write_trace"]


def write_trace(simulation: Simulation, path: str | Path, microseconds: float = 1000.0) -> None:
    """Write a run for https://ui.perfetto.dev or chrome://tracing.

    Parameters
    ----------
    simulation : Simulation
    path : str or Path
    microseconds : float
        Of one unit of the costs.
    """
    Path(path).write_text(json.dumps({"traceEvents": trace_events(simulation, microseconds)}))


def trace_events(simulation: Simulation, microseconds: float = 1000.0) -> list[dict[str, object]]:
    """Return the events: a process per rank, with what it computes, what is beside it, and its memory."""
    events: list[dict[str, object]] = []
    for rank, (spans, asides) in enumerate(zip(simulation.spans, simulation.asides, strict=True)):
        events.append({"ph": "M", "name": "process_name", "pid": rank, "args": {"name": f"rank {rank}"}})
        for thread, name, there in ((0, "compute", spans), (1, "network", asides)):
            if there:
                args = {"name": name}
                events.append({"ph": "M", "name": "thread_name", "pid": rank, "tid": thread, "args": args})
            events += [_slice(span, thread, microseconds) for span in there]
        use = simulation.memory(rank)
        for at, time in enumerate(use.times):
            held = {cause: values[at] for cause, values in use.held.items() if any(values)}
            events.append({"ph": "C", "name": "memory", "pid": rank, "ts": time * microseconds, "args": held})
    for number, transfer in enumerate(simulation.transfers):
        events += _arrow(simulation, transfer, number, microseconds)
    return events


def _slice(span: Span, thread: int, scale: float) -> dict[str, object]:
    return {
        "ph": "X", "name": str(span.action), "cat": span.action.kind, "pid": span.rank, "tid": thread,
        "ts": span.start * scale, "dur": span.length * scale,
        "args": {"microbatch": span.action.microbatch, "waited for": span.why},
    }  # fmt: skip


def _arrow(simulation: Simulation, transfer: Transfer, number: int, scale: float) -> list[dict[str, object]]:
    """Return an arrow from what made a value to what takes it; none if nothing does."""
    kind, stage, microbatch = transfer.what
    takers, to = taker(transfer.what)
    for span in simulation.spans[transfer.target]:
        for part in span.action.compute:
            if part.kind in takers and (part.stage, part.microbatch) == (to, microbatch):
                made = simulation.spans[transfer.source][transfer.producer]
                name = {"name": f"{stage}{kind}{microbatch}", "cat": "transfer", "id": number, "tid": 0}
                # An arrow binds to the slice that it lies in: just inside its end, and at its start.
                leaves = made.end - 1e-6 * made.length
                return [
                    {**name, "ph": "s", "pid": transfer.source, "ts": leaves * scale},
                    {**name, "ph": "f", "bp": "e", "pid": transfer.target, "ts": span.start * scale},
                ]
    return []
