"""Where to cut so that stages take alike: the units of a trace, what they cost and hold, what crosses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining.marker import Anchor
from shardwise.pipelining.partition import partition
from shardwise.pipelining.trace import ROOT, Call, Trace

__all__ = ["Balance", "MemoryLimits", "Unit", "balanced", "units_of"]

Balance: TypeAlias = Literal["flops", "params", "time"]

FLOPS_PER_BYTE = 10.0
"""What a processor computes while a link moves a byte: about 50 GFLOP/s beside 5 GB/s."""

SECONDS_PER_BYTE = 1 / 5e9

SLACK = 0.25
"""How much the largest of several stages per rank may be above the least possible, if all are more alike."""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """What each stage may hold.

    Attributes
    ----------
    bytes : float or sequence of float
        Of each stage.
    in_flight : sequence of int, optional
        Microbatches whose activations a stage keeps at once; those of 1F1B, if not given: the number of
        stages less the stage's own.
    copies : float
        Of parameters: themselves, their gradients and two moments of an optimizer make four.
    """

    bytes: float | Sequence[float]
    in_flight: Sequence[int] | None = None
    copies: float = 4.0


@dataclass(frozen=True, slots=True)
class Unit:
    """A stretch of a trace that stays whole: a call of a module, and the ops between it and the next one.

    Attributes
    ----------
    anchor : Anchor or None
        Its beginning; None for that of the model.
    begin, stop : int
        Its events.
    """

    anchor: Anchor | None
    begin: int
    stop: int


def units_of(trace: Trace, stages: int, costs: Mapping[int, float]) -> list[Unit]:
    """Return units: modules that are more than rows of others, and parts of those above an equal share.

    Parameters
    ----------
    trace : Trace
    stages : int
    costs : mapping of int to float
        Of each op, by its event.
    """
    work = [(step.event, costs.get(step.event, 0.0)) for step in trace.steps if not step.constant]
    share = sum([cost for _, cost in work]) / stages
    chosen: list[Call] = []

    def choose(outer: Call) -> None:
        for call in _inside(trace, outer):
            events = {event: cost for event, cost in work if call.enter < event < call.leave}
            parts = _inside(trace, call)
            between = [e for e in events if not any(part.enter < e < part.leave for part in parts)]
            if parts and (not between or sum(events.values()) > share):
                choose(call)
            elif events:
                chosen.append(call)

    choose(Call(ROOT, -1, trace.end + 1))
    begins: list[tuple[int, Anchor | None]] = [(0, None)]
    for call in chosen:
        if any(begins[-1][0] <= event < call.enter for event, _ in work):
            begins.append((call.enter, Anchor("before", call.id)))
    stops = [begin for begin, _ in begins[1:]] + [trace.end + 1]
    return [Unit(anchor, begin, stop) for (begin, anchor), stop in zip(begins, stops, strict=True)]


def _inside(trace: Trace, outer: Call) -> list[Call]:
    """Return the outermost calls in a call, those aside that cannot be entered halfway."""
    found: list[Call] = []
    for call in trace.calls.values():
        if call.covered or not (outer.enter < call.enter and call.leave < outer.leave):
            continue
        if not found or call.enter > found[-1].leave:
            found.append(call)
    return found


def balanced(
    trace: Trace,
    stages: int,
    balance: Balance,
    *,
    times: Mapping[int, float] | None = None,
    sizes: Mapping[str, int],
    memory: MemoryLimits | None = None,
    speeds: Sequence[float] | None = None,
    stages_per_rank: int = 1,
) -> list[Anchor]:
    """Return where to cut a model, so that the stage that costs most costs as little as can be.

    Parameters
    ----------
    trace : Trace
    stages : int
    balance : "flops", "params" or "time"
        What to balance.
    times : mapping of int to float, optional
        Seconds of each op, forward and backward, by its event: for "time".
    sizes : mapping of str to int
        Bytes of each parameter.
    memory : MemoryLimits, optional
    speeds : sequence of float, optional
        Of the ranks of the stages, relative to each other.
    stages_per_rank : int
        Where ranks have several, small stages are no rest for their ranks: they come out more alike.

    Raises
    ------
    ScheduleError
        The model has fewer units than there are to be stages, or none of the cuts fits the limits.
    """
    if balance == "time":
        costs: Mapping[int, float] = times or {}
    elif balance == "flops":
        costs = {step.event: 3.0 * step.flops for step in trace.steps}  # a backward takes two forwards
    else:
        costs = _parameters_read(trace, sizes)
    units = units_of(trace, stages, costs)
    if len(units) < stages:
        raise ScheduleError(
            f"cannot cut the model into {stages} stages: its modules give {len(units)} units; take fewer "
            "stages, or put pipe_split() into its code"
        )
    scale = {"flops": FLOPS_PER_BYTE, "time": SECONDS_PER_BYTE, "params": 0.0}[balance]
    crossing = [2 * scale * _crossing_bytes(trace, unit.begin) for unit in units[1:]]
    limits: dict[str, Any] = {}
    if memory is not None:
        held = _parameters_read(trace, sizes)
        kept = {step.event: float(step.kept) for step in trace.steps}
        limits = {
            "memory": [memory.copies * each for each in _sums(units, held)],
            "limits": _per_stage(memory.bytes, stages),
            "activations": _sums(units, kept),
            "in_flight": memory.in_flight or range(stages, 0, -1),
        }
    slack = 0.0 if stages_per_rank == 1 else SLACK
    cuts = partition(_sums(units, costs), stages, crossing=crossing, speeds=speeds, slack=slack, **limits)
    anchors = [units[first].anchor for first in cuts[1:]]
    return [anchor for anchor in anchors if anchor is not None]


def _sums(units: Sequence[Unit], costs: Mapping[int, float]) -> list[float]:
    return [sum([c for e, c in costs.items() if unit.begin <= e < unit.stop]) for unit in units]


def _parameters_read(trace: Trace, sizes: Mapping[str, int]) -> dict[int, float]:
    """Return the bytes of the parameters that an op is the first one to read, by its event."""
    seen: set[str] = set()
    found: dict[int, float] = {}
    for step in trace.steps:
        fresh = [name for name in step.state if name in sizes and name not in seen]
        seen.update(fresh)
        found[step.event] = float(sum([sizes[name] for name in fresh]))
    return found


def _crossing_bytes(trace: Trace, event: int) -> float:
    """Return what a cut at an event would send, were everything sent that is read behind it."""
    return float(
        sum(
            [
                math.prod(value.fact.shape) * value.fact.dtype.itemsize
                for value in trace.values
                if value.source in ("argument", "op", "other") and not value.constant
                and value.made < event and any(read >= event for read in value.reads)
            ]
        )
    )  # fmt: skip


def _per_stage(given: float | Sequence[float], stages: int) -> list[float]:
    found = [float(given)] * stages if isinstance(given, (int, float)) else [float(each) for each in given]
    if len(found) != stages:
        raise ScheduleError(
            f"memory: {len(found)} limits for {stages} stages; give one number, or one for each"
        )
    return found
