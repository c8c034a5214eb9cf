"""DualPipe: two replicas of the model, and microbatches from both ends (DeepSeek-AI 2024)."""

from __future__ import annotations

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining.action import Action
from shardwise.pipelining.program import Program
from shardwise.pipelining.schedule.shape import check_counts
from shardwise.pipelining.schedule.vee import write_dual

__all__ = ["dual_pipe"]


def dual_pipe(ranks: int, microbatches: int) -> Program:
    """Half of the microbatches enter at rank 0, the other half at the last rank.

    Rank r holds stage r for the first half and stage p - 1 - r for the second: each stage has two replicas,
    whose gradients are added up at the end of the step. In flight are p + 1 microbatches of one stage.
    """
    if ranks < 2 or ranks % 2:
        raise ScheduleError(f"DualPipe: wanted an even number of ranks, got {ranks}")
    check_counts("DualPipe", ranks, microbatches, 2 * ranks, f", twice the {ranks} ranks")
    if microbatches % 2:
        raise ScheduleError(f"DualPipe: wanted an even number of microbatches, got {microbatches}")
    half = microbatches // 2
    program = []
    for rank in range(ranks):
        forth = rank < ranks // 2
        place = rank if forth else ranks - 1 - rank  # from the end at which the own half enters
        # Stages are numbered apart from replicas: each half of the ranks begins at stage 0.
        own, other = place, ranks - 1 - place
        actions = write_dual(place, ranks // 2, half, {"a": own, "b": other})
        # On the first half of the ranks "a" belongs to the first half of the microbatches.
        offset = {own: 0 if forth else half, other: half if forth else 0}
        program.append([_shifted(action, offset) for action in actions])
    return Program.of(program)


def _shifted(action: Action, offset: dict[int, int]) -> Action:
    """Return the action with its microbatch counted among all of them."""
    if action.parts:
        first, second = [_shifted(part, offset) for part in action.parts]
        return Action(first.stage, action.kind, None, (first, second))
    assert action.microbatch is not None
    return Action(action.stage, action.kind, action.microbatch + offset[action.stage])
