"""Gradients of leaves go into a context, and leave ``grad`` as it was."""

from __future__ import annotations

from typing import Any

from shardwise.backend.array import Array
from shardwise.rpc.autograd.record import ContextRecord
from shardwise.tensor.leaf import LeafGradients
from shardwise.tensor.tape import Leaf

__all__ = ["ContextLeaves"]


class ContextLeaves(LeafGradients):
    """Keeps the gradients of one backward for a context.

    Leaves with hooks on their finished ``grad``, or a place for it, belong to something that works on these:
    data parallelism averages them. They get their ``grad`` first, from none, and `collect` takes it away.

    Parameters
    ----------
    record : ContextRecord
    wrap, create_graph, captures
        As for `LeafGradients`.
    """

    def __init__(self, record: ContextRecord, wrap: Any, create_graph: bool, captures: Any) -> None:
        super().__init__(wrap, create_graph, captures)
        self._record = record
        self._aside: dict[Leaf, Any] = {}

    def place(self, leaf: Leaf) -> Array | None:
        self._set_aside(leaf)
        return super().place(leaf)

    def arrive(self, leaf: Leaf, grad: Any, fresh: bool) -> None:
        self._set_aside(leaf)
        super().arrive(leaf, grad, fresh)

    def accumulate(self, leaf: Leaf, grad: Any, fresh: bool) -> None:
        if leaf in self._aside:
            super().accumulate(leaf, grad, fresh)
        else:
            self._record.add(leaf, grad, fresh)  # type: ignore[arg-type]

    def collect(self) -> None:
        """Move what was put into ``grad`` for others to see into the context."""
        aside, self._aside = self._aside, {}
        for leaf, before in aside.items():
            if leaf.grad is not None:
                self._record.add(leaf, leaf.grad.data, False)  # type: ignore[arg-type]
            leaf.grad = before

    def _set_aside(self, leaf: Leaf) -> None:
        if leaf in self._aside or (leaf.sink is None and not leaf.post_hooks):
            return
        before = leaf.grad
        if before is not None and leaf.sink is not None and before.data is leaf.sink:
            before = before.wrap(leaf.sink.copy())  # its memory is written next
        self._aside[leaf] = before
        leaf.grad = None
