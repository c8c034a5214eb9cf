"""`Recording`: when this rank did what in a step."""

from __future__ import annotations

from typing import NamedTuple

from shardwise.pipelining.action import Action

__all__ = ["Moment", "Recording"]


class Moment(NamedTuple):
    """One action, and when: in seconds of this rank's clock.

    Attributes
    ----------
    place : int
        In the lowered program.
    begin : float
        When the rank came to it.
    waited : float
        For what comes from other ranks, before it could start.
    end : float
    """

    place: int
    action: Action
    begin: float
    waited: float
    end: float


class Recording:
    """The actions of a step, in the order in which they were done."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []

    def add(self, place: int, action: Action, begin: float, waited: float, end: float) -> None:
        """Note an action."""
        self.moments.append(Moment(place, action, begin, waited, end))
