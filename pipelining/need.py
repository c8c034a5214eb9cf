"""What an action must wait for: one place for the checker, the lowering and the simulator."""

from __future__ import annotations

from shardwise.pipelining.action import Action

__all__ = ["Event", "event", "needs", "results"]

Event = tuple[str, int, int]
"""What has happened: ``("F", stage, microbatch)``; ``"I"`` for input gradients, ``"W"`` for weights."""


def event(action: Action) -> Event:
    """Return what a plain computing action brings about; a full backward brings input gradients."""
    assert action.microbatch is not None
    return ("I" if action.kind == "B" else action.kind, action.stage, action.microbatch)


def results(action: Action) -> tuple[Event, ...]:
    """Return all that a plain computing action brings about."""
    assert action.microbatch is not None
    if action.kind == "B":
        return (("I", action.stage, action.microbatch), ("W", action.stage, action.microbatch))
    return (event(action),)


def needs(action: Action, stages: int) -> tuple[Event, ...]:
    """Return what must have happened before a plain computing action, on its own rank or on others.

    Parameters
    ----------
    action : Action
        F, I, W, B or R.
    stages : int
        Of the whole pipeline.
    """
    stage, microbatch = action.stage, action.microbatch
    assert microbatch is not None
    if action.kind == "F":
        return () if stage == 0 else (("F", stage - 1, microbatch),)
    if action.kind == "W":
        return (("I", stage, microbatch),)
    if action.kind == "R":
        return (("F", stage, microbatch),)
    before: tuple[Event, ...] = (("F", stage, microbatch),)
    return before if stage == stages - 1 else (*before, ("I", stage + 1, microbatch))
