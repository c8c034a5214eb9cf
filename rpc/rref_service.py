"""What an owner does for the users of its values: make them, give copies, call their methods."""

from __future__ import annotations

from functools import partial
from typing import Any

from shardwise.backend.errors import AutogradError
from shardwise.rpc.agent import Agent, Request
from shardwise.rpc.autograd.backward import backward
from shardwise.rpc.call import invoke
from shardwise.rpc.courier import Courier
from shardwise.rpc.future import Future
from shardwise.rpc.rref import RRef, reduce_rref
from shardwise.rpc.rref_state import Cell
from shardwise.rpc.rref_table import RRefTable
from shardwise.rpc.turn import Turns

__all__ = ["join_rrefs"]


def join_rrefs(agent: Agent, courier: Courier) -> RRefTable:
    """Let an agent carry RRefs; gives the table of this worker."""
    table = RRefTable(agent, courier)
    service = _Service(table, Turns(agent, courier, table))
    agent.parts[RRefTable] = table
    agent.parts[Turns] = service.turns
    agent.reduce(RRef, reduce_rref)
    agent.on("rref.create", service.create, "pool")
    agent.on("rref.fetch", service.fetch, "pool")
    agent.on("rref.type", service.tell_type, "pool")
    agent.on("rref.call", service.call, "pool")
    agent.on("rref.backward", service.run_backward, "pool")
    return table


class _Service:
    """The handlers of one worker."""

    def __init__(self, table: RRefTable, turns: Turns) -> None:
        self.table = table
        self.turns = turns

    def create(self, request: Request) -> Future[None] | None:
        """Make a value, and keep it for who asks."""
        function, args, kwargs, id, fork, ordered = request.payload
        cell = self.table.expect(id, fork, request.src, ordered)
        try:
            value = invoke(function, args, kwargs)
        except BaseException as error:
            self.table.fill(cell, None, error)
            raise
        if isinstance(value, Future):  # of a function under async_execution
            return value.then(partial(self._fill_later, cell))
        self.table.fill(cell, value)
        return None

    def _fill_later(self, cell: Cell, made: Future[Any]) -> None:
        self.table.fill(cell, None if made.exception() else made.value(), made.exception())
        made.value()

    def fetch(self, request: Request) -> object:
        """Give a copy of a value, once it was made."""
        value = self._value(request)
        return value.value() if value.done() else value

    def tell_type(self, request: Request) -> object:
        """Give the type of a value, once it was made."""
        return self._value(request).then(lambda made: type(made.value()))

    def call(self, request: Request) -> object:
        """Call a method of a value, at once or when its turn has come."""
        id, turn, name, args, kwargs = request.payload
        cell = self.table.find(id)
        call = partial(_call, cell.value, name, args, kwargs)
        return call() if turn is None else self.turns.mailbox(cell).put(request.src, turn.number, call)

    def run_backward(self, request: Request) -> None:
        """Run backward in a context, with a value as the root."""
        id, context, retain_graph = request.payload
        root = self.table.find(id).value.wait()
        if not hasattr(root, "requires_grad"):
            raise AutogradError(
                f"backward: the RRef should contain a tensor, and its value is a {type(root).__name__}"
            )
        backward(context, [root], retain_graph)

    def _value(self, request: Request) -> Future[Any]:
        return self.table.find(request.payload[0]).value


def _call(value: Future[Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    return invoke(getattr(value.wait(), name), args, kwargs)
