"""Asking all ranks where they are, while a collective does not end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from shardwise.collectives.control import JSON, ControlPlane, Message
from shardwise.collectives.flight.account import Account, Condition, Finding
from shardwise.collectives.flight.held import look_at

__all__ = ["Inquiry", "PlaneInquiry", "Tell", "ThreadInquiry"]

Tell: TypeAlias = Callable[[str, int, bool], Account]
"""Gives this rank's account, from (group, number of the operation, whether with stacks)."""

_KIND = "inquiry"


class Inquiry(Protocol):
    """How one rank asks the others."""

    def inquire(self, group: str, seq: int, timeout: float, stacks: bool) -> Mapping[int, Finding]:
        """Ask all ranks about operation `seq` of `group`, for at most `timeout` seconds or little more.

        With `stacks`, this is about a verdict, and they tell all they can.
        """


class PlaneInquiry:
    """Asks over the control plane.

    Parameters
    ----------
    plane : ControlPlane
    tell : callable
        Gives the account of this rank. It is called on the thread of the control plane.
    keep : callable
        Called on a thread of its own where a verdict is being made, to keep what this rank knows.
    """

    def __init__(self, plane: ControlPlane, tell: Tell, keep: Callable[[], None]) -> None:
        self._plane = plane
        self._tell = tell
        self._keep = keep
        plane.on(_KIND, self._asked)

    def inquire(self, group: str, seq: int, timeout: float, stacks: bool) -> Mapping[int, Finding]:
        plane = self._plane
        body: dict[str, JSON] = {"group": group, "seq": seq, "stacks": stacks}
        answers = plane.ask(range(plane.size), _KIND, body, timeout=timeout)
        return {rank: self._found(rank, answers.get(rank), stacks) for rank in range(plane.size)}

    def _found(self, rank: int, answer: Message | None, stacks: bool) -> Finding:
        plane = self._plane
        peer = plane.peer(rank)
        account = None if answer is None else Account.decode(answer.body)
        if peer.state == "left" or peer.state == "failed" or peer.state == "dead":
            return Finding(rank, peer.state, account, peer.seconds, peer.reason)
        if account is not None:
            return Finding(rank, "answered", account)
        condition: Condition = "silent"
        text = ""
        if stacks and plane.hosts[rank] == plane.hosts[plane.rank]:
            condition, text = look_at(plane.members[rank].pid)
        return Finding(rank, condition, None, peer.seconds, "", text)

    def _asked(self, message: Message) -> None:
        match message.body:
            case {"group": str(group), "seq": int(seq), "stacks": bool(stacks)}:
                self._plane.answer(message, self._tell(group, seq, stacks).encode())
                if stacks:
                    threading.Thread(target=self._keep, name="shardwise-flight", daemon=True).start()


class ThreadInquiry:
    """Asks ranks that are threads of this process.

    Parameters
    ----------
    tellers : mapping of int to pairs of callables
        Of each rank that has a world, what tells its account and what keeps what it knows: shared by all of
        them, and growing.
    size : int
    ended : callable
        Gives how each rank that has ended did.
    """

    def __init__(
        self,
        tellers: Mapping[int, tuple[Tell, Callable[[], None]]],
        size: int,
        ended: Callable[[], Mapping[int, Condition]],
    ) -> None:
        self._tellers = tellers
        self._size = size
        self._ended = ended

    def inquire(self, group: str, seq: int, timeout: float, stacks: bool) -> Mapping[int, Finding]:
        ended = self._ended()
        return {rank: self._found(rank, ended.get(rank), group, seq, stacks) for rank in range(self._size)}

    def _found(self, rank: int, end: Condition | None, group: str, seq: int, stacks: bool) -> Finding:
        if end is not None:
            return Finding(rank, end)
        if rank not in self._tellers:
            return Finding(rank, "answered", Account(0, None, None, None))
        tell, keep = self._tellers[rank]
        if stacks:
            keep()
        return Finding(rank, "answered", tell(group, seq, stacks))
