"""The backward engine: a `GraphTask` walks the tape once, newest op first.

One sweep counts the gradients that each node and leaf will receive. A node runs when its count
reaches zero; a leaf is finished, and its hooks fire, when its own does. Nothing recurses, and
arrivals from outside (`GraphTask.expect`, `GraphTask.deliver`) count like those from within.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextvars import ContextVar
from heapq import heappop, heappush
from typing import Any

import numpy as np

from shardwise.backend.allocator import keep_pages
from shardwise.backend.array import Array
from shardwise.backend.errors import AnomalyError, AutogradError
from shardwise.tensor.broadcasting import unbroadcast
from shardwise.tensor.function import Context
from shardwise.tensor.leaf import LeafGradients, add_gradients, show_to_hooks
from shardwise.tensor.mode import current_mode, override
from shardwise.tensor.tape import Node, Target

__all__ = ["GraphTask", "current_task"]

_task: ContextVar[GraphTask | None] = ContextVar("shardwise_graph_task", default=None)
current_task = _task.get


class GraphTask:
    """One backward pass over the tape.

    Parameters
    ----------
    roots : iterable of (Target, int, gradient)
        Where gradients enter: a node or leaf, the output's index, the gradient.
    wrap : callable
        Makes a tensor of an array; under `create_graph` gradients are tensors already.
    want : callable, optional
        ``want(target, index)`` tells which edges to follow; all of them if not given.
    captures : dict, optional
        ``(target, index) -> key``: gradients to collect in `results` instead of a leaf's ``.grad``.
    park : list, optional
        Collects ``(node, gradients)`` for nodes with edges that `want` refused, whose saved
        arrays are then kept: the second half of a two-phase backward starts there.
    heard : collection of (Node, int), optional
        Results whose hooks have had their gradient, in the first half.
    """

    def __init__(
        self,
        roots: Iterable[tuple[Target, int, Any]],
        wrap: Callable[[Any], Any],
        *,
        want: Callable[[Target, int], bool] | None = None,
        captures: dict[tuple[Target, int], int] | None = None,
        park: list[tuple[Node, list[Any]]] | None = None,
        heard: Collection[tuple[Node, int]] = (),
        retain_graph: bool = False,
        create_graph: bool = False,
    ) -> None:
        self.roots = list(roots)
        self.wrap = wrap
        self.want = want
        self.captures = captures or {}
        self.park = park
        self.heard = heard
        self.retain_graph = retain_graph
        self.create_graph = create_graph
        self.results: dict[int, Any] = {}
        self.counts: dict[Target, int] = {}
        self._ready: list[tuple[int, Node]] = []
        self._grads: dict[Node, list[Any]] = {}
        self._fresh: dict[tuple[Node, int], bool] = {}  # is the waiting sum ours to write into
        self._leaves = LeafGradients(wrap, create_graph, self.captures)
        self._callbacks: list[Callable[[], None]] = []
        self._sweep()

    # ---- counting

    def _sweep(self) -> None:
        counts, stack = self.counts, []
        for target, _, _ in self.roots:
            if target not in counts:
                counts[target] = 0
                stack.append(target)
            counts[target] += 1
        while stack:
            node = stack.pop()
            if type(node) is not Node:
                continue
            for edge in node.edges:
                if edge is None or (self.want is not None and not self.want(*edge)):
                    continue
                target = edge[0]
                if target not in counts:
                    counts[target] = 0
                    stack.append(target)
                counts[target] += 1

    def expect(self, target: Target, n: int = 1) -> None:
        """Announce `n` gradients that `deliver` will bring from outside."""
        self.counts[target] = self.counts.get(target, 0) + n

    def on_finish(self, callback: Callable[[], None]) -> None:
        """Call back once, when this task has nothing left to run."""
        self._callbacks.append(callback)

    @property
    def pending(self) -> int:
        """Number of gradients still to arrive."""
        return sum(self.counts.values())

    # ---- running

    def run(self) -> None:
        """Deliver the roots' gradients and run every node that becomes ready."""
        keep_pages()
        roots, self.roots = self.roots, []
        token = _task.set(self)
        try:
            with override(grad=self.create_graph, doors=()):
                for target, index, grad in roots:
                    self.deliver(target, index, grad)
                while self._ready:
                    self._execute(heappop(self._ready)[1])
            if not self.pending:
                callbacks, self._callbacks = self._callbacks, []
                for callback in callbacks:
                    callback()
        finally:
            _task.reset(token)

    def deliver(self, target: Target, index: int, grad: Any, fresh: bool = False) -> None:
        """Add one gradient to those waiting for `target`; None counts as having arrived.

        `fresh` says that the array belongs to nobody else, so that sums may be made in it.
        """
        left = self.counts[target] = self.counts[target] - 1
        if type(target) is Node:
            if grad is not None:
                waiting = self._grads.get(target)
                if waiting is None:
                    waiting = self._grads[target] = [None] * len(target.outs)
                if waiting[index] is not None:
                    grad, fresh = add_gradients(
                        waiting[index], self._fresh[target, index], grad, fresh, self.create_graph
                    )
                waiting[index] = grad
                self._fresh[target, index] = fresh
            if left == 0:
                heappush(self._ready, (-target.order, target))
            return
        if grad is not None:
            self._leaves.arrive(target, grad, fresh)
        if left == 0:
            self._leaves.finish(target, self.results)

    def _execute(self, node: Node) -> None:
        grads = self._grads.pop(node, None)
        if grads is None:  # only Nones arrived: nothing flows on, but those below must hear of it
            for edge in node.edges:
                if edge is not None and (self.want is None or self.want(*edge)):
                    self.deliver(*edge, None)
            return
        for index in range(len(grads)):
            self._fresh.pop((node, index), None)
        if node.hooks is not None or node.retained is not None:
            self._call_hooks(node, grads)
        if self.captures:
            for index, grad in enumerate(grads):
                key = self.captures.get((node, index))
                if key is not None:
                    self.results[key] = grad
        need = tuple([edge is not None and (self.want is None or self.want(*edge)) for edge in node.edges])
        parked = self.park is not None and any(
            edge is not None and not wanted for edge, wanted in zip(node.edges, need, strict=True)
        )
        if True in need and any(grad is None for grad in grads):  # outputs that nobody used
            like = next(grad for grad in grads if grad is not None)
            grads = [
                np.zeros_like(like, shape=shape, dtype=dtype) if grad is None else grad
                for grad, (shape, dtype) in zip(grads, node.outs, strict=True)
            ]
        if parked:
            assert self.park is not None
            self.park.append((node, grads))
        if True in need:
            self._differentiate(node, grads, need)
        if not (parked or self.retain_graph or self.create_graph):
            node.free()

    def _differentiate(self, node: Node, grads: list[Any], need: tuple[bool, ...]) -> None:
        saved = node.saved()
        ctx = node.ctx
        if self.create_graph:
            ctx = _copy(ctx)
            saved = self._saved_tensors(node, saved)
        ctx.need, ctx.saved = need, saved
        ctx.into = self._places(node, need)
        try:
            results = node.function.backward(ctx, *grads)
        finally:
            if node.saver is not None and ctx is node.ctx:
                ctx.saved = ()
        if len(results) != len(need):
            raise AutogradError(
                f"backward of {node.name} returned {len(results)} gradients for {len(need)} inputs; "
                "return one per input, None where there is none"
            )
        for i, (edge, grad) in enumerate(zip(node.edges, results, strict=True)):
            if not need[i]:
                continue
            assert edge is not None
            if grad is None:
                self.deliver(*edge, None)
                continue
            shaped = self._conform(node, i, edge, grad)
            fresh = shaped is not grad or (
                not (self.create_graph or shaped is ctx.into[i])
                and getattr(shaped, "base", shaped) is None
                and not any(shaped is other for other in (*grads, *saved, *results[:i], *results[i + 1 :]))
                and not any(shaped is kept for kept in ctx.__dict__.values())
            )
            self.deliver(*edge, shaped, fresh and not self.create_graph)

    def _conform(self, node: Node, i: int, edge: tuple[Target, int], grad: Any) -> Any:
        """Give a gradient the shape and dtype of what it is the gradient of."""
        target, index = edge
        if type(target) is Node:
            shape, dtype = target.outs[index]
        else:
            shape, dtype = target.data.shape, target.data.dtype
        if isinstance(grad, np.generic):
            grad = np.asarray(grad)
        if grad.shape != shape:
            if not (node.function.broadcasts and _broadcasts(shape, grad.shape)):
                raise AutogradError(
                    f"backward of {node.name} returned a gradient of shape {grad.shape} for input {i} "
                    f"of shape {shape}"
                )
            grad = unbroadcast(grad, shape)
        if grad.dtype != dtype:
            grad = (grad.real if grad.dtype.kind == "c" and dtype.kind != "c" else grad).astype(dtype)
        if current_mode().anomaly and bool(np.any(np.isnan(getattr(grad, "data", grad)))):
            raise AnomalyError(f"backward of {node.name} gave NaN in the gradient of its input {i}")
        return grad

    def _saved_tensors(self, node: Node, saved: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return saved inputs and outputs as tensors on the tape, statistics as None."""
        tensors: list[Any] = []
        for array, origin in zip(saved, node.origins, strict=True):
            if array is None or origin is None:
                tensors.append(None)
                continue
            if not hasattr(array, "dtype"):  # a Python scalar
                tensors.append(array)
                continue
            if origin < 0:
                tensor = self.wrap(array)
                tensor.requires_grad, tensor.node, tensor.index = True, node, -1 - origin
            elif (edge := node.edges[origin]) is None:
                tensor = self.wrap(array)
            elif type(edge[0]) is Node:
                tensor = self.wrap(array)
                tensor.requires_grad, (tensor.node, tensor.index) = True, edge
            else:
                tensor = edge[0]
            tensors.append(tensor)
        return tuple(tensors)

    def _places(self, node: Node, need: tuple[bool, ...]) -> tuple[Array | None, ...]:
        places: list[Array | None] = []
        for edge, wanted in zip(node.edges, need, strict=True):
            place = None
            if wanted and edge is not None and type(edge[0]) is not Node:
                place = self._leaves.place(edge[0])
                if any(place is other for other in places):  # the same leaf twice
                    place = None
            places.append(place)
        return tuple(places)

    def _call_hooks(self, node: Node, grads: list[Any]) -> None:
        for index, hooks in (node.hooks or {}).items():
            if grads[index] is not None and (node, index) not in self.heard:
                grads[index] = show_to_hooks(
                    hooks, grads[index], f"a result of {node.name}", None if self.create_graph else self.wrap
                )
        for index, reference in (node.retained or {}).items():
            tensor = reference()
            if tensor is not None and grads[index] is not None and (node, index) not in self.heard:
                grad = grads[index] if self.create_graph else tensor.wrap(grads[index].copy())
                tensor.grad = grad if tensor.grad is None else tensor.grad + grad


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Tell whether an array of `shape` broadcasts to the shape `to`."""
    tail = to[len(to) - len(shape) :]
    return len(shape) <= len(to) and all(n in (1, m) for n, m in zip(shape, tail, strict=True))


def _copy(ctx: Context) -> Context:
    copy = Context()
    copy.__dict__.update(ctx.__dict__)
    return copy
