"""What one worker remembers of a context: messages with tensors, gradients, passes."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from shardwise.backend.array import Array
from shardwise.rpc.autograd.message_id import MessageId
from shardwise.tensor import Tensor
from shardwise.tensor.tape import Node, Target, edges_of

__all__ = ["ContextRecord", "Received", "Sent"]


@dataclass(frozen=True, slots=True)
class Sent:
    """A message with tensors that went out.

    Attributes
    ----------
    edges : list of (Target, int)
        Of the tensors that require grad: who gets the gradient, and as which output.
    depth : int
        One more than that of the deepest message that was received and that it was computed from.
    """

    edges: list[tuple[Target, int]]
    depth: int


@dataclass(frozen=True, slots=True)
class Received:
    """A message with tensors that came in.

    Attributes
    ----------
    id : MessageId
    src : int
        Who sent it.
    n : int
        How many of its tensors require grad.
    """

    id: MessageId
    src: int
    n: int


class ContextRecord:
    """One worker's part of a context.

    Attributes
    ----------
    id : int
    known : set of int
        Workers with which messages were exchanged.
    sent : dict of MessageId to Sent
    inbox : mapping of Node to Received
    passes : dict of (int, int) to Pass
        Backward passes that run.
    ended : dict of (int, int) to (BaseException or None)
        Passes that run no more, and why if that was an error.
    aborted : set of (int, int)
        Those of them that were broken off, which the known workers were told.
    """

    def __init__(self, id: int) -> None:
        self.id = id
        self.lock = threading.Lock()
        self.known: set[int] = set()
        self.sent: dict[MessageId, Sent] = {}
        self.inbox: WeakKeyDictionary[Node, Received] = WeakKeyDictionary()
        self.passes: dict[tuple[int, int], Any] = {}
        self.ended: dict[tuple[int, int], BaseException | None] = {}
        self.aborted: set[tuple[int, int]] = set()
        self._grads: dict[Tensor, Array] = {}
        self._depths: WeakKeyDictionary[Node, int] = WeakKeyDictionary()

    def send(self, message: MessageId, tensors: list[Tensor]) -> int:
        """Note tensors that go out; gives the depth of the message."""
        edges: list[tuple[Target, int]] = [
            (tensor, 0) if tensor.node is None else (tensor.node, tensor.index) for tensor in tensors
        ]
        with self.lock:
            depth = 1 + max(self._depth(target) for target, _ in edges)
            self.sent[message] = Sent(edges, depth)
        return depth

    def forget(self, message: MessageId) -> None:
        """Undo `send` for a message that has not arrived."""
        with self.lock:
            self.sent.pop(message, None)

    def receive(self, node: Node, received: Received, depth: int) -> None:
        """Note the node of a message that came in."""
        with self.lock:
            self.inbox[node] = received
            self._depths[node] = depth

    def _depth(self, target: Target) -> int:
        """Give the depth of the deepest message that something was computed from, 0 for none."""
        depths = self._depths
        if type(target) is not Node:
            return 0
        stack = [target]
        while stack:
            node = stack[-1]
            if node in depths:
                stack.pop()
                continue
            below = [edge[0] for edge in edges_of(node) if edge is not None and type(edge[0]) is Node]
            missing = [each for each in below if each not in depths]
            if missing:
                stack.extend(missing)
                continue
            depths[node] = max((depths[each] for each in below), default=0)
            stack.pop()
        return depths[target]

    def add(self, leaf: Tensor, grad: Any, fresh: bool) -> None:
        """Add a gradient of a leaf to those of this context."""
        with self.lock:
            before = self._grads.get(leaf)
            if before is not None:
                self._grads[leaf] = before + grad
            else:
                self._grads[leaf] = grad if fresh else grad.copy()

    def gradients(self) -> dict[Tensor, Tensor]:
        """Give the gradients so far, by leaf."""
        with self.lock:
            return {leaf: leaf.wrap(grad) for leaf, grad in self._grads.items()}
