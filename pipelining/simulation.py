"""`simulate`: when each action of a program runs, and what it costs, on a machine that is only described."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining.action import COMPUTE, Action
from shardwise.pipelining.need import Event, needs, results
from shardwise.pipelining.program import Program

__all__ = ["Costs", "Simulation", "Span", "simulate"]

Latency: TypeAlias = float | Callable[[int, int], float]


@dataclass(frozen=True, slots=True)
class Costs:
    """What actions take, in any unit of time, and what they hold, in any unit of memory.

    Attributes
    ----------
    F, I, W : float or sequence of float
        Forward, input gradients, weight gradients; per stage, if they differ.
    B : float or sequence of float, optional
        Full backward; `I` and `W` together, if not given.
    overlap : float or sequence of float, optional
        A forward and a backward that run as one; the sum of both, if not given.
    R : float or sequence of float, optional
        Recomputation; as `F`, if not given.
    latency : float or callable
        From one rank to another, or ``latency(source, target)``.
    activation : float or sequence of float
        What the forward of a microbatch keeps.
    kept : float
        The share of it that is kept from I to W.
    """

    F: float | Sequence[float] = 1.0
    I: float | Sequence[float] = 1.0  # noqa: E741  (the field's own name)
    W: float | Sequence[float] = 1.0
    B: float | Sequence[float] | None = None
    overlap: float | Sequence[float] | None = None
    R: float | Sequence[float] | None = None
    latency: Latency = 0.0
    activation: float | Sequence[float] = 1.0
    kept: float = 1.0

    def of(self, action: Action) -> float:
        """Return what an action takes."""
        if action.kind == "OVERLAP_F_B":
            if self.overlap is not None:
                return _at(self.overlap, action.stage)
            return sum(self.of(part) for part in action.parts)
        if action.kind == "B" and self.B is None:
            return _at(self.I, action.stage) + _at(self.W, action.stage)
        if action.kind == "R" and self.R is None:
            return _at(self.F, action.stage)
        given: float | Sequence[float] | None = {
            "F": self.F, "I": self.I, "W": self.W, "B": self.B, "R": self.R
        }.get(action.kind)  # fmt: skip
        return 0.0 if given is None else _at(given, action.stage)

    def hop(self, source: int, target: int) -> float:
        """Return the time from one rank to another."""
        if source == target:
            return 0.0
        return self.latency(source, target) if callable(self.latency) else self.latency


def _at(value: float | Sequence[float], stage: int) -> float:
    return float(value) if isinstance(value, (int, float)) else float(value[stage])


@dataclass(frozen=True, slots=True)
class Span:
    """One action of a rank, and when it runs.

    Attributes
    ----------
    start, end : float
    cause : tuple of (int, int) or None
        Rank and place of the action that it waited for last: what it begins right behind.
    """

    rank: int
    place: int
    action: Action
    start: float
    end: float
    cause: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Simulation:
    """When everything ran.

    Attributes
    ----------
    spans : tuple of tuple of Span
        Per rank, in order.
    makespan : float
        From the first start to the last end.
    peak : tuple of float
        Per rank, the most that activations took.
    """

    program: Program
    spans: tuple[tuple[Span, ...], ...]
    makespan: float
    peak: tuple[float, ...]
    costs: Costs = field(repr=False)

    @property
    def busy(self) -> tuple[float, ...]:
        """Time that each rank computes."""
        return tuple([sum(span.end - span.start for span in spans) for spans in self.spans])

    @property
    def idle(self) -> tuple[float, ...]:
        """Time that each rank waits, of the whole."""
        return tuple([self.makespan - busy for busy in self.busy])

    @property
    def lengths(self) -> tuple[float, ...]:
        """Per rank, the time from its first start to its last end."""
        return tuple([spans[-1].end - spans[0].start if spans else 0.0 for spans in self.spans])

    @property
    def bubble(self) -> float:
        """The share of time that ranks wait."""
        return 1 - sum(self.busy) / (len(self.spans) * self.makespan) if self.makespan else 0.0

    @property
    def skewless_bubble(self) -> float:
        """The bubble by the longest rank's own length: papers' rate, blind to the skew between ranks."""
        longest = max(self.lengths)
        return 1 - max(self.busy) / longest if longest else 0.0

    @property
    def critical_path(self) -> tuple[Span, ...]:
        """The actions that the makespan is made of, the first one first."""
        last = max((spans[-1] for spans in self.spans if spans), key=lambda span: span.end)
        path = [last]
        while path[-1].cause is not None:
            rank, place = path[-1].cause
            path.append(self.spans[rank][place])
        return tuple(reversed(path))


def simulate(program: Program, costs: Costs | Mapping[str, float] | None = None) -> Simulation:
    """Run a program on paper: ranks do their actions in order, each as soon as what it needs has arrived.

    Parameters
    ----------
    program : Program
        Of computing actions; others take no time.
    costs : Costs or mapping, optional
        One unit per F, I and W, if not given.

    Raises
    ------
    ScheduleError
        No rank can go on: who waits where for what.
    """
    price = costs if isinstance(costs, Costs) else Costs(**(costs or {}))
    stages, placement = program.stages, program.placement
    done: dict[Event, tuple[float, int, int]] = {}  # when, rank, place
    spans: list[list[Span]] = [[] for _ in program]
    at = [0] * len(program)
    free = [0.0] * len(program)
    progress = True
    while progress:
        progress = False
        for rank, actions in enumerate(program):
            while at[rank] < len(actions):
                action = actions[at[rank]]
                if action.kind not in COMPUTE and action.kind != "R":
                    at[rank] += 1
                    progress = True
                    continue
                start = _ready(
                    action, rank, stages, done, price, spans[rank][-1] if spans[rank] else None, free[rank]
                )
                if start is None:
                    break
                begin, cause = start
                span = Span(rank, len(spans[rank]), action, begin, begin + price.of(action), cause)
                spans[rank].append(span)
                free[rank] = span.end
                for part in action.compute:
                    if part.kind != "R":
                        done.update(dict.fromkeys(results(part), (span.end, rank, span.place)))
                at[rank] += 1
                progress = True
    if any(at[rank] < len(actions) for rank, actions in enumerate(program)):
        raise ScheduleError(_stuck(program, at, done, stages, placement))
    makespan = max((each[-1].end for each in spans if each), default=0.0)
    peak = tuple([_peak(each, price) for each in spans])
    return Simulation(program, tuple(map(tuple, spans)), makespan, peak, price)


def _ready(
    action: Action,
    rank: int,
    stages: int,
    done: Mapping[Event, tuple[float, int, int]],
    costs: Costs,
    before: Span | None,
    free: float,
) -> tuple[float, tuple[int, int] | None] | None:
    """Return when an action can begin and what it waits for last; None if something has not happened yet."""
    begin, cause = free, None if before is None else (rank, before.place)
    own: set[Event] = set()
    for part in action.compute:
        for need in needs(part, stages):
            if need in own:
                continue
            known = done.get(need)
            if known is None:
                return None
            when, source, place = known
            arrival = when + costs.hop(source, rank)
            if arrival > begin:
                begin, cause = arrival, (source, place)
        own.update(results(part) if part.kind != "R" else ())
    return begin, cause


def _peak(spans: Sequence[Span], costs: Costs) -> float:
    """Return the most that a rank's activations take: from F on, in part from I on, to the end of W or B."""
    changes: list[tuple[float, int, float]] = []
    for span in spans:
        for part in span.action.compute:
            size = _at(costs.activation, part.stage)
            if part.kind == "F":
                changes.append((span.start, 1, size))
            elif part.kind == "B":
                changes.append((span.end, 0, -size))
            elif part.kind == "I":
                changes.append((span.end, 0, -(1 - costs.kept) * size))
            elif part.kind == "W":
                changes.append((span.end, 0, -costs.kept * size))
    held = most = 0.0
    for _, _, change in sorted(changes, key=lambda each: each[:2]):
        held += change
        most = max(most, held)
    return most


def _stuck(
    program: Program,
    at: Sequence[int],
    done: Mapping[Event, object],
    stages: int,
    placement: Mapping[int, int],
) -> str:
    """Tell which rank waits where for what, and who should bring it."""
    lines = []
    for rank, actions in enumerate(program):
        if at[rank] == len(actions):
            continue
        action = actions[at[rank]]
        missing = [need for part in action.compute for need in needs(part, stages) if need not in done]
        what = ", ".join([f"{stage}{kind}{microbatch}" for kind, stage, microbatch in missing])
        owners = sorted({placement.get(stage, -1) for _, stage, _ in missing})
        lines.append(
            f"rank {rank} waits at {action} (place {at[rank]}) for {what} of rank "
            f"{owners[0] if owners else rank}"
        )
    return "this program cannot end: " + "; ".join(lines)
