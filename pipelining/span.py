"""`Span` and `Transfer`: an action and a message, and when they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shardwise.pipelining.action import Action
from shardwise.pipelining.need import Event

__all__ = ["Span", "Transfer"]


@dataclass(frozen=True, slots=True)
class Span:
    """One action of a rank, and when it runs.

    Attributes
    ----------
    place : int
        Which of the actions that take time on this rank.
    start, end : float
    cause : tuple of (int, int) or None
        Rank and place of the action that it waited for last: what it begins right behind.
    why : str
        What it waited for: the action before it (``order``), a ``value``, or ``parameters``.
    """

    rank: int
    place: int
    action: Action
    start: float
    end: float
    cause: tuple[int, int] | None
    why: Literal["order", "value", "parameters"] = "order"

    @property
    def length(self) -> float:
        """Time that it takes."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Transfer:
    """What goes from a rank to another.

    Attributes
    ----------
    what : Event
        ``("F", stage, microbatch)`` for the output of a stage, ``"I"`` for the gradient of its input.
    ready, start, end : float
        When it can leave, when the link is free for it, when it has arrived.
    amount : float
        In units of ``Costs.message``.
    producer : int
        Place of what made it, on its rank.
    """

    source: int
    target: int
    what: Event
    ready: float
    start: float
    end: float
    amount: float
    producer: int
