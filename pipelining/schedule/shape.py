"""Which stage and microbatch come next where a rank has several stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining.action import Action

__all__ = ["Rounds", "action", "check_counts", "rounds"]


def action(stage: int, kind: Literal["F", "I", "W", "B"], microbatch: int) -> Action:
    """Return an action that computes."""
    return Action(stage, kind, microbatch)


def check_counts(name: str, ranks: int, microbatches: int, least: int = 1, why: str = "") -> None:
    """Refuse a pipeline without ranks, and too few microbatches."""
    if ranks < 1:
        raise ScheduleError(f"{name}: wanted at least one rank, got {ranks}")
    if microbatches < least:
        raise ScheduleError(f"{name}: wanted at least {least} microbatches{why}, got {microbatches}")


class Rounds(NamedTuple):
    """The order of forwards and backwards of a rank with `v` stages.

    Attributes
    ----------
    group : int
        Microbatches that go through one stage before the next one is taken up.
    total : int
        Forwards of a rank.
    forward, backward : callable
        Number of the step -> (stage, microbatch).
    """

    group: int
    total: int
    forward: Callable[[int], tuple[int, int]]
    backward: Callable[[int], tuple[int, int]]


def rounds(name: str, rank: int, ranks: int, per_rank: int, microbatches: int) -> Rounds:
    """Return the order in which a rank with several stages takes up microbatches, in rounds of equal groups.

    Raises
    ------
    ScheduleError
        The microbatches cannot be parted into ``max(1, m // p)`` equal groups.
    """
    count = max(1, microbatches // ranks)
    if microbatches % count:
        raise ScheduleError(
            f"{name}: {microbatches} microbatches on {ranks} ranks are {count} rounds, which do not divide "
            f"them; take a multiple of {count}, such as {microbatches + count - microbatches % count}"
        )
    group = microbatches // count

    def place(step: int, turned: bool) -> tuple[int, int]:
        chunk = (step // group) % per_rank
        chunk = per_rank - 1 - chunk if turned else chunk
        return chunk * ranks + rank, step // (group * per_rank) * group + step % group

    return Rounds(group, microbatches * per_rank, lambda k: place(k, False), lambda k: place(k, True))
