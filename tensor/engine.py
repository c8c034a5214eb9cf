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
from shardwise.backend.errors import AutogradError
from shardwise.tensor.function import Context
from shardwise.tensor.gradient import conformed, fill_unused, is_owned, saved_tensors
from shardwise.tensor.leaf import LeafGradients, add_gradients, show_to_hooks
from shardwise.tensor.mode import Timer, backward_mode, current_mode, enter_mode, leave_mode
from shardwise.tensor.narrow import backward_wide
from shardwise.tensor.tape import Node, Target, edges_of, saved_arrays

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
    gather : callable, optional
        Makes what keeps the gradients of leaves, called as `LeafGradients` is; by default that.
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
        gather: Callable[..., LeafGradients] = LeafGradients,
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
        self._fresh: set[tuple[Node, int]] = set()  # whose waiting sums are ours to write into
        self._leaves = gather(wrap, create_graph, self.captures)
        self._sinks = False  # is there a leaf that names where its gradient shall lie
        self._anomaly = False
        self._timer: Timer | None = None
        self._keep = retain_graph or create_graph
        self._callbacks: list[Callable[[], None]] = []
        self._sweep()

    # ---- counting

    def _sweep(self) -> None:
        counts, stack, want = self.counts, [], self.want
        for target, _, _ in self.roots:
            if target not in counts:
                counts[target] = 0
                stack.append(target)
            counts[target] += 1
        while stack:
            node = stack.pop()
            if type(node) is not Node:
                self._sinks = self._sinks or node.sink is not None
                continue
            targets = node._targets if want is None else self._wanted(node)
            for target in targets:
                if target in counts:
                    counts[target] += 1
                elif target is not None:
                    counts[target] = 1
                    stack.append(target)

    def _wanted(self, node: Node) -> tuple[Target | None, ...]:
        """Return the targets of a node, None for those that are not asked for."""
        want = self.want
        assert want is not None
        return tuple([None if edge is None or not want(*edge) else edge[0] for edge in edges_of(node)])

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
        mode = current_mode()
        self._anomaly, self._timer = mode.anomaly, mode.timer
        token = _task.set(self)
        try:
            before = enter_mode(backward_mode(mode, self.create_graph))
            try:
                # The forward has said what there is to say of divisions by zero and the like.
                with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                    for target, index, grad in roots:
                        self.deliver(target, index, grad)
                    while self._ready:
                        self._execute(heappop(self._ready)[1])
                    self._leaves.finish_late(self.results)
            finally:
                leave_mode(before)
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
        if type(target) is not Node:
            if grad is not None:
                self._leaves.arrive(target, grad, fresh)
            if left == 0:
                self._leaves.finish(target, self.results)
            return
        if grad is not None:
            waiting = self._grads.get(target)
            if waiting is None:
                waiting = self._grads[target] = [None] * (1 + len(target._more))
            if waiting[index] is not None:
                ours = (target, index) in self._fresh
                grad, fresh = add_gradients(waiting[index], ours, grad, fresh, self.create_graph)
            waiting[index] = grad
            if fresh:
                self._fresh.add((target, index))
        if left == 0:
            heappush(self._ready, (-target._order, target))

    def _execute(self, node: Node) -> None:
        grads = self._grads.pop(node, None)
        targets = node._targets if self.want is None else self._wanted(node)
        if grads is None:  # only Nones arrived: nothing flows on, but those below must hear of it
            for target in targets:
                if target is not None:
                    self.deliver(target, 0, None)
            return
        if self._fresh:
            self._fresh.difference_update([(node, index) for index in range(len(grads))])
        if node._hooks is not None:
            self._call_hooks(node, grads)
        if self.captures:
            for index, grad in enumerate(grads):
                key = self.captures.get((node, index))
                if key is not None:
                    self.results[key] = grad
        if self.want is None:
            self._differentiate(node, grads, targets, node.need)
        else:
            need = tuple([target is not None for target in targets])
            need = node.need if need == node.need else need  # told apart by identity
            if (
                self.park is not None
                and need is not node.need
                and type(node.saved) not in (tuple, type(None))
            ):
                node.saved = saved_arrays(node)  # made again, once for both halves
            if True in need:
                self._differentiate(node, grads, targets, need)
            if self.park is not None and need is not node.need:
                self.park.append((node, grads))
                return
        if node.saved and not self._keep:
            node.saved = None

    def _differentiate(
        self, node: Node, grads: list[Any], targets: tuple[Target | None, ...], need: tuple[bool, ...]
    ) -> None:
        """Run the backward of one op and send its gradients on."""
        saved = node.saved
        if saved != ():
            saved = saved_arrays(node)
        if len(grads) > 1:
            fill_unused(node, grads)
        first = grads[0]
        ctx: Context = node
        if (
            self.create_graph
            or self._sinks
            or saved is not node.saved
            or first.itemsize == 2
            or need is not node.need
        ):
            ctx, grads = self._context(node, grads, saved, need)
        results: Any
        if self._timer is None:
            results = node._function.backward(ctx, *grads)
        else:
            results = self._timer.backward(node, ctx, grads)
        if type(results) is not tuple and not isinstance(results, list):
            results = (results,)  # PyTorch lets ops of one input return their gradient as it is
        if len(results) != len(targets):
            raise AutogradError(
                f"backward of {node} returned {len(results)} gradients for {len(targets)} inputs; "
                "return one per input, None where there is none"
            )
        counts, sums, indices = self.counts, self._leaves.sums, node._indices
        i = -1
        for target in targets:
            i += 1
            if target is None:
                continue
            grad = results[i]
            index = indices[i] if indices else 0
            if grad is None:
                self.deliver(target, index, None)
                continue
            sum_: Any = None
            leaf = type(target) is not Node
            if leaf:
                sum_ = sums.get(target)
                data = target.data
                shape, dtype = data.shape, data.dtype
            elif index:
                shape, dtype = target._more[index - 1]
            else:
                shape, dtype = target._shape, target._dtype
            if (
                grad.shape != shape
                or grad.dtype is not dtype
                or isinstance(grad, np.generic)
                or self._anomaly
            ):
                grad = conformed(node, i, grad, shape, dtype)
            left = counts[target] - 1
            if leaf:
                if left and sum_ is not None and sum_[1]:  # as `deliver` does, in fewer steps
                    counts[target] = left
                    total = sum_[0]
                    total += grad
                    continue
            elif not left and not target._more and target not in self._grads:  # all that it gets
                counts[target] = 0
                self._grads[target] = [grad]
                heappush(self._ready, (-target._order, target))
                continue
            # Does the array belong to nobody else, so that sums may be made in it?
            fresh = not self.create_graph and grad is not first
            fresh = fresh and is_owned(grad, i, results, grads, saved, ctx)
            self.deliver(target, index, grad, fresh)

    def _context(
        self, node: Node, grads: list[Any], saved: tuple[Any, ...], need: tuple[bool, ...]
    ) -> tuple[Context, list[Any]]:
        """Return what a backward works with where that is not simply what the node has.

        The node stays as it is: other threads may walk the same tape for other gradients.
        """
        ctx = Context(need)
        ctx.__dict__.update(node.__dict__)
        if self.create_graph and node._function.recall is not None:
            attributes, saved = node._function.recall(node, saved, self.wrap)
            ctx.__dict__.update(attributes)
        elif self.create_graph:
            saved = saved_tensors(node, saved, self.wrap)
        elif grads[0].itemsize == 2:
            grads, saved = backward_wide(node._function, grads, saved)
        ctx.saved = saved
        if self._sinks:
            ctx.into = self._places(node, need)
        return ctx, grads

    def _places(self, node: Node, need: tuple[bool, ...]) -> tuple[Array | None, ...]:
        places: list[Array | None] = []
        for target, wanted in zip(node._targets, need, strict=True):
            place = None
            if wanted and target is not None and type(target) is not Node:
                place = self._leaves.place(target)
                if any(place is other for other in places):  # the same leaf twice
                    place = None
            places.append(place)
        return tuple(places)

    def _call_hooks(self, node: Node, grads: list[Any]) -> None:
        for index, hooks in (node._hooks or {}).items():
            if grads[index] is not None and (node, index) not in self.heard:
                grads[index] = show_to_hooks(
                    hooks, grads[index], f"a result of {node}", None if self.create_graph else self.wrap
                )
        for index, reference in (node._retained or {}).items():
            tensor = reference()
            if tensor is not None and grads[index] is not None and (node, index) not in self.heard:
                grad = grads[index] if self.create_graph else tensor.wrap(grads[index].copy())
                tensor.grad = grad if tensor.grad is None else tensor.grad + grad
