"""The place of a call among those that a worker makes to one actor."""

from __future__ import annotations

from collections import defaultdict
from itertools import count
from typing import Any

from shardwise.rpc.agent import Agent, Outgoing
from shardwise.rpc.courier import Courier
from shardwise.rpc.mailbox import Mailbox
from shardwise.rpc.rref_state import Cell, GlobalId
from shardwise.rpc.rref_table import RRefTable

__all__ = ["Turn", "Turns"]


class Turn:
    """A place in the order of one worker's calls to one actor.

    Attributes
    ----------
    actor : GlobalId
    number : int
        From 0, without gaps.
    """

    __slots__ = ("actor", "number")

    def __init__(self, actor: GlobalId, number: int) -> None:
        self.actor = actor
        self.number = number


class Turns:
    """A worker's turns at the actors of all, and the mailboxes of its own.

    Parameters
    ----------
    agent : Agent
    courier : Courier
    table : RRefTable
    """

    def __init__(self, agent: Agent, courier: Courier, table: RRefTable) -> None:
        self._agent = agent
        self._courier = courier
        self._table = table
        # Kept when the last reference of this worker ends: the actor counts on, should there be one again.
        self._numbers: defaultdict[GlobalId, count[int]] = defaultdict(count)
        courier.on("mailbox.skip", self._skip)
        agent.reduce(Turn, self._reduce)

    def take(self, actor: GlobalId) -> Turn:
        """Give the next place among this worker's calls to an actor."""
        return Turn(actor, next(self._numbers[actor]))

    def mailbox(self, cell: Cell) -> Mailbox:
        """Give the mailbox of an actor that lives here."""
        box = cell.mailbox
        if box is None:
            with self._table.lock:
                box = cell.mailbox = cell.mailbox or Mailbox(self._agent.run)
        return box

    def _reduce(self, turn: Turn, outgoing: Outgoing) -> Any:
        """Send a turn; if the call never arrives, those behind it need not wait."""

        def undo() -> None:
            self._courier.tell(outgoing.to, "mailbox.skip", turn.actor, turn.number)

        outgoing.undo.append(undo)
        return Turn, (turn.actor, turn.number)

    def _skip(self, src: int, actor: GlobalId, number: int) -> None:
        cell = self._table.owned.get(actor)
        if cell is not None:
            self.mailbox(cell).skip(src, number)
