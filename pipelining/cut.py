"""What each stage of a cut trace receives, runs, holds and gives: liveness, and nothing else."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining.marker import Anchor, CallId
from shardwise.pipelining.trace import Call, OpKey, Step, Trace, TracedValue

__all__ = ["Part", "Treatment", "cut"]

Treatment: TypeAlias = Literal["skip", "run", "enter"]
"""A call of a module is left out, run as it is, or entered, because a part of it alone is wanted."""


@dataclass(slots=True)
class Part:
    """One stage of a trace.

    Attributes
    ----------
    index : int
    begin, stop : int
        Its events: from the first one up to the one that it does not see.
    start, end : Anchor or None
        Where that is in the code; None at the ends of the model.
    received, given : tuple of TracedValue
        What it gets from the stage before it, and what it gives to the next one.
    fetched, stashed : tuple of TracedValue
        What it gets from stages further before, and what it puts aside for stages further behind.
    state : set of str
        The parameters and buffers that it reads.
    again : set of int
        Events before its begin that it runs all the same: what they make of keyword arguments, buffers and
        constants costs less than to send it.
    keywords : dict of str to str
        The keyword arguments that it reads, and the line of the first op that does.
    copied : set of int
        What it receives and writes into.
    draws : bool
        Whether it draws random bits.
    """

    trace: Trace
    index: int
    begin: int
    stop: int
    start: Anchor | None
    end: Anchor | None
    received: tuple[TracedValue, ...] = ()
    given: tuple[TracedValue, ...] = ()
    fetched: tuple[TracedValue, ...] = ()
    stashed: tuple[TracedValue, ...] = ()
    state: set[str] = field(default_factory=set)
    again: set[int] = field(default_factory=set)
    keywords: dict[str, str] = field(default_factory=dict)
    copied: set[int] = field(default_factory=set)
    draws: bool = False
    by_key: dict[OpKey, Step] = field(default_factory=dict)
    _treatments: dict[CallId, Treatment] = field(default_factory=dict, init=False, repr=False)

    def owns(self, event: int) -> bool:
        """Tell whether an event is this stage's."""
        return self.begin <= event < self.stop

    @property
    def incoming(self) -> tuple[TracedValue, ...]:
        """All that it gets."""
        return (*self.received, *self.fetched)

    @property
    def outgoing(self) -> tuple[TracedValue, ...]:
        """All that it gives or puts aside."""
        return (*self.given, *self.stashed)

    def steps(self) -> list[Step]:
        """Return the ops of this stage."""
        return [step for step in self.trace.steps if self.owns(step.event)]

    def treatment(self, call: Call) -> Treatment:
        """Say what to do with a call of a module."""
        found = self._treatments.get(call.id)
        if found is None:
            found = self._treatments[call.id] = self._treat(call)
        return found

    def _treat(self, call: Call) -> Treatment:
        if call.enter < self.begin <= call.leave or call.enter < self.stop <= call.leave:
            return "enter"
        before = call.leave < self.begin
        shown = {leaf for leaf in call.leaves if isinstance(leaf, int)}
        wanted = self.incoming if before else self.outgoing
        if any(call.enter < v.made < call.leave and v.number not in shown for v in wanted):
            return "enter"
        if not before:
            return "run"
        if any(call.enter < event < call.leave for event in self.again):
            return "enter"
        values = self.trace.values
        if any(values[n].constant for n in shown):
            return "enter"
        made = [v for v in values if v.constant and call.enter < v.made < call.leave]
        if any(event > call.leave for v in made for event in v.reads):
            return "enter"
        return "skip"


def cut(trace: Trace, anchors: Sequence[Anchor]) -> list[Part]:
    """Cut a trace into stages.

    Parameters
    ----------
    trace : Trace
    anchors : sequence of Anchor
        Where each stage but the first begins, in the order of the run.

    Raises
    ------
    ScheduleError
        An anchor is not there, lies inside of `recompute`, or behind the next one; or a stage would need
        something that was made, before the cut, by code that is no op.
    """
    begins = [0, *_events(trace, anchors)]
    stops = [*begins[1:], trace.end + 1]
    starts, ends = [None, *anchors], [*anchors, None]
    keys = {step.key: step for step in trace.steps}
    parts = [
        Part(trace, i, *bounds, by_key=keys)
        for i, bounds in enumerate(zip(begins, stops, starts, ends, strict=True))
    ]
    _Liveness(trace, parts, begins).fill()
    return parts


def _events(trace: Trace, anchors: Sequence[Anchor]) -> list[int]:
    events: list[int] = []
    for anchor in anchors:
        event = trace.event_of(anchor)
        if event is None:
            raise ScheduleError(
                f"the model is cut {anchor}, and a run with these arguments does not come there"
            )
        if trace.is_covered(anchor):
            raise ScheduleError(
                f"the model is cut {anchor}, which lies inside of recompute(); cut outside of it, or build "
                "the stage with checkpoint=True in its place"
            )
        if events and event < events[-1]:
            raise ScheduleError(f"the model is cut {anchor}, which this run reaches before the cut in front")
        events.append(event)
    return events


class _Liveness:
    """Fills in the parts of a trace."""

    def __init__(self, trace: Trace, parts: Sequence[Part], begins: Sequence[int]) -> None:
        self.trace, self.parts, self.begins = trace, parts, begins
        self.steps = {step.event: step for step in trace.steps}
        self.makers = {number: step for step in trace.steps for number in step.gives}
        self.users: dict[int, set[int]] = {}  # the stages that need a value from an earlier one
        self.free = self._free()

    def stage_of(self, event: int) -> int:
        return bisect_right(self.begins, event) - 1

    def _free(self) -> list[bool]:
        """Return per value whether it follows from keyword arguments, fixed buffers and constants alone."""
        values = self.trace.values
        free = [
            value.source in ("keyword", "other", "op") or (value.source == "buffer" and not value.writes)
            for value in values
        ]
        while True:
            before = list(free)
            for step in self.trace.steps:
                bound = any(not free[n] for n in step.reads)
                for n in step.gives:
                    free[n] = free[n] and not bound
            for value in values:
                for event in value.writes:
                    writer = self.steps.get(event)
                    if writer is None or value.number not in writer.reads:
                        # a write without an op: who knows of what
                        free[value.number] = free[value.number] and value.constant
                    elif any(not free[n] for n in writer.reads):
                        free[value.number] = False
            if free == before:
                return free

    def fill(self) -> None:
        for step in self.trace.steps:
            part = self.parts[self.stage_of(step.event)]
            if not step.constant:
                for number in step.reads:
                    self._need(number, part, step)
        last = self.parts[-1]
        for number in self.trace.outputs:
            self._need(number, last, None)
        for number, users in sorted(self.users.items()):
            self._send(self.trace.values[number], users)
        for part in self.parts:
            part.copied = {v.number for v in part.incoming if any(e >= part.begin for e in v.writes)}
            part.draws = any(part.owns(event) for event in self.trace.draws)
        self._place_unread_state()
        self._check_written_buffers()

    def _check_written_buffers(self) -> None:
        for value in self.trace.values:
            holders = [part.index for part in self.parts if value.name in part.state]
            if value.source == "buffer" and value.writes and len(holders) > 1:
                raise ScheduleError(
                    f"the buffer {value.name} is written in each forward, and stages {holders} read it: "
                    "each would write its own. Cut so that one stage does all with it"
                )

    def _send(self, value: TracedValue, users: set[int]) -> None:
        """Choose the way of a value: to the next stage with what that gets, past others straight."""
        source = self.stage_of(value.made)
        if any(self.stage_of(event) > source for event in value.writes):
            # others write into it on the way: it goes from stage to stage
            for index in range(source + 1, max(users) + 1):
                self.parts[index - 1].given += (value,)
                self.parts[index].received += (value,)
            return
        for index in sorted(users):
            if index == source + 1:
                self.parts[source].given += (value,)
                self.parts[index].received += (value,)
            else:
                self.parts[index].fetched += (value,)
        if max(users) > source + 1:
            self.parts[source].stashed += (value,)

    def _need(self, number: int, part: Part, step: Step | None) -> None:
        """Note that a stage needs a value; or, if it makes it again, what that takes."""
        value = self.trace.values[number]
        if value.constant:
            return
        if value.source in ("parameter", "buffer"):
            part.state.add(value.name)
            return
        if value.source == "keyword":
            part.keywords.setdefault(value.name, step.line if step is not None else "the end of the model")
            return
        if value.made >= part.begin:
            return
        if not self.free[number]:
            self.users.setdefault(number, set()).add(part.index)
            return
        maker = self.makers.get(number)
        if maker is None:
            if step is not None and step.event < part.begin:
                return  # whoever runs the op again comes by what makes this, too
            where = step.line if step is not None else "the end of the model"
            raise ScheduleError(
                f"stage {part.index} needs, at {where}, an array that an earlier stage made without an "
                "op, from the shape or the memory of another one; make it where it is used, or by functions "
                "of tensors"
            )
        written = [self.steps[e] for e in value.writes if e < part.begin and e in self.steps]
        for each in (maker, *written):
            if each.event not in part.again:
                part.again.add(each.event)
                for n in each.reads:
                    self._need(n, part, each)

    def _place_unread_state(self) -> None:
        """Give what no op reads to the stage that calls its module; else to that of the one before it."""
        calls: dict[str, int] = {}
        for call in self.trace.calls.values():
            calls.setdefault(call.id.path, self.stage_of(call.enter))
        stage = 0
        for value in self.trace.values:
            if value.source not in ("parameter", "buffer"):
                continue
            holders = [part.index for part in self.parts if value.name in part.state]
            if holders:
                stage = holders[0]
            else:
                stage = calls.get(value.name.rpartition(".")[0], stage)
                self.parts[stage].state.add(value.name)
