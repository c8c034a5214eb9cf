"""The clockwork of `simulate`: ranks do their actions in order, each as soon as what it needs has arrived."""

from __future__ import annotations

from typing import Literal

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining.action import COMPUTE, Action
from shardwise.pipelining.cost import Costs, at_stage
from shardwise.pipelining.need import Event, carried, needs, results
from shardwise.pipelining.program import Program
from shardwise.pipelining.span import Span, Transfer

__all__ = ["Engine"]

_ASIDE = frozenset({"UNSHARD", "REDUCE_GRAD", "SYNC_TIED"})


class Engine:
    """One run of a program.

    Parameters
    ----------
    program : Program
    costs : Costs
    lanes : bool
        Transfers of a directed pair of ranks go one behind the other; else none waits for another.

    Attributes
    ----------
    spans, asides : list of list of Span
        Per rank, what it computes, and what goes over the network beside it: UNSHARD, REDUCE_GRAD, SYNC_TIED.
    transfers : list of Transfer
    """

    def __init__(self, program: Program, costs: Costs, lanes: bool) -> None:
        self.program, self.costs, self.lanes = program, costs, lanes
        self.stages, self.owners, self.skips = program.stages, program.owners, program.skips
        # Where sends are written down, a value leaves when its rank comes to the send; else when it is made.
        self.written = program.has_transfers
        self.spans: list[list[Span]] = [[] for _ in program]
        self.asides: list[list[Span]] = [[] for _ in program]
        self.transfers: list[Transfer] = []
        self.at = [0] * len(program)
        self._free = [0.0] * len(program)
        self._aside_free = [0.0] * len(program)
        self._edge_free: dict[tuple[int, int], float] = {}
        self._gathered: dict[tuple[int, int], float] = {}
        self._done: list[dict[Event, tuple[float, int, int]]] = [{} for _ in program]  # when, rank, place

    def run(self) -> None:
        """Run to the end.

        Raises
        ------
        ScheduleError
            No rank can go on: who waits where for what.
        """
        progress = True
        while progress:
            progress = False
            for rank, actions in enumerate(self.program):
                while self.at[rank] < len(actions) and self._do(rank, actions[self.at[rank]]):
                    self.at[rank] += 1
                    progress = True
        if any(self.at[rank] < len(actions) for rank, actions in enumerate(self.program)):
            raise ScheduleError(self._stuck())

    def _do(self, rank: int, action: Action) -> bool:
        """Do an action if what it needs will come; else say no."""
        kind = action.kind
        if kind in COMPUTE or kind == "R":
            return self._compute(rank, action)
        if kind in _ASIDE:
            begin = max(self._aside_free[rank], self._free[rank])
            end = begin + self.costs.of(action)
            self.asides[rank].append(Span(rank, len(self.asides[rank]), action, begin, end, None))
            self._aside_free[rank] = end
            if kind == "UNSHARD":
                self._gathered[rank, action.stage] = end
        elif kind in ("SEND_F", "SEND_B") and action.microbatch is not None:
            event = carried(action)
            if event in self._done[rank]:
                peer = action.stage + (1 if kind == "SEND_F" else -1) if action.peer is None else action.peer
                self._send(rank, self.owners.get((peer, action.microbatch)), event, self._free[rank])
        return True

    def _compute(self, rank: int, action: Action) -> bool:
        done, before = self._done[rank], self.spans[rank][-1] if self.spans[rank] else None
        begin, cause = self._free[rank], None if before is None else (rank, before.place)
        why: Literal["order", "value", "parameters"] = "order"
        own: tuple[Event, ...] = ()
        for part in action.compute:
            for need in needs(part, self.stages, self.skips):
                if need in own:
                    continue
                known = done.get(need)
                if known is None:
                    return False
                if known[0] > begin:
                    begin, cause, why = known[0], known[1:], "value"
            if part.kind != "R":
                own += results(part, self.skips)
            gathered = self._gathered.get((rank, part.stage), 0.0)
            if gathered > begin:
                begin, why = gathered, "parameters"
        place = len(self.spans[rank])
        span = Span(rank, place, action, begin, begin + self.costs.of(action), cause, why)
        self.spans[rank].append(span)
        self._free[rank] = span.end
        for event in own:
            done[event] = (span.end, rank, place)
            if not self.written:
                self._send(rank, self._consumer(event), event, span.end)
        return True

    def _consumer(self, event: Event) -> int | None:
        kind, stage, microbatch = event
        if kind == "W":
            return None
        return self.owners.get((stage + 1 if kind == "F" else stage - 1, microbatch))

    def _send(self, source: int, target: int | None, event: Event, ready: float) -> None:
        if target is None or target == source:
            return
        kind, stage, microbatch = event
        costs = self.costs
        # A gradient is as large as what it is the gradient of: a skip value, or what the stage before gave.
        if ">" in kind:
            size = costs.message if costs.skip is None else costs.skip
            amount = at_stage(size, stage if kind[0] == "F" else int(kind[2:]))
        else:
            amount = at_stage(costs.message, stage if kind == "F" else stage - 1)
        if costs.sizes is not None:
            amount *= costs.sizes[microbatch]
        begin = max(ready, self._edge_free.get((source, target), 0.0)) if self.lanes else ready
        left = begin + costs.flow(source, target, amount)
        self._edge_free[source, target] = left
        arrival = left + costs.hop(source, target)
        place = self._done[source][event][2]
        self.transfers.append(Transfer(source, target, event, ready, begin, arrival, amount, place))
        self._done[target][event] = (arrival, source, place)

    def _stuck(self) -> str:
        """Tell which rank waits where for what, and who should bring it."""
        lines, placement = [], self.program.placement
        for rank, actions in enumerate(self.program):
            if self.at[rank] == len(actions):
                continue
            action = actions[self.at[rank]]
            missing = [
                n
                for part in action.compute
                for n in needs(part, self.stages, self.skips)
                if n not in self._done[rank]
            ]
            what = ", ".join([f"{stage}{kind}{microbatch}" for kind, stage, microbatch in missing])
            owners = sorted({self.owners.get((s, i), placement.get(s, -1)) for _, s, i in missing})
            lines.append(
                f"rank {rank} waits at {action} (place {self.at[rank]}) for {what} of rank "
                f"{owners[0] if owners else rank}"
            )
        return "this program cannot end: " + "; ".join(lines)
