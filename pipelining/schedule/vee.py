"""Schedules of two stages per rank on the way forth and back: ZBV and DualPipeV."""

from __future__ import annotations

from collections import deque
from typing import Literal

from shardwise.pipelining.action import Action
from shardwise.pipelining.program import Program
from shardwise.pipelining.schedule.shape import action, check_counts

__all__ = ["Chunk", "Writer", "dual_pipe_v", "write_dual", "zbv"]

Chunk = Literal["a", "b"]


class Writer:
    """Writes the actions of a rank, counting microbatches per stage and kind.

    Parameters
    ----------
    stages : dict of "a", "b" to int
        The stage on the way forth, and that on the way back.
    """

    def __init__(self, stages: dict[Chunk, int]) -> None:
        self.stages = stages
        self.actions: list[Action] = []
        self.counts: dict[tuple[str, Chunk], int] = {}
        self.weights: deque[Action] = deque()

    def count(self, kind: str, chunk: Chunk) -> int:
        """Return how many of a kind there are on a stage."""
        return self.counts.get((kind, chunk), 0)

    def next(self, kind: Literal["F", "I", "B"], chunk: Chunk) -> Action:
        """Return the next action of a kind on a stage; input gradients leave weight gradients to do."""
        which = "I" if kind == "B" else kind
        at = self.count(which, chunk)
        self.counts[which, chunk] = at + 1
        if kind == "I":
            self.weights.append(action(self.stages[chunk], "W", at))
        return action(self.stages[chunk], kind, at)

    def put(self, *kinds: tuple[Literal["F", "I", "B"], Chunk]) -> None:
        """Append the next actions of some kinds."""
        self.actions += [self.next(kind, chunk) for kind, chunk in kinds]

    def weight(self, chunk: Chunk | None = None) -> None:
        """Append the oldest weight gradients that wait, of a stage or at all; nothing if none does."""
        for at, waiting in enumerate(self.weights):
            if chunk is None or waiting.stage == self.stages[chunk]:
                self.actions.append(waiting)
                del self.weights[at]
                return

    def overlap(self, forward: Chunk, backward: Chunk) -> None:
        """Append a forward and a backward that run as one."""
        pair = (self.next("F", forward), self.next("B", backward))
        self.actions.append(Action(pair[0].stage, "OVERLAP_F_B", None, pair))


def zbv(ranks: int, microbatches: int) -> Program:
    """Zero bubble in the memory of 1F1B, where F, I and W cost alike (Qi et al. 2024b)."""
    check_counts("ZBV", ranks, microbatches)
    total = max(2 * ranks - 1, microbatches)
    program = []
    for rank in range(ranks):
        out = Writer({"a": rank, "b": 2 * ranks - 1 - rank})
        for _ in range(2 * (ranks - rank) - 1):
            out.put(("F", "a"))
        for _ in range(rank):
            out.put(("F", "b"), ("F", "a"))
        for _ in range(ranks - rank):
            out.put(("F", "b"), ("I", "b"))
            out.weight("b")
        while out.count("F", "b") < out.count("F", "a") or out.count("F", "a") < total:
            if out.count("F", "a") < total:
                out.put(("F", "a"))
            out.put(("I", "a"))
            out.weight("a")
            out.put(("F", "b"), ("I", "b"))
            out.weight("b")
        for _ in range(rank):
            out.put(("I", "a"), ("I", "b"))
        for _ in range(ranks - rank):
            out.put(("I", "a"))
            out.weight("a")
        for chunk in ("b", "a"):
            while any(w.stage == out.stages[chunk] for w in out.weights):
                out.weight(chunk)
        program.append(
            [each for each in out.actions if each.microbatch is None or each.microbatch < microbatches]
        )
    return Program.of(program)


def dual_pipe_v(ranks: int, microbatches: int) -> Program:
    """DualPipeV: forwards and backwards of different microbatches overlap (DeepSeek-AI 2025)."""
    check_counts("DualPipeV", ranks, microbatches, 2 * ranks, f", twice the {ranks} ranks")
    return Program.of(
        [
            write_dual(rank, ranks, microbatches, {"a": rank, "b": 2 * ranks - 1 - rank})
            for rank in range(ranks)
        ]
    )


def write_dual(place: int, ranks: int, microbatches: int, stages: dict[Chunk, int]) -> list[Action]:
    """Return the actions of a rank of DualPipe, from either end, or of DualPipeV.

    Parameters
    ----------
    place : int
        Ranks between this one and the end where its microbatches enter.
    ranks : int
        From that end to where the two ways meet.
    microbatches : int
        That enter at one end.
    stages : dict of "a", "b" to int
    """
    out = Writer(stages)
    for _ in range(2 * (ranks - place - 1)):
        out.put(("F", "a"))
    for _ in range(place + 1):
        out.put(("F", "a"), ("F", "b"))
    for _ in range(ranks - place - 1):
        out.put(("I", "b"))
        out.weight()
        out.put(("F", "b"))
    for step in range(microbatches - 2 * ranks + place + 1):
        if step == 0 and place == ranks - 1:
            out.put(("F", "a"), ("B", "b"))
        else:
            out.overlap("a", "b")
        out.overlap("b", "a")
    for _ in range(ranks - place - 1):
        out.put(("B", "b"))
        out.overlap("b", "a")
    _ebb(out, place + 1, place % 2 == 1)
    for _ in range(ranks - place - 1):
        out.weight()
        out.put(("I", "a"))
    for _ in range(place + 1):
        out.weight()
    return out.actions


def _ebb(out: Writer, steps: int, odd: bool) -> None:
    """Append backwards of both stages, with weight gradients put off from the middle on."""
    put_off = False
    for step in range(steps):
        if step == steps // 2 and odd:
            put_off = True
        out.put(("I" if put_off else "B", "b"))
        if step == steps // 2 and not odd:
            put_off = True
        out.put(("I" if put_off else "B", "a"))
