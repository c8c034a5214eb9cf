"""What links between ranks may do: five models, from the most forgiving to the strictest.

A transfer takes place only when its send and its receive are both at the heads of their queues, and the
action that produces the value has run. Models differ in what shares a queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from shardwise.pipelining.action import COMMUNICATION, COMPUTE, Action
from shardwise.pipelining.need import Event, carried, needs, results
from shardwise.pipelining.program import Program

__all__ = ["LINK_MODELS", "LinkModel", "Wait", "run_on_links"]

LinkModel: TypeAlias = Literal["eager", "edge", "pair", "one", "block"]
"""What shares a queue.

``eager``: nothing, sends are buffered; ``edge``: transfers of one direction between two ranks; ``pair``: all
transfers between two ranks (an NCCL communicator for both, without groups); ``one``: all transfers of a rank;
``block``: the program itself, where every action blocks.
"""

LINK_MODELS: Final[tuple[LinkModel, ...]] = get_args(LinkModel)


@dataclass(frozen=True, slots=True)
class Wait:
    """An action that does not come to run, and why.

    Attributes
    ----------
    why : str
        What it waits for.
    """

    rank: int
    place: int
    action: Action
    why: str

    def __str__(self) -> str:
        return f"rank {self.rank} waits at {self.action} (place {self.place}): {self.why}"


def run_on_links(program: Program, model: LinkModel) -> list[Wait]:
    """Run a lowered program on links of a model.

    Returns
    -------
    list of Wait
        What stands still for ever, the head of each rank and queue; empty if the program ends.
    """
    return _Run(program, model).run()


class _Run:
    """One run: programs and queues with their heads."""

    def __init__(self, program: Program, model: LinkModel) -> None:
        self.program, self.model, self.owners = program, model, program.owners
        self.stages, self.skips = program.stages, program.skips
        self.at = [0] * len(program)
        self.have: list[set[Event]] = [set() for _ in program]
        self.queues: list[dict[Hashable, deque[tuple[int, Action]]]] = [{} for _ in program]

    def run(self) -> list[Wait]:
        progress = True
        while progress:
            progress = False
            for rank in range(len(self.program)):
                progress |= self._advance(rank)
            progress |= self._deliver()
        return list(self._waits())

    def _advance(self, rank: int) -> bool:
        """Run a rank's program as far as it goes; transfers go on by themselves, in their queue."""
        actions, moved = self.program.ranks[rank], False
        while self.at[rank] < len(actions):
            action = actions[self.at[rank]]
            if action.kind in COMMUNICATION:
                if self.model == "block":
                    break  # `_deliver` looks at the heads of the programs
                queue = self.queues[rank].setdefault(self._queue_of(rank, action), deque())
                queue.append((self.at[rank], action))
            elif not self._can_compute(rank, action):
                break
            else:
                for part in action.compute:
                    if part.kind in COMPUTE:
                        self.have[rank].update(results(part, self.skips))
            self.at[rank] += 1
            moved = True
        return moved

    def _can_compute(self, rank: int, action: Action) -> bool:
        own: set[Event] = set()
        for part in action.compute:
            if part.kind in COMPUTE:
                if any(
                    n not in self.have[rank] and n not in own for n in needs(part, self.stages, self.skips)
                ):
                    return False
                own.update(results(part, self.skips))
        return True

    def _queue_of(self, rank: int, action: Action) -> Hashable:
        peer = self._peer(action)
        if self.model == "edge":
            return (peer, action.kind.startswith("SEND"))
        if self.model == "pair":
            return peer
        return action if self.model == "eager" else "all"

    def _peer(self, action: Action) -> int:
        stage = action.peer
        if stage is None:
            stage = action.stage + (1 if action.kind in ("SEND_F", "RECV_B") else -1)
        return self.owners.get((stage, action.microbatch or 0), -1)

    def _heads(self, rank: int) -> Iterator[tuple[int, Action]]:
        if self.model == "block":
            actions = self.program.ranks[rank]
            if self.at[rank] < len(actions) and actions[self.at[rank]].kind in COMMUNICATION:
                yield self.at[rank], actions[self.at[rank]]
            return
        for queue in list(self.queues[rank].values()):
            if queue:
                yield queue[0]

    def _deliver(self) -> bool:
        """Let transfers take place whose two ends are heads, and whose value is there."""
        moved = False
        for rank in range(len(self.program)):
            for _, action in self._heads(rank):
                if not action.kind.startswith("SEND") or carried(action) not in self.have[rank]:
                    continue
                other = self._peer(action)
                twin = _twin(action)
                if not 0 <= other < len(self.program):
                    continue
                if any(waiting == twin for _, waiting in self._heads(other)):
                    self._take(rank, action)
                    self._take(other, twin)
                    self.have[other].add(carried(action))
                    moved = True
                    break
        return moved

    def _take(self, rank: int, action: Action) -> None:
        if self.model == "block":
            self.at[rank] += 1
        else:
            self.queues[rank][self._queue_of(rank, action)].popleft()

    def _waits(self) -> Iterator[Wait]:
        for rank, actions in enumerate(self.program):
            if self.at[rank] < len(actions) and actions[self.at[rank]].kind not in COMMUNICATION:
                action = actions[self.at[rank]]
                missing = [
                    f"{stage}{kind}{microbatch}"
                    for part in action.compute
                    if part.kind in COMPUTE
                    for kind, stage, microbatch in needs(part, self.stages, self.skips)
                    if (kind, stage, microbatch) not in self.have[rank]
                ]
                yield Wait(rank, self.at[rank], action, f"{', '.join(missing)} has not arrived")
            for place, action in self._heads(rank):
                sends = action.kind.startswith("SEND")
                what = "is not received yet" if sends else "is not sent yet"
                if sends and carried(action) not in self.have[rank]:
                    what = "has not been computed yet"
                yield Wait(rank, place, action, f"it {what} by rank {self._peer(action)}")


def _carried(action: Action) -> Event:
    """Return what a send carries."""
    assert action.microbatch is not None
    return ("F" if action.kind == "SEND_F" else "I", action.stage, action.microbatch)


def _twin(action: Action) -> Action:
    """Return the receive that belongs to a send."""
    stage = action.peer
    if stage is None:
        stage = action.stage + (1 if action.kind == "SEND_F" else -1)
    return Action(
        stage, "RECV_F" if action.kind == "SEND_F" else "RECV_B", action.microbatch, (),
        None if action.peer is None else action.stage,
    )  # fmt: skip
