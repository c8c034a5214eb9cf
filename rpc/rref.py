"""`RRef`: a reference to a value that lives on one worker and may be used from all."""

from __future__ import annotations

import copy
from types import TracebackType
from typing import Any, Generic, NoReturn, Self, TypeVar

from shardwise.backend.errors import AutogradError, RRefError
from shardwise.backend.source import source_place
from shardwise.rpc.agent import Incoming, Outgoing
from shardwise.rpc.call import call_timeout
from shardwise.rpc.current import current_agent
from shardwise.rpc.future import Future
from shardwise.rpc.pickling import incoming
from shardwise.rpc.proxy import AsyncCalls, RemoteCalls, StreamCalls, SyncCalls
from shardwise.rpc.rref_state import Cell, Handle, Reference, Wire, described
from shardwise.rpc.rref_table import RRefTable
from shardwise.rpc.worker_info import WorkerInfo

__all__ = ["RRef", "reduce_rref"]

T = TypeVar("T")


class RRef(Generic[T]):
    """A reference to a value on its owner, which keeps it until the last reference in the group has ended.

    ``RRef(value)`` makes one for a value that is here; `remote` makes the value on another worker. Sent in
    calls and answers, it goes by reference.

    Parameters
    ----------
    value : object
    type_hint : type, optional
        What `value_type` gives; by default the type of the value.

    Raises
    ------
    RpcError
        If there is no agent: call `init_rpc` first.
    """

    __slots__ = ("__weakref__", "_reference", "_table", "_type")
    _type: Future[type] | None
    _reference: Reference | None
    _table: RRefTable

    def __init__(self, value: T, type_hint: type | None = None) -> None:
        self._reference = None
        self._table = current_agent().parts[RRefTable]
        self._type = None
        if type_hint is not None:
            self._type = Future()
            self._type.set_result(type_hint)
        self._reference = self._table.own(value, source_place())

    @classmethod
    def over(cls, table: RRefTable, reference: Reference) -> RRef[Any]:
        """Make one for a cell or handle that `table` has given."""
        rref: RRef[Any] = cls.__new__(cls)
        rref._table, rref._reference, rref._type = table, reference, None
        return rref

    # ---- whose it is

    def is_owner(self) -> bool:
        """Say whether the value is on this worker."""
        return isinstance(self._live("is_owner"), Cell)

    def owner(self) -> WorkerInfo:
        """Give the worker that has the value."""
        reference = self._live("owner")
        agent = self._table.agent
        return agent.me if isinstance(reference, Cell) else agent.workers[reference.owner]

    def owner_name(self) -> str:
        """Give the name of the worker that has the value."""
        return self.owner().name

    def confirmed_by_owner(self) -> bool:
        """Say whether the owner is known to know of this reference."""
        reference = self._live("confirmed_by_owner")
        return isinstance(reference, Cell) or (reference.ready.done() and reference.error is None)

    # ---- the value

    def local_value(self) -> T:
        """Give the value itself, on its owner; wait until it was made.

        Raises
        ------
        RRefError
            On any other worker.
        Exception
            What making the value has raised.
        """
        reference = self._live("local_value")
        if isinstance(reference, Cell):
            value: T = reference.value.wait()
            return value
        raise RRefError(
            f"cannot call local_value() on user {self._table.agent.me}, since the value is at the owner: "
            f"call "
            f"it on owner {self.owner()}, or to_here() for a copy"
        )

    def to_here(self, timeout: float = -1) -> T:
        """Fetch a copy of the value, anew at each call; the owner gets the value itself.

        Parameters
        ----------
        timeout : float
            Seconds to wait, also until the value was made; 0 for no limit, -1 for the default of the agent.

        Raises
        ------
        RpcTimeoutError
            If that takes longer.
        Exception
            What making the value has raised.
        """
        patience = call_timeout(timeout)
        reference = self._live("to_here")
        value: T
        if isinstance(reference, Cell):
            value = reference.value.wait(patience or None)
        else:
            try:
                value = self.ask("rref.fetch", (), patience).wait()
            except RRefError:
                if reference.error is None:
                    raise
                raise _again(reference.error) from None  # the making has failed meanwhile
        return value

    def rpc_sync(self, timeout: float = -1) -> SyncCalls:
        """Give a proxy: ``rref.rpc_sync().method(*args)`` runs on the owner, and gives the result."""
        return SyncCalls(self, call_timeout(timeout))

    def rpc_async(self, timeout: float = -1) -> AsyncCalls:
        """Give a proxy: ``rref.rpc_async().method(*args)`` runs on the owner, and gives a `Future`."""
        return AsyncCalls(self, call_timeout(timeout))

    def remote(self, timeout: float = -1) -> RemoteCalls:
        """Give a proxy: ``rref.remote().method(*args)`` runs on the owner, and gives an `RRef` to it."""
        return RemoteCalls(self, call_timeout(timeout))

    def stream(self, window: int = 16, timeout: float = -1) -> StreamCalls:
        """Give a proxy: ``rref.stream().method(*args)`` iterates over what a generator gives on the owner.

        At most `window` values are made before they are asked for.
        """
        return StreamCalls(self, call_timeout(timeout), window)

    def backward(self, dist_autograd_ctx_id: int = -1, retain_graph: bool = False) -> None:
        """Run backward with the value as the root, on its owner.

        Parameters
        ----------
        dist_autograd_ctx_id : int
            The context, into which gradients go. -1 for none, on the owner only: they go to ``grad`` then.
        retain_graph : bool
            Keep the graph for another backward.

        Raises
        ------
        AutogradError
            If the value is no tensor, or no scalar; or a user gives no context.
        """
        reference = self._live("backward")
        if dist_autograd_ctx_id == -1:
            if isinstance(reference, Handle):
                raise AutogradError("backward of a user's RRef needs a context: give dist_autograd_ctx_id")
            value: Any = reference.value.wait()
            if not hasattr(value, "requires_grad"):
                raise AutogradError(
                    f"backward: the RRef should contain a tensor, and its value is a {type(value).__name__}"
                )
            value.backward(retain_graph=retain_graph)
            return
        self.ask("rref.backward", (dist_autograd_ctx_id, retain_graph), 0.0).wait()

    def value_type(self, timeout: float = -1, blocking: bool = True) -> Any:
        """Give the type of the value, asked for once; a Future of it if not `blocking`."""
        patience = call_timeout(timeout)
        if self._type is None or (self._type.done() and self._type.exception() is not None):
            self._live("value_type")
            self._type = self.ask("rref.type", (), patience)
        return self._type.wait(patience or None) if blocking else self._type

    _get_type = value_type  # as PyTorch has it

    # ---- its end

    def release(self) -> None:
        """End this reference now, and not when Python finds that nobody has it; it cannot be used after."""
        reference, self._reference = self._reference, None
        if isinstance(reference, Handle):
            self._table.drop(reference)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __del__(self) -> None:
        # Runs in any thread, inside of any lock.
        reference = getattr(self, "_reference", None)
        if isinstance(reference, Handle):
            self._table.drop(reference)

    # ---- for the house

    def ask(self, kind: str, arguments: tuple[object, ...], timeout: float | None) -> Future[Any]:
        """Send the owner a message about the value; this reference lives until the answer has come."""
        reference = self._live(kind)
        if isinstance(reference, Handle) and reference.error is not None:
            failed: Future[Any] = Future(self._table.agent.run)
            failed.set_exception(_again(reference.error))
            return failed
        to = self.owner().id
        unpin = self._table.pin(reference) if isinstance(reference, Cell) else lambda _, kept=self: None
        try:
            answer = self._table.agent.send(to, kind, (reference.id, *arguments), timeout)
        except BaseException:
            unpin(None)
            raise
        answer.on_done(unpin)
        return answer

    @property
    def table(self) -> RRefTable:
        """The table that it belongs to."""
        return self._table

    @property
    def reference(self) -> Reference:
        """The cell or handle that it stands for."""
        return self._live("reference")

    def _live(self, asked: str) -> Reference:
        reference = self._reference
        if reference is None or (isinstance(reference, Handle) and reference.dropped):
            raise RRefError(
                f"Cannot call {asked}() on it after deletion: this RRef was released, or RPC has been shut "
                f"down"
            )
        return reference

    def __reduce__(self) -> NoReturn:
        raise RRefError(
            "Can not pickle rref in python pickler: it goes in calls only, where the owner hears of it; "
            "pickle "
            "what to_here() gives"
        )

    def __copy__(self) -> RRef[T]:
        return self

    def __deepcopy__(self, memo: object) -> RRef[T]:
        return self

    def __repr__(self) -> str:
        return "RRef(released)" if self._reference is None else described(self._reference)


def reduce_rref(rref: RRef[Any], outgoing: Outgoing) -> tuple[Any, tuple[Wire]]:
    """Send an RRef by reference: the reducer that the agent is given."""
    return _arrived, (rref.table.share(rref.reference, outgoing),)


def _again(error: Exception) -> Exception:
    """Copy an error before it is raised: its traceback would keep the frames of all who have seen it."""
    try:
        found = copy.copy(error)
    except Exception:
        found = RRefError(f"making the value has failed: {type(error).__name__}: {error}")
    found.__cause__ = error.__cause__
    return found


def _arrived(wire: Wire) -> RRef[Any]:
    message: Incoming = incoming()
    table = message.agent.parts[RRefTable]
    return RRef.over(table, table.receive(wire, message))
