"""One worker's part of a backward pass over the messages of a context.

The gradients that come from outside are taken up in one order, whenever they arrive: deepest message first,
where depth counts the messages on the way from the leaves, and among equals by their names. The gradient of a
message is made from those of deeper ones only, so nothing waits in a circle, and sums are made in the same
order in every run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

from shardwise.backend.array import Array
from shardwise.rpc.autograd.gathering import ContextLeaves
from shardwise.rpc.autograd.message_id import MessageId
from shardwise.rpc.autograd.record import ContextRecord, Received
from shardwise.rpc.future import Future
from shardwise.tensor import GraphTask, Tensor
from shardwise.tensor.tape import Node, Target, edges_of

__all__ = ["Mode", "Pass", "PassId", "Root"]

Mode: TypeAlias = Literal["smart", "fast"]
PassId: TypeAlias = tuple[int, int]
Root: TypeAlias = tuple[Target, int, Array]
Post: TypeAlias = Callable[[int, MessageId, Sequence[Array | None]], Future[Any]]


class Pass:
    """A backward pass, as far as this worker goes.

    Parameters
    ----------
    record : ContextRecord
    id : PassId
        Who began it, and the count there.
    post : callable
        ``post(to, message, grads)`` sends the gradients of a message back to its sender.

    Attributes
    ----------
    done : Future
        Done when all that this worker has to do, and all that it has caused elsewhere, is done.
    """

    def __init__(self, record: ContextRecord, id: PassId, post: Post) -> None:
        self.record = record
        self.id = id
        self.done: Future[None] = Future()
        self._post = post
        self._lock = threading.Lock()
        self._valid: dict[MessageId, None] = {}  # those sent that will get gradients
        self._walked: set[Node] = set()
        self._received: dict[Node, Received] = {}  # those that gradients go back through
        self._order: list[MessageId] = []  # still to come, the next one last
        self._arrived: dict[MessageId, Sequence[Array | None]] = {}
        self._task: _Task | None = None
        self._begun = False
        self._busy = False
        self._finished = False
        self._open = 0  # gradients that were sent and not answered

    # ---- before: what will come

    def reach(self, targets: Iterable[Target]) -> dict[int, list[MessageId]]:
        """Walk on from `targets`; give the messages that this newly leads to, by their senders."""
        found: dict[int, list[MessageId]] = {}
        with self._lock:
            stack = [target for target in targets if type(target) is Node]
            while stack:
                node = stack.pop()
                if node in self._walked:
                    continue
                self._walked.add(node)
                received = self.record.inbox.get(node)
                if received is not None:
                    self._received[node] = received
                    found.setdefault(received.src, []).append(received.id)
                stack.extend(edge[0] for edge in edges_of(node) if edge is not None and type(edge[0]) is Node)
        return found

    def expect(self, messages: Iterable[MessageId]) -> list[Target]:
        """Note that gradients of these messages, which were sent from here, will come; give who gets them."""
        targets: list[Target] = []
        with self._lock:
            for message in messages:
                if message not in self._valid:
                    self._valid[message] = None
                    targets += [target for target, _ in self.record.sent[message].edges]
        return targets

    # ---- while it runs

    def begin(self, roots: Sequence[Root], mode: Mode, retain_graph: bool) -> bool:
        """Begin on this worker, if that was not done yet, and say whether this did it."""
        with self._lock:
            if self._begun:
                return False
            self._begun = self._busy = True
        if mode == "fast":
            targets = self.expect(list(self.record.sent))
            self.reach([*targets, *(root[0] for root in roots)])
        sent = self.record.sent
        outside = [(*edge, None) for message in self._valid for edge in sent[message].edges]
        self._order = sorted(self._valid, key=lambda message: (sent[message].depth, message))
        self._task = _Task([*roots, *outside], self.record, self._give_back, retain_graph)
        self._task.roots = list(roots)
        self._go_on()
        return True

    def take(self, message: MessageId, grads: Sequence[Array | None]) -> None:
        """Take up the gradients of a message that was sent from here."""
        with self._lock:
            self._arrived[message] = grads
            if self._busy:
                return
            self._busy = True
        self._go_on()

    def fail(self, error: BaseException) -> None:
        """End with an error."""
        if self.done.offer_exception(error):
            self._leave(error)

    def _go_on(self) -> None:
        """Run as far as the gradients go that are here; one thread at a time does."""
        task = self._task
        assert task is not None
        try:
            while not self.done.done():
                task.run()
                self._send_rest()
                with self._lock:
                    if not self._order or self._order[-1] not in self._arrived:
                        self._busy = False
                        break
                    message = self._order.pop()
                    grads = self._arrived.pop(message)
                ours = len({id(grad) for grad in grads}) == len(grads)  # one array may be there twice
                for (target, index), grad in zip(self.record.sent[message].edges, grads, strict=True):
                    task.deliver(target, index, grad, fresh=ours)
        except BaseException as error:
            self.fail(error)
            return
        self._finish()

    def _send_rest(self) -> None:
        """Send word of messages to which no gradient flows: their senders count on it."""
        task = self._task
        assert task is not None
        for node in [node for node in self._received if task.counts.get(node, 1) == 0]:
            received = self._received.pop(node)
            if received.id not in task.returned:
                task.give_back(received.id, received.src, [None] * received.n)

    def _give_back(self, src: int, message: MessageId, grads: Sequence[Array | None]) -> None:
        with self._lock:
            self._open += 1
        self._post(src, message, grads).on_done(self._answered)

    def _answered(self, done: Future[Any]) -> None:
        error = done.exception()
        if error is not None:
            self.fail(error)
            return
        with self._lock:
            self._open -= 1
        self._finish()

    def _finish(self) -> None:
        with self._lock:
            if self._open or self._order or self._busy or self._finished or self.done.done():
                return
            self._finished = True
        assert self._task is not None
        self._task.leaves.collect()
        if self.done.offer_result(None):
            self._leave(None)

    def _leave(self, error: BaseException | None) -> None:
        with self.record.lock:
            self.record.passes.pop(self.id, None)
            self.record.ended.setdefault(self.id, error)


class _Task(GraphTask):
    """The engine's part: gradients of leaves go into the context, those of messages back to their senders."""

    leaves: ContextLeaves

    def __init__(
        self,
        roots: Sequence[tuple[Target, int, Array | None]],
        record: ContextRecord,
        give: Callable[[int, MessageId, Sequence[Array | None]], None],
        retain_graph: bool,
    ) -> None:
        def gather(wrap: Any, create_graph: bool, captures: Any) -> ContextLeaves:
            self.leaves = ContextLeaves(record, wrap, create_graph, captures)
            return self.leaves

        self.returned: set[MessageId] = set()
        self._give = give
        super().__init__(roots, _wrap, retain_graph=retain_graph, gather=gather)

    def give_back(self, message: MessageId, src: int, grads: Sequence[Array | None]) -> None:
        """Send gradients to where a message came from."""
        self.returned.add(message)
        self._give(src, message, grads)


def _wrap(array: Array) -> Tensor:
    kind: type[Tensor] = getattr(array, "tensor_class", Tensor)
    return kind(array)
