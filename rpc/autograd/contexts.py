"""The contexts that one worker knows, and what travels with messages because of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import Any

from shardwise.backend.array import Array
from shardwise.backend.errors import AutogradError
from shardwise.rpc.agent import Agent, Incoming, Outgoing, Request
from shardwise.rpc.autograd.message_id import Chain, MessageId, answer_to, current_chain
from shardwise.rpc.autograd.receive import receive_tensors
from shardwise.rpc.autograd.record import ContextRecord, Received
from shardwise.rpc.autograd.sweep import Mode, Pass, PassId, Root
from shardwise.rpc.courier import Courier
from shardwise.rpc.future import Future, collect_all
from shardwise.tensor import Tensor
from shardwise.tensor.tape import Target

__all__ = ["Contexts"]

_REMEMBERED = 10_000  # contexts that have ended, in case that messages of theirs are still on their way
_BROKEN_OFF = "backward was broken off: another worker has failed in it"
_PLAIN = ("errand", "autograd.")  # kinds of messages that are no part of a program


class Contexts:
    """Keeps the contexts of one worker, joins the tapes of messages, and takes part in backward passes.

    Parameters
    ----------
    agent : Agent
    courier : Courier
    """

    key = "autograd"

    def __init__(self, agent: Agent, courier: Courier) -> None:
        self._agent = agent
        self._courier = courier
        self._me = agent.me.id
        self._lock = threading.Lock()
        self._ids = count()
        self._passes = count()
        self._records: dict[int, ContextRecord] = {}
        self._ended: dict[int, None] = {}
        agent.accompany(self)
        agent.on("autograd.prepare", self._asked_to_prepare, "io")
        agent.on("autograd.grads", self._given, "pool")
        courier.on("autograd.end", lambda src, id: self.end(id, src))
        courier.on("autograd.abort", lambda src, id, pass_id: self._abort(id, pass_id))

    # ---- contexts

    def begin(self) -> int:
        """Make a context; gives its id."""
        id = self._me << 48 | next(self._ids)
        with self._lock:
            self._records[id] = ContextRecord(id)
        return id

    def end(self, id: int, told_by: int | None = None) -> None:
        """Forget a context, here and at all workers that know of it; nothing happens if that was done."""
        with self._lock:
            record = self._records.pop(id, None)
            self._ended[id] = None
            while len(self._ended) > _REMEMBERED:
                del self._ended[next(iter(self._ended))]
        if record is None:
            return
        for running in list(record.passes.values()):
            running.fail(AutogradError(f"backward was broken off: {self._missing(id)}"))
        for worker in record.known - {self._me, told_by, id >> 48}:  # who began it has ended it
            self._courier.tell(worker, "autograd.end", id)

    def find(self, id: int) -> ContextRecord:
        """Give a context that this worker knows.

        Raises
        ------
        TypeError
            If `id` is no number.
        AutogradError
            If there is none.
        """
        if isinstance(id, bool) or not isinstance(id, int):
            raise TypeError(f"a context is named by the number that context() gives; got {id!r}")
        record = self._records.get(id)
        if record is None:
            raise AutogradError(self._missing(id))
        return record

    def gradients(self, id: int) -> dict[Tensor, Tensor]:
        """Give the gradients that a context has here; none if it has not come here."""
        record = self._records.get(id)
        return {} if record is None else record.gradients()

    def debug_info(self) -> dict[str, int]:
        """Give how many contexts there are, and backward passes in them."""
        records = list(self._records.values())
        return {
            "num_autograd_contexts": len(records),
            "num_backward_passes": sum(len(record.passes) for record in records),
        }

    def _missing(self, id: int) -> str:
        return (
            f"Could not find autograd context with id: {id} on {self._agent.me}; it has ended, or no "
            f"message of "
            "it has come here"
        )

    def _known(self, id: int) -> ContextRecord | None:
        """Give a context, made if this is the first that is heard of it; None if it has ended."""
        with self._lock:
            if id in self._ended:
                return None
            record = self._records.get(id)
            if record is None:
                record = self._records[id] = ContextRecord(id)
            return record

    # ---- what travels with messages

    def leave(self, outgoing: Outgoing) -> object:
        """Name the message, and note its tensors."""
        if outgoing.kind.startswith(_PLAIN):
            return None
        if outgoing.reply_to is not None:
            note: Any = outgoing.reply_to.notes.get(self.key)
            if note is None:
                return None
            id, asked, _ = note
            message = answer_to(asked)
        else:
            chain = current_chain.get()
            if chain is None:
                return None
            id, message = chain.context, chain.next_message()
        record = self._records.get(id)
        if record is None:
            return None
        record.known.add(outgoing.to)
        tensors = [tensor for tensor in outgoing.tensors if tensor.requires_grad]
        if not tensors:
            return id, message, 0
        depth = record.send(message, tensors)
        outgoing.undo.append(lambda: record.forget(message))
        return id, message, depth

    def arrive(self, note: object, incoming: Incoming) -> AbstractContextManager[object] | None:
        """Put tensors on the tape; gives what the call that came runs in."""
        told: Any = note
        id, message, depth = told
        record = self._known(id)
        if record is None:
            return None
        record.known.add(incoming.src)
        tensors = [tensor for tensor in incoming.tensors if tensor.requires_grad]
        if tensors:
            node = receive_tensors(tensors, message, incoming.src)
            record.receive(node, Received(message, incoming.src, len(tensors)), depth)
        return _serving(Chain(id, message)) if incoming.reply_to is None else None

    # ---- backward

    def run_backward(
        self, record: ContextRecord, roots: Sequence[Root], retain_graph: bool, mode: Mode, timeout: float
    ) -> None:
        """Run a pass that begins here, to its end everywhere."""
        running = self._pass(record, (self._me, next(self._passes)), retain_graph, mode)
        try:
            if mode == "smart":
                targets = [root[0] for root in roots]
                self._prepare(record, running, targets, retain_graph).wait(timeout or None)
            running.begin(roots, mode, retain_graph)
            running.done.wait(timeout or None)
        except BaseException as error:
            running.fail(error)
            self._abort(record.id, running.id)
            raise

    def _pass(self, record: ContextRecord, id: PassId, retain_graph: bool, mode: Mode) -> Pass:
        with record.lock:
            if id in record.ended:
                raise record.ended[id] or AutogradError(_BROKEN_OFF)
            running: Pass | None = record.passes.get(id)
            if running is None:

                def post(to: int, message: MessageId, grads: Sequence[Array | None]) -> Future[Any]:
                    payload = (record.id, id, mode, retain_graph, message, list(grads))
                    return self._agent.send(to, "autograd.grads", payload, 0.0, blocking=False)

                running = record.passes[id] = Pass(record, id, post)
            return running

    def _prepare(
        self, record: ContextRecord, running: Pass, targets: Sequence[Target], retain_graph: bool
    ) -> Future[Any]:
        """Tell the workers that messages came from that gradients will go back, and they theirs."""
        asked = []
        for to, messages in running.reach(targets).items():
            payload = (record.id, running.id, retain_graph, messages)
            asked.append(self._agent.send(to, "autograd.prepare", payload, 0.0, blocking=False))
        done: Future[None] = Future()
        collect_all(asked).on_done(lambda all: _complete(done, all))
        return done

    def _asked_to_prepare(self, request: Request) -> Future[Any]:
        id, pass_id, retain_graph, messages = request.payload
        record = self.find(id)
        running = self._pass(record, pass_id, retain_graph, "smart")
        return self._prepare(record, running, running.expect(messages), retain_graph)

    def _given(self, request: Request) -> Future[None] | None:
        """Take up gradients; the answer to the first tells when all is done that follows from them."""
        id, pass_id, mode, retain_graph, message, grads = request.payload
        record = self.find(id)
        running = self._pass(record, pass_id, retain_graph, mode)
        first = running.begin([], mode, retain_graph)
        running.take(message, grads)
        return running.done if first else None

    def _abort(self, id: int, pass_id: PassId) -> None:
        """Break off a pass here and at all workers that take part in it."""
        record = self._records.get(id)
        if record is None:
            return
        with record.lock:
            running = record.passes.pop(pass_id, None)
            told = pass_id in record.aborted
            record.ended.setdefault(pass_id, None)
            record.aborted.add(pass_id)
        if running is not None:
            running.fail(AutogradError(_BROKEN_OFF))
        if not told:
            for worker in record.known - {self._me}:
                self._courier.tell(worker, "autograd.abort", id, pass_id)


@contextmanager
def _serving(chain: Chain) -> Iterator[None]:
    token = current_chain.set(chain)
    try:
        yield
    finally:
        current_chain.reset(token)


def _complete(done: Future[None], all: Future[Any]) -> None:
    error = all.exception()
    if error is None:
        done.offer_result(None)
    else:
        done.offer_exception(error)
