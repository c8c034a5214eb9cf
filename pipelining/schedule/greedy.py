"""Programs made action by action: each rank does what its policy likes best of what is there."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from shardwise.pipelining.action import Action
from shardwise.pipelining.cost import Costs, at_stage
from shardwise.pipelining.program import Program, stage_ranks

__all__ = ["Policy", "greedy_program"]

_LATER = 1e-9  # of a unit: what counts as the same time


@dataclass(frozen=True, slots=True)
class Policy:
    """What a rank prefers.

    Attributes
    ----------
    first : str
        Where a forward and an input gradient are both there: ``I``, ``F``, or in ``turns``.
    slack : float
        A weight gradient is begun if at least this share of it fits before the next value arrives.
    patience : float
        Of a weight gradient's length: how long a rank rather waits for an input gradient than runs a forward.
    taper : float
        Share of its memory that the last rank leaves unused; ranks before it leave less, in proportion.
    slots : mapping of (str, int) to float, optional
        A pattern: (``F`` or ``I``, stage) -> when it is the turn of microbatch 0; it goes before all else.
    period : float
        Of the pattern, from a microbatch to the next one.
    strict : bool
        Keep to the pattern's order; else take the first that is there.
    """

    first: Literal["I", "F", "turns"] = "I"
    slack: float = 1.0
    patience: float = 0.0
    taper: float = 0.0
    slots: Mapping[tuple[str, int], float] | None = None
    period: float = 6.0
    strict: bool = True


def greedy_program(
    placement: Mapping[int, int],
    microbatches: int,
    costs: Costs,
    policy: Policy,
    memory: Sequence[float] | None = None,
) -> Program | None:
    """Return a program that a policy makes, or None if it comes to a stop for want of memory.

    Parameters
    ----------
    placement : mapping of int to int
        Stage -> rank.
    microbatches : int
    costs : Costs
    policy : Policy
    memory : sequence of float, optional
        Cap on the activations of each rank.
    """
    run = _Run(placement, microbatches, costs, policy, memory)
    return run.program() if run.to_end() else None


@dataclass(slots=True)
class _Rank:
    """What a rank has, in order of microbatches: what has arrived when, and what it did."""

    stages: tuple[int, ...]
    forwards: dict[int, deque[float]]
    backwards: dict[int, deque[float]]
    cap: float
    actions: list[Action] = field(default_factory=list)
    parked: deque[tuple[int, int]] = field(default_factory=deque)
    free: float = 0.0
    held: float = 0.0
    last: str = "I"


class _Run:
    """A pipeline in which every rank decides as soon as it is free."""

    def __init__(
        self,
        placement: Mapping[int, int],
        microbatches: int,
        costs: Costs,
        policy: Policy,
        memory: Sequence[float] | None,
    ) -> None:
        self.placement, self.m, self.costs, self.policy = placement, microbatches, costs, policy
        self.stages = len(placement)
        count = max(placement.values()) + 1
        self.ranks: list[_Rank] = []
        for rank in range(count):
            own = stage_ranks(placement, rank)
            cap = float("inf") if memory is None else memory[rank]
            cap *= 1 - policy.taper * rank / max(1, count - 1)
            self.ranks.append(_Rank(own, {s: deque() for s in own}, {s: deque() for s in own}, cap))
        self.times = {
            (kind, stage): at_stage(costs.F if kind == "F" else costs.I if kind == "I" else costs.W, stage)
            for kind in "FIW"
            for stage in placement
        }
        self.size = [at_stage(costs.activation, stage) for stage in range(self.stages)]
        self.done = {(kind, stage): 0 for kind in "FIW" for stage in placement}
        self.ranks[placement[0]].forwards[0].extend([0.0] * microbatches)

    def program(self) -> Program:
        return Program.of([rank.actions for rank in self.ranks])

    def to_end(self) -> bool:
        """Let the rank that is free first decide, until nothing is left to do; False if all stand still."""
        queue = [(0.0, rank) for rank in range(len(self.ranks))]
        asleep: set[int] = set()
        left = 3 * self.stages * self.m
        while queue:
            now, at = heapq.heappop(queue)
            rank = self.ranks[at]
            if now < rank.free - _LATER:
                continue
            chosen, again = self._choose(rank, now)
            if chosen is None:
                asleep.add(at)
                if again is not None:
                    heapq.heappush(queue, (again, at))
                continue
            left -= 1
            asleep.discard(at)
            woken = self._do(at, rank, chosen, now)
            heapq.heappush(queue, (rank.free, at))
            if woken is not None and woken in asleep:
                heapq.heappush(queue, (max(rank.free, self.ranks[woken].free), woken))
        return left == 0

    def _choose(self, rank: _Rank, now: float) -> tuple[tuple[str, int] | None, float | None]:
        """Return what to run now, or None and when to look again."""
        policy = self.policy
        if policy.slots is not None:
            return self._choose_by_slot(rank, now)
        backward, backward_at = self._next_backward(rank, now)
        forward, forward_at = self._next_forward(rank, now)
        take_backward = backward is not None and backward_at <= now + _LATER
        take_forward = forward is not None and forward_at <= now + _LATER
        if take_backward and take_forward:
            prefers_forward = policy.first == "F" or (policy.first == "turns" and rank.last == "I")
            return (("F", forward) if prefers_forward else ("I", backward)), None  # type: ignore[return-value]
        if take_backward:
            return ("I", backward), None  # type: ignore[return-value]
        soon = min([at for at in (backward_at, forward_at) if at > now + _LATER], default=None)
        if take_forward:
            weight = self.times["W", forward or 0]
            if backward is not None and backward_at < now + policy.patience * weight:
                return None, backward_at
            return ("F", forward), None  # type: ignore[return-value]
        if rank.parked:
            stage = rank.parked[0][0]
            fits = soon is None or soon >= now + policy.slack * self.times["W", stage] - _LATER
            if fits or self._needs_room(rank, now):
                return ("W", stage), None
        return None, soon

    def _choose_by_slot(self, rank: _Rank, now: float) -> tuple[tuple[str, int] | None, float | None]:
        """Return the next action of a pattern, or a weight gradient where that one is not there yet."""
        policy, soon = self.policy, float("inf")
        for kind, stage in self._pattern(rank):
            waiting = rank.forwards[stage] if kind == "F" else rank.backwards[stage]
            fits = kind == "I" or self._may_begin(rank, stage)
            if fits and waiting and waiting[0] <= now + _LATER:
                return (kind, stage), None
            if fits and waiting:
                soon = min(soon, waiting[0])
            if policy.strict:
                break
        if rank.parked:
            stage = rank.parked[0][0]
            if soon >= now + policy.slack * self.times["W", stage] - _LATER or self._needs_room(rank, now):
                return ("W", stage), None
        return None, None if soon == float("inf") else soon

    def _pattern(self, rank: _Rank) -> list[tuple[str, int]]:
        """Return what is next of each stage and kind, in the order of the pattern."""
        slots, period = self.policy.slots or {}, self.policy.period
        left = [
            (slots[kind, stage] + period * self.done[kind, stage], kind, stage)
            for kind in ("F", "I")
            for stage in rank.stages
            if self.done[kind, stage] < self.m
        ]
        return [(kind, stage) for _, kind, stage in sorted(left)]

    def _may_begin(self, rank: _Rank, stage: int) -> bool:
        """Whether a forward of a pattern fits; its order already sees to it that microbatches go through."""
        if self.policy.strict:
            return rank.held + self.size[stage] <= rank.cap + _LATER
        return self._has_room(rank, stage)

    def _next_backward(self, rank: _Rank, now: float) -> tuple[int | None, float]:
        """Return the stage whose next input gradient can begin first; at one time, the oldest."""
        best, best_at = None, float("inf")
        for stage in rank.stages:
            waiting = rank.backwards[stage]
            if waiting and self.done["I", stage] < self.done["F", stage]:
                at = max(waiting[0], now)
                if at < best_at - _LATER or (at <= best_at + _LATER and self._is_older(stage, best)):
                    best, best_at = stage, at
        return best, best_at

    def _is_older(self, stage: int, other: int | None) -> bool:
        """Whether a stage is to do an earlier microbatch; of one microbatch, later stages come first."""
        if other is None:
            return True
        return (self.done["I", stage], -stage) < (self.done["I", other], -other)

    def _next_forward(self, rank: _Rank, now: float) -> tuple[int | None, float]:
        best, best_at = None, float("inf")
        for stage in reversed(rank.stages):  # later stages first: they give memory back sooner
            waiting = rank.forwards[stage]
            if waiting and self._has_room(rank, stage):
                at = max(waiting[0], now)
                if at < best_at - _LATER:
                    best, best_at = stage, at
        return best, best_at

    def _has_room(self, rank: _Rank, stage: int) -> bool:
        """Whether a forward fits such that some microbatch can still go all the way on this rank."""
        held = rank.held + self.size[stage]
        if held > rank.cap + _LATER:
            return False
        later = [s for s in rank.stages if s > stage]
        if not later:
            return True
        # The oldest microbatch on its way must still fit into the stages that it has before it.
        need = sum([self.size[s] for s in later if self.done["F", s] <= self.done["I", later[-1]]])
        return held + need <= rank.cap + _LATER

    def _needs_room(self, rank: _Rank, now: float) -> bool:
        """Whether a forward has arrived and only memory keeps it, which a weight gradient would give back."""
        for stage in rank.stages:
            waiting = rank.forwards[stage]
            if waiting and waiting[0] <= now + _LATER and not self._has_room(rank, stage):
                return True
        return False

    def _do(self, at: int, rank: _Rank, chosen: tuple[str, int], now: float) -> int | None:
        """Do an action; return the rank that its result goes to."""
        kind, stage = chosen
        end = now + self.times[kind, stage]
        rank.free = end
        microbatch = self.done[kind, stage]
        self.done[kind, stage] += 1
        costs = self.costs
        if kind == "W":
            rank.parked.popleft()
            rank.held -= costs.kept * self.size[stage]
            rank.actions.append(Action(stage, "W", microbatch))
            return None
        rank.last = kind
        if kind == "F":
            rank.forwards[stage].popleft()
            rank.held += self.size[stage]
            rank.actions.append(Action(stage, "F", microbatch))
            if stage == self.stages - 1:
                rank.backwards[stage].append(end)
                return None
            to, waiting = stage + 1, "forwards"
        else:
            rank.backwards[stage].popleft()
            rank.held -= (1 - costs.kept) * self.size[stage]
            rank.parked.append((stage, microbatch))
            rank.actions.append(Action(stage, "I", microbatch))
            if stage == 0:
                return None
            to, waiting = stage - 1, "backwards"
        target = self.placement[to]
        queues = self.ranks[target].forwards if waiting == "forwards" else self.ranks[target].backwards
        lag = costs.hop(at, target) + costs.flow(at, target, at_stage(costs.message, min(stage, to)))
        queues[to].append(end + lag)
        return target
