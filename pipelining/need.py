"""What an action must wait for: one place for the checker, the lowering and the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from shardwise.pipelining.action import Action

__all__ = ["NO_SKIPS", "Event", "Skips", "carried", "needs", "results", "taker"]

Event: TypeAlias = tuple[str, int, int]
"""What has happened: ``("F", stage, microbatch)``; ``"I"`` for input gradients, ``"W"`` for weights.

``("F>3", 0, i)`` is the skip value of stage 0 for stage 3, ``("I>0", 3, i)`` its gradient on the way back.
"""

Skips: TypeAlias = Mapping[int, tuple[int, ...]]
"""Stage -> later stages that take values of it beside those that go from stage to stage, ascending."""

NO_SKIPS: Final[Skips] = MappingProxyType({})


def results(action: Action, skips: Skips = NO_SKIPS) -> tuple[Event, ...]:
    """Return all that a plain computing action brings about."""
    stage, i = action.stage, action.microbatch
    assert i is not None
    if action.kind == "F":
        return (("F", stage, i), *((f"F>{t}", stage, i) for t in skips.get(stage, ())))
    if action.kind in ("I", "B"):
        found: tuple[Event, ...] = (("I", stage, i),)
        if action.kind == "B":
            found = (*found, ("W", stage, i))
        if skips:
            found = (*found, *((f"I>{s}", stage, i) for s in _sources(stage, skips)))
        return found
    return ((action.kind, stage, i),)


def needs(action: Action, stages: int, skips: Skips = NO_SKIPS) -> tuple[Event, ...]:
    """Return what must have happened before a plain computing action, on its own rank or on others.

    Parameters
    ----------
    action : Action
        F, I, W, B or R.
    stages : int
        Of the whole pipeline.
    skips : dict of int to tuple of int
        See `Program.skips`.
    """
    stage, i = action.stage, action.microbatch
    assert i is not None
    if action.kind == "F":
        before: tuple[Event, ...] = () if stage == 0 else (("F", stage - 1, i),)
        return (*before, *((f"F>{stage}", s, i) for s in _sources(stage, skips))) if skips else before
    if action.kind == "W":
        return (("I", stage, i),)
    if action.kind == "R":
        return (("F", stage, i),)
    before = (("F", stage, i),) if stage == stages - 1 else (("F", stage, i), ("I", stage + 1, i))
    # The gradient of a value that several stages took is the sum of what all of them say.
    return (*before, *((f"I>{stage}", t, i) for t in skips.get(stage, ()))) if skips else before


def carried(action: Action) -> Event:
    """Return what a transfer carries, told by its send or by its receive."""
    assert action.microbatch is not None
    forth, sends = action.kind.endswith("F"), action.kind.startswith("SEND")
    peer = action.peer
    if peer is None:
        source = action.stage if sends else action.stage + (-1 if forth else 1)
        return ("F" if forth else "I", source, action.microbatch)
    source, target = (action.stage, peer) if sends else (peer, action.stage)
    return (f"{'F' if forth else 'I'}>{target}", source, action.microbatch)


def taker(event: Event) -> tuple[tuple[str, ...], int]:
    """Return the kinds of action and the stage that take what goes from a stage to another."""
    kind, stage, _ = event
    forth = kind.startswith("F")
    target = int(kind[2:]) if ">" in kind else stage + (1 if forth else -1)
    return (("F",) if forth else ("I", "B")), target


def _sources(stage: int, skips: Skips) -> tuple[int, ...]:
    """Return the stages whose skip values a stage takes, ascending."""
    return tuple(sorted([s for s, targets in skips.items() if stage in targets]))
