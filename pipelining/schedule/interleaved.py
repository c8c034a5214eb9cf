"""Schedules of several stages per rank, round and round: interleaved 1F1B, breadth-first, zero-bubble."""

from __future__ import annotations

from collections import deque

from shardwise.pipelining.action import Action
from shardwise.pipelining.program import Program
from shardwise.pipelining.schedule.shape import action, check_counts, rounds

__all__ = ["interleaved_one_forward_one_backward", "interleaved_zero_bubble", "looped_bfs"]


def looped_bfs(ranks: int, microbatches: int, per_rank: int = 1) -> Program:
    """All microbatches through one stage after the other (Lamy-Poirier 2023): weights are gathered once."""
    check_counts("LoopedBFS", ranks, microbatches)
    program = []
    for rank in range(ranks):
        stages = [rank + chunk * ranks for chunk in range(per_rank)]
        forwards = [action(stage, "F", i) for stage in stages for i in range(microbatches)]
        backwards = [action(s, "B", i) for s in reversed(stages) for i in reversed(range(microbatches))]
        program.append(forwards + backwards)
    return Program.of(program)


def interleaved_one_forward_one_backward(ranks: int, microbatches: int, per_rank: int = 2) -> Program:
    """1F1B over several stages per rank (Narayanan et al. 2021): a bubble `per_rank` times smaller."""
    check_counts("Interleaved1F1B", ranks, microbatches)
    program = []
    for rank in range(ranks):
        order = rounds("Interleaved1F1B", rank, ranks, per_rank, microbatches)
        warm_up = min(order.total, (per_rank - 1) * order.group + 2 * (ranks - 1 - rank))
        actions: list[Action] = []
        for k in range(order.total + warm_up):
            if k < order.total:
                stage, microbatch = order.forward(k)
                actions.append(action(stage, "F", microbatch))
            if k >= warm_up:
                stage, microbatch = order.backward(k - warm_up)
                actions.append(action(stage, "B", microbatch))
        program.append(actions)
    return Program.of(program)


def interleaved_zero_bubble(ranks: int, microbatches: int, per_rank: int = 1) -> Program:
    """ZB1P: input gradients first, weight gradients `rank` steps later (Qi et al. 2024)."""
    check_counts("InterleavedZeroBubble", ranks, microbatches)
    program = []
    for rank in range(ranks):
        order = rounds("InterleavedZeroBubble", rank, ranks, per_rank, microbatches)
        warm_up = min(order.total, (per_rank - 1) * order.group + (ranks - 1 - rank))
        actions: list[Action] = []
        waiting: deque[tuple[int, int]] = deque()
        for k in range(order.total + warm_up):
            if k < order.total:
                stage, microbatch = order.forward(k)
                actions.append(action(stage, "F", microbatch))
            if k >= warm_up:
                waiting.append(order.backward(k - warm_up))
                stage, microbatch = waiting[-1]
                actions.append(action(stage, "I", microbatch))
                if k - warm_up >= rank:
                    stage, microbatch = waiting.popleft()
                    actions.append(action(stage, "W", microbatch))
        program.append(actions + [action(stage, "W", microbatch) for stage, microbatch in waiting])
    return Program.of(program)
