"""`measured`: a step as it was, in the form of a simulation, so that everything that shows those shows it."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from shardwise.collectives import ProcessGroup, all_gather_object, implicit, world_size
from shardwise.collectives.report.clock import clock_offsets
from shardwise.pipelining.action import COMPUTE
from shardwise.pipelining.agreement import Agreement
from shardwise.pipelining.cost import Costs
from shardwise.pipelining.memory import held_activations
from shardwise.pipelining.need import Event, carried, needs, taker
from shardwise.pipelining.program import Program
from shardwise.pipelining.recording import Moment, Recording
from shardwise.pipelining.simulation import Simulation
from shardwise.pipelining.span import Span, Transfer

__all__ = ["measured"]

_LITTLE = 5e-6  # seconds: no waiting, but the price of asking


def measured(
    program: Program, recording: Recording, agreement: Agreement, group: ProcessGroup, ranks: Sequence[int]
) -> Simulation:
    """Gather when all ranks did what. All ranks of the pipeline call it.

    Parameters
    ----------
    program : Program
        Lowered.
    recording : Recording
        Of this rank.
    agreement : Agreement
        For the bytes of transfers.
    group : ProcessGroup
        Of the ranks.
    ranks : sequence of int
        Global rank of each place.

    Returns
    -------
    Simulation
        In seconds from the first start on. Its costs are the times of the actions.
    """
    with implicit():
        told = dict(zip(group.ranks, all_gather_object(recording.moments, group), strict=True))
        offsets = clock_offsets(perf_counter) if group.size == world_size() else [0.0] * world_size()
    rows = [[m._replace(begin=m.begin - offsets[r], end=m.end - offsets[r]) for m in told[r]] for r in ranks]
    first = min([m.begin + m.waited for moments in rows for m in moments], default=0.0)
    return _assembled(program, [_from(moments, first) for moments in rows], agreement)


def _from(moments: Sequence[Moment], first: float) -> list[Moment]:
    return [m._replace(begin=m.begin - first, end=m.end - first) for m in moments]


def _assembled(program: Program, rows: Sequence[Sequence[Moment]], agreement: Agreement) -> Simulation:
    spans: list[list[Span]] = [[] for _ in rows]
    asides: list[list[Span]] = [[] for _ in rows]
    made: dict[Event, tuple[int, int, float]] = {}  # rank, place among its spans, when
    sent: dict[Event, float] = {}
    times: dict[str, float] = {}
    for rank, moments in enumerate(rows):
        for m in sorted(moments, key=lambda each: each.begin):
            start = m.begin + m.waited
            if m.action.kind in COMPUTE or m.action.kind == "R":
                place = len(spans[rank])
                why = "value" if m.waited > _LITTLE else "order"
                before = (rank, place - 1) if place else None
                spans[rank].append(Span(rank, place, m.action, start, m.end, before, why))  # type: ignore[arg-type]
                times[str(m.action)] = m.end - start
                for part in m.action.compute:
                    if part.kind in ("F", "I", "B"):
                        letter = "F" if part.kind == "F" else "I"
                        made[letter, part.stage, part.microbatch or 0] = (rank, place, m.end)
            elif m.action.kind in ("UNSHARD", "RESHARD", "REDUCE_GRAD", "SYNC_TIED"):
                asides[rank].append(Span(rank, len(asides[rank]), m.action, m.begin, m.end, None))
            elif m.action.kind.startswith("SEND"):
                sent[carried(m.action)] = m.begin
    transfers = _transfers(program, spans, made, sent, agreement)
    caused = [[_with_cause(span, made, program.stages) for span in row] for row in spans]
    ends = [span.end for row in (*spans, *asides) for span in row]
    costs = Costs(times=times)
    peak = tuple([max(held_activations(actions, costs), default=0.0) for actions in program])
    return Simulation(
        program, tuple(map(tuple, caused)), tuple(map(tuple, asides)), tuple(transfers),
        max(ends, default=0.0), peak, costs,
    )  # fmt: skip


def _with_cause(span: Span, made: dict[Event, tuple[int, int, float]], stages: int) -> Span:
    """Return the span with the action that brought the value it waited for."""
    if span.why != "value":
        return span
    wanted = [made[n] for part in span.action.compute for n in needs(part, stages) if n in made]
    others = [each for each in wanted if each[0] != span.rank]
    if not others:
        return span
    rank, place, _ = max(others, key=lambda each: each[2])
    return Span(span.rank, span.place, span.action, span.start, span.end, (rank, place), "value")


def _transfers(
    program: Program,
    spans: Sequence[Sequence[Span]],
    made: dict[Event, tuple[int, int, float]],
    sent: dict[Event, float],
    agreement: Agreement,
) -> list[Transfer]:
    starts: dict[tuple[str, int, int | None], float] = {
        (p.kind, p.stage, p.microbatch): span.start
        for row in spans
        for span in row
        for p in span.action.compute
    }
    found = []
    owners = program.owners
    for event, left in sorted(sent.items(), key=lambda each: each[1]):
        kinds, target = taker(event)
        source, place, ready = made[event[0][0], event[1], event[2]]
        arrival = [starts[kind, target, event[2]] for kind in kinds if (kind, target, event[2]) in starts]
        amount = float(sum([meta.nbytes for meta in agreement.metas(event)]))
        found.append(
            Transfer(
                source,
                owners[target, event[2]],
                event,
                min(ready, left),
                left,
                max(arrival, default=left),
                amount,
                place,
            )
        )
    return found
