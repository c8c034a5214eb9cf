"""The place on the tape where tensors have come in with a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from shardwise.backend.array import Array
from shardwise.backend.errors import AutogradError
from shardwise.rpc.autograd.message_id import MessageId
from shardwise.tensor import Tensor, current_task
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.tape import Node, record_many

__all__ = ["Receive", "Returning", "receive_tensors"]


@runtime_checkable
class Returning(Protocol):
    """A backward that can send gradients to where a message came from."""

    def give_back(self, message: MessageId, src: int, grads: Sequence[Array | None]) -> None:
        """Send the gradients of all tensors of a message to worker `src`."""


class Receive(Function):
    """Tensors of a message; the gradients go back to its sender."""

    signature = "*"
    exact = True

    @staticmethod
    def forward(ctx: Context, *arrays: Array) -> Any:
        return arrays

    @staticmethod
    def backward(ctx: Context, *grads: Array) -> Gradients:
        task = current_task()
        if not isinstance(task, Returning):
            raise AutogradError(
                "backward has come to a tensor that another worker has sent, and would end there: call "
                "rpc.autograd.backward(context, [loss]) instead of loss.backward()"
            )
        task.give_back(ctx.message, ctx.src, grads)
        return ()


def receive_tensors(tensors: Sequence[Tensor], message: MessageId, src: int) -> Node:
    """Make tensors that came in results of a `Receive` node, which this gives."""
    node = Node(())
    node.message, node.src = message, src
    node.saved = (message,)  # freed by a backward that keeps no graph, so that a second one is noticed
    record_many(node, Receive, (), (), tuple(tensors))
    return node
