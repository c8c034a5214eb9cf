"""Who holds which remote value: the protocol of RRefs, as the state of one worker.

An owner keeps a value in a `Cell` as long as one of its forks lives: each user handle in the group is a fork,
which has an id of its own. Two things are always true. The owner hears of the end of each handle. And a
handle does not end before the owner knows of the handles that were made from it. Together: no value is
dropped early, and none is kept for ever.

A creator's handle is confirmed by the answer to its request. The other messages may overtake each other, and
a `Courier` sees to it that each takes effect once:

=================  ==========================  ==================================================
message            from, to                    means
=================  ==========================  ==================================================
``rref.fork``      a new user, owner           I was given a handle by another user; note it
``rref.accept``    a new user, its giver       the owner knows of me: your handle may end
``rref.delete``    user, owner                 these handles have ended
``rref.abandon``   creator, owner              making this value has failed, as far as I know
=================  ==========================  ==================================================
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

from shardwise.backend.errors import RpcError, RpcTimeoutError, RRefError
from shardwise.backend.source import Place
from shardwise.rpc.agent import Agent, Incoming, Outgoing
from shardwise.rpc.courier import Courier
from shardwise.rpc.future import Future
from shardwise.rpc.rref_state import Cell, GlobalId, Handle, Reference, Wire, described

__all__ = ["RRefTable"]

_GATHERING = 0.002  # seconds
_REMEMBERED = 10_000  # values that have ended, in case that something is still on its way to them


class RRefTable:
    """What one worker knows of remote values: those that it owns, and its handles on those of others.

    Parameters
    ----------
    agent : Agent
    courier : Courier
    """

    def __init__(self, agent: Agent, courier: Courier) -> None:
        self.agent = agent
        self.owned: dict[GlobalId, Cell] = {}
        self.users: dict[GlobalId, Handle] = {}
        self.children: dict[GlobalId, Handle] = {}
        self._me = agent.me.id
        self._courier = courier
        self._ids = count()
        self.lock = threading.Lock()
        self._gone: dict[GlobalId, None] = {}
        self._dropped: deque[Handle] = deque()
        self._sweeping = False
        self._waiting: list[Future[None]] = []
        courier.on_quiet = self._notice
        courier.on("rref.fork", self._fork_asked)
        courier.on("rref.accept", lambda src, fork: self._accepted(fork))
        courier.on("rref.delete", self._deleted)
        courier.on("rref.abandon", self._abandoned_by)
        agent.on_death(self._bury)
        agent.before_shutdown(self._end)

    def new_id(self) -> GlobalId:
        """Give a number that is used nowhere else."""
        return GlobalId(self._me, next(self._ids))

    # ---- making values

    def own(self, value: object, line: Place) -> Cell:
        """Make a cell for a value that is here; the table knows it once it is shared."""
        cell = Cell(self.new_id(), self.agent.run, False, False, line)
        cell.value.set_result(value)
        return cell

    def begin(self, to: int, line: Place, ordered: bool = False) -> tuple[Reference, GlobalId]:
        """Begin to make a value on worker `to`; gives this worker's share in it, and its fork."""
        id = self.new_id()
        if to == self._me:
            cell = Cell(id, self.agent.run, True, ordered, line)
            with self.lock:
                cell.forks[id] = to  # its own making holds it
                self.owned[id] = cell
            return cell, id
        handle = Handle(id, self.new_id(), to, ordered, line)
        with self.lock:
            self.users[handle.fork] = handle
        return handle, handle.fork

    def made(self, reference: Reference, answer: Future[Any]) -> None:
        """Follow up on how the making of a value has ended, as its beginner hears."""
        if isinstance(reference, Cell):
            cell = reference

            def close(done: Future[Any]) -> None:
                error = done.exception()
                if error is not None:
                    cell.value.offer_exception(error)
                    self._remember(cell.id)
                cell.creating = False
                self._remove(cell.id, [cell.id])

            answer.on_done(close)
            return
        handle = reference

        def heard(done: Future[Any]) -> None:
            error = done.exception()
            if error is None:
                self._confirm(handle.fork)
            else:
                self._fail(handle, error)

        answer.on_done(heard)

    def drop_begun(self, reference: Reference) -> None:
        """Undo `begin` where nothing was sent."""
        with self.lock:
            if isinstance(reference, Cell):
                self.owned.pop(reference.id, None)
            else:
                reference.ended = True
                self.users.pop(reference.fork, None)
        self._notice()

    def expect(self, id: GlobalId, fork: GlobalId, src: int, ordered: bool = False) -> Cell:
        """Note, at the owner, that `src` has a value made here; gives the cell for it."""
        with self.lock:
            cell = self.owned.get(id)
            if cell is None:
                cell = Cell(id, self.agent.run, True)
                if id not in self._gone:
                    self.owned[id] = cell
            if id not in self._gone:
                cell.forks[fork] = src
            cell.creating, cell.ordered = True, ordered
        return cell

    def fill(self, cell: Cell, value: object, error: BaseException | None = None) -> None:
        """Put a value, or the error of its making, into its cell."""
        if error is None:
            cell.value.offer_result(value)
        else:
            cell.value.offer_exception(error)
        cell.creating = False
        self._remove(cell.id, [])

    def find(self, id: GlobalId) -> Cell:
        """Give the cell of a value that is owned here; one that is yet to be heard of is made.

        Raises
        ------
        RRefError
            If it has ended, or its making was given up.
        """
        with self.lock:
            cell = self.owned.get(id)
            if cell is None:
                self._refuse_gone(id)
                cell = self.owned[id] = Cell(id, self.agent.run, True)
            return cell

    def pin(self, cell: Cell) -> Callable[[object], None]:
        """Keep a value of this worker where messages find it, until what this gives is called."""
        id, fork = cell.id, self.new_id()
        with self.lock:
            cell.forks[fork] = self._me
            self.owned[id] = cell
        return lambda _: self._remove(id, [fork])

    # ---- sharing

    def share(self, reference: Reference, outgoing: Outgoing) -> Wire:
        """Make a fork of a reference that is being sent."""
        fork = self.new_id()
        if isinstance(reference, Cell):
            id = reference.id  # what is undone later does not keep the value
            with self.lock:
                reference.forks[fork] = outgoing.to
                self.owned[id] = reference
            outgoing.undo.append(lambda: self._remove(id, [fork]))
            return self._me, id, fork, self._me, reference.ordered
        handle = reference
        if handle.error is not None:
            raise RRefError(
                f"{described(handle)} cannot be sent: making its value has failed"
            ) from handle.error
        with self.lock:
            handle.children[fork] = outgoing.to
            self.children[fork] = handle
        outgoing.undo.append(lambda: self._accepted(fork))
        return handle.owner, handle.id, fork, self._me, handle.ordered

    def receive(self, wire: Wire, incoming: Incoming) -> Reference:
        """Take up what `share` has sent."""
        owner, id, fork, parent, ordered = wire
        if owner == self._me:
            cell = self.find(id)
            cell.ordered = ordered  # the making may not have come yet
            if parent == self._me:
                self._remove(id, [fork])
            else:
                self._courier.tell(parent, "rref.accept", fork)
            return cell
        handle = Handle(id, fork, owner, ordered)
        with self.lock:
            self.users[fork] = handle
        if parent == owner:
            handle.ready.set_result(None)
            return handle

        def asked(done: Future[None]) -> None:
            error = done.exception()
            if error is None:
                self._confirm(fork)
            else:
                self._fail(handle, error, at_owner=False)
            self._courier.tell(parent, "rref.accept", fork)

        self._courier.tell(owner, "rref.fork", id, fork).on_done(asked)
        incoming.before.append(handle.ready)
        return handle

    # ---- ending

    def drop(self, handle: Handle) -> None:
        """Give a handle up. Takes no lock and sends nothing, so that finalisers may call it."""
        self._dropped.append(handle)
        if not self._sweeping:
            self._sweeping = True
            self.agent.soon(self._gather)

    def _gather(self) -> None:
        """Wait a moment, since what is dropped together is told in one message."""
        self.agent.later(_GATHERING, self._sweep)

    def _sweep(self) -> None:
        """Tell the owners of all handles that were dropped meanwhile, each in one message."""
        self._sweeping = (
            False  # first, so that what is dropped from now on is either seen here or swept again
        )
        dropped: list[Handle] = []
        while self._dropped:
            dropped.append(self._dropped.popleft())
        with self.lock:
            for handle in dropped:
                handle.dropped = True
        self._tell_ended(dropped)

    def _tell_ended(self, handles: list[Handle]) -> None:
        ended: dict[int, list[tuple[GlobalId, GlobalId]]] = {}
        with self.lock:
            for handle in handles:
                if handle.ended or not (handle.dropped and handle.ready.done()) or handle.children:
                    continue
                handle.ended = True
                self.users.pop(handle.fork, None)
                if handle.error is None or handle.failed_there:
                    ended.setdefault(handle.owner, []).append((handle.id, handle.fork))
        for owner, forks in ended.items():
            self._courier.tell(owner, "rref.delete", forks)
        self._notice()

    def _deleted(self, src: int, forks: list[tuple[GlobalId, GlobalId]]) -> None:
        for id, fork in forks:
            self._remove(id, [fork])

    def _remove(self, id: GlobalId, forks: list[GlobalId]) -> None:
        with self.lock:
            cell = self.owned.get(id)
            if cell is None:
                return
            for fork in forks:
                cell.forks.pop(fork, None)
            if cell.forks or cell.creating:
                return
            del self.owned[id]
            self._remember(id)
        self._destroy(cell)

    def _destroy(self, cell: Cell) -> None:
        """Let a value go in the pool: its destructor may be a user's."""
        kept = [cell]
        del cell
        self.agent.run(kept.clear)

    # ---- confirmations

    def _confirm(self, fork: GlobalId) -> None:
        handle = self.users.get(fork)
        if handle is not None and handle.ready.offer_result(None):
            self._tell_ended([handle])

    def _fork_asked(self, src: int, id: GlobalId, fork: GlobalId) -> None:
        self.find(id)
        with self.lock:
            cell = self.owned.get(id)
            if cell is not None:
                cell.forks[fork] = src

    def _accepted(self, fork: GlobalId) -> None:
        with self.lock:
            handle = self.children.pop(fork, None)
            if handle is not None:
                handle.children.pop(fork, None)
        if handle is not None:
            self._tell_ended([handle])

    # ---- failures

    def _fail(self, handle: Handle, error: BaseException, at_owner: bool = True) -> None:
        """Note that a handle is of no use.

        The owner is told, since it may have the value nevertheless: at once where no answer has come, so that
        others do not wait for a value that may never be made; else when the handle ends.
        """
        with self.lock:
            if handle.error is not None:
                return
            handle.error = error if isinstance(error, Exception) else RpcError(repr(error))
        handle.ready.offer_result(None)
        handle.failed_there = at_owner and not isinstance(error, RpcTimeoutError)
        if at_owner and not handle.failed_there:
            self._courier.tell(handle.owner, "rref.abandon", handle.id, handle.fork)
        self._tell_ended([handle])

    def _abandoned_by(self, src: int, id: GlobalId, fork: GlobalId) -> None:
        with self.lock:
            cell = self.owned.get(id)
            self._remember(id)
            if cell is not None and fork not in cell.forks and cell.creating:  # its making was never heard of
                cell.creating = False
                unheard = cell
            else:
                unheard = None
        if unheard is not None:
            unheard.value.offer_exception(RRefError(_given_up(id)))
        self._remove(id, [fork])

    def _remember(self, id: GlobalId) -> None:
        self._gone[id] = None
        while len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]

    def _refuse_gone(self, id: GlobalId) -> None:
        if id in self._gone:
            raise RRefError(_given_up(id))

    def _bury(self, worker: int, error: Exception) -> None:
        """Forget the handles of a worker that has died, and fail those on its values."""
        with self.lock:
            cells = list(self.owned.values())
            users = list(self.users.values())
        for cell in cells:
            forks = [fork for fork, holder in list(cell.forks.items()) if holder == worker]
            if (
                cell.creating and cell.id.created_on == worker and not forks
            ):  # its making will never be heard of
                cell.value.offer_exception(error)
                cell.creating = False
            elif not forks:
                continue
            self._remove(cell.id, forks)
        for handle in users:
            if handle.owner == worker:
                self._fail(handle, error, at_owner=False)
            for fork in [fork for fork, to in list(handle.children.items()) if to == worker]:
                self._accepted(fork)

    # ---- the whole

    def settled(self) -> Future[None]:
        """Give the future of the moment when all handles are confirmed and all messages have arrived."""
        moment: Future[None] = Future()
        with self.lock:
            self._waiting.append(moment)
        self._notice()
        return moment

    def _notice(self) -> None:
        with self.lock:
            busy = self.children or any(not handle.ready.done() for handle in self.users.values())
            if busy or self._dropped or self._courier.under_way:
                return
            waiting, self._waiting = self._waiting, []
        for moment in waiting:
            moment.offer_result(None)

    def _end(self, timeout: float | None) -> None:
        """Confirm and delete all handles of this worker, before the agent stops."""
        self.settled().wait(timeout)
        with self.lock:
            handles = list(self.users.values())
            for handle in handles:
                handle.dropped = True
        self._tell_ended(handles)
        self.settled().wait(timeout)

    def references(self) -> tuple[list[Cell], list[Handle]]:
        """Give the values that others refer to, and the handles on those of others."""
        with self.lock:
            return list(self.owned.values()), list(self.users.values())

    def debug_info(self) -> dict[str, int]:
        """Give how many values, handles and open questions there are."""
        with self.lock:
            return {
                "num_owner_rrefs": len(self.owned),
                "num_user_rrefs": len(self.users),
                "num_forks": sum(len(cell.forks) for cell in self.owned.values()),
                "num_pending_users": sum(not handle.ready.done() for handle in self.users.values()),
                "num_pending_children": len(self.children),
                "num_pending_errands": self._courier.under_way,
            }


def _given_up(id: GlobalId) -> str:
    return (
        f"the value of RRef {id} is not here: its references have ended, or making it has failed or has "
        f"taken "
        "longer than it may"
    )
