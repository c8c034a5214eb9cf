"""Where gradients end up: sums of arrivals, sinks, hooks, ``grad``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import AutogradError
from shardwise.tensor.tape import Leaf, Target, Version

__all__ = ["LeafGradients", "add_gradients", "renewed_memory", "show_to_hooks"]

# NumPy lets other threads run while it adds, and two backwards may meet at one leaf. A leaf has no lock of
# its own, because there are many; these few are shared out by its address.
_locks = tuple(threading.Lock() for _ in range(16))


class LeafGradients:
    """The gradients of the leaves of one backward, until each is complete.

    Parameters
    ----------
    wrap : callable
        Makes a tensor of an array.
    create_graph : bool
        Gradients are tensors, and are never written into.
    captures : dict
        ``(leaf, 0) -> key`` for leaves whose gradient is asked for by `grad`.
    """

    def __init__(
        self, wrap: Callable[[Any], Any], create_graph: bool, captures: dict[tuple[Target, int], int]
    ) -> None:
        self.wrap = wrap
        self.create_graph = create_graph
        self.captures = captures
        self.sums: dict[Leaf, tuple[Any, bool]] = {}  # so far, and whether it may be written into
        self._late: list[tuple[Leaf, Any]] = []  # complete, but lying otherwise than the leaf does

    def place(self, leaf: Leaf) -> Array | None:
        """Return the array into which an op may write the first gradient of a leaf, if there is one."""
        free = leaf.grad is None and leaf not in self.sums and self._direct(leaf)
        return leaf.sink if free else None

    def _direct(self, leaf: Leaf) -> bool:
        """Tell whether a leaf's gradient goes straight into its sink."""
        return leaf.sink is not None and not (leaf.hooks or self.create_graph or (leaf, 0) in self.captures)

    def arrive(self, leaf: Leaf, grad: Any, fresh: bool) -> None:
        """Take in one gradient; `fresh` says that its array may be written into."""
        before = self.sums.get(leaf)
        sink = leaf.sink
        if sink is not None and self._direct(leaf):
            if before is None and leaf.grad is None:
                if grad is not sink:
                    np.copyto(sink, grad)
            else:
                if before is None and leaf.grad.data is not sink:
                    np.copyto(sink, leaf.grad.data)
                np.add(sink, grad, out=sink)
            self.sums[leaf] = (sink, False)
        elif before is None:
            self.sums[leaf] = (grad, fresh)
        else:
            self.sums[leaf] = add_gradients(*before, grad, fresh, self.create_graph)

    def finish(self, leaf: Leaf, results: dict[int, Any]) -> None:
        """Give a leaf its complete gradient, or `results` if it was asked for; then call its hooks."""
        arrived = self.sums.pop(leaf, None)
        if arrived is None:
            return
        grad, fresh = arrived
        if leaf.sink is not None and grad is leaf.sink:
            if leaf.grad is None or leaf.grad.data is not grad:
                leaf.grad = leaf.wrap(grad)
        else:
            if leaf.hooks:
                grad = show_to_hooks(leaf.hooks, grad, "a leaf", self._shown)
                fresh = False  # a hook may keep what it saw
            if self.captures and (leaf, 0) not in self.captures:
                return  # grad(): other leaves are left alone
            lies_like = getattr(grad, "lies_like", None)
            if lies_like is not None and not lies_like(leaf):
                self._late.append((leaf, grad))
                return
            if (leaf, 0) in self.captures:
                results[self.captures[leaf, 0]] = grad
                return
            with _locks[id(leaf) // 16 % len(_locks)]:
                self.accumulate(leaf, grad, fresh)
        for post_hook in tuple(leaf.post_hooks or ()):
            post_hook(leaf)

    def finish_late(self, results: dict[int, Any]) -> None:
        """Bring gradients that lie otherwise than their leaves to where these are, all at once; then finish.

        What they are says how: ``grads[0].laid_like(grads, leaves)``.
        """
        late, self._late = self._late, []
        if not late:
            return
        leaves, grads = zip(*late, strict=True)
        for leaf, grad in zip(leaves, grads[0].laid_like(grads, leaves), strict=True):
            if (leaf, 0) in self.captures:
                results[self.captures[leaf, 0]] = grad
                continue
            with _locks[id(leaf) // 16 % len(_locks)]:
                self.accumulate(leaf, grad, True)
            for post_hook in tuple(leaf.post_hooks or ()):
                post_hook(leaf)

    def accumulate(self, leaf: Leaf, grad: Any, fresh: bool) -> None:
        """Add a complete gradient to what a leaf has; the lock of the leaf is held."""
        if self.create_graph:
            leaf.grad = grad if leaf.grad is None else leaf.grad + grad
            return
        if leaf.sink is not None:  # hooks saw the gradient first
            if leaf.grad is not None:
                grad = leaf.grad.data + grad
            np.copyto(leaf.sink, grad)
            leaf.grad = leaf.wrap(leaf.sink)
        elif leaf.grad is None:
            leaf.grad = leaf.wrap(grad if fresh else grad.copy())
        elif leaf.grad.node is None and not leaf.grad.requires_grad:
            total = leaf.grad.data
            total += grad
            leaf.grad.version.count += 1
        else:
            leaf.grad = leaf.wrap(_sum(leaf.grad.data, grad))

    @property
    def _shown(self) -> Callable[[Any], Any] | None:
        return None if self.create_graph else self.wrap


@contextmanager
def renewed_memory(leaves: Sequence[Any]) -> Iterator[None]:
    """Let leaf tensors be written in a block, in new memory, while other threads compute with them.

    Graphs that exist, or are made meanwhile, go on with what they saw, and no write counts against them.
    """
    versions = [leaf.version for leaf in leaves]
    for leaf in leaves:
        leaf._version = _Unwatched()
        leaf.data = leaf.data.copy()
    try:
        yield
    finally:
        for leaf, version in zip(leaves, versions, strict=True):
            leaf._version = version


class _Unwatched(Version):
    """Counts no writes."""

    @property
    def count(self) -> int:
        return 0

    @count.setter
    def count(self, value: int) -> None:
        """Leave it at 0."""


def add_gradients(a: Any, a_fresh: bool, b: Any, b_fresh: bool, create_graph: bool) -> tuple[Any, bool]:
    """Return a sum, and whether its array belongs to nobody else; made in place where one of both does."""
    if a_fresh:
        return np.add(a, b, out=a), True
    if b_fresh:
        return np.add(a, b, out=b), True
    return _sum(a, b), not create_graph


def show_to_hooks(
    hooks: list[Callable[[Any], Any]], grad: Any, what: str, wrap: Callable[[Any], Any] | None
) -> Any:
    """Show a gradient to hooks, one after the other, each of which may replace it or take itself away.

    Parameters
    ----------
    hooks : list of callable
    grad : Array, or Tensor if `wrap` is None
    what : str
        Whose gradient it is, for messages.
    wrap : callable or None
        Makes the tensor that hooks see.
    """
    for hook in tuple(hooks):
        changed = hook(grad if wrap is None else wrap(grad))
        if changed is None:
            continue
        if not hasattr(changed, "node") or (changed.shape, changed.dtype) != (grad.shape, grad.dtype):
            got = (
                f"a tensor of shape {changed.shape} and {changed.dtype}"
                if hasattr(changed, "node")
                else f"a {type(changed).__name__}"
            )
            raise AutogradError(
                f"a hook on {what} must return None or a tensor like the gradient, of shape {grad.shape} "
                f"and {grad.dtype}; it returned {got}"
            )
        grad = changed if wrap is None else changed.data
    return grad


def _sum(a: Any, b: Any) -> Any:
    """Add, and undo NumPy's habit of giving a scalar where there are no dims: the next sum is made in it."""
    total = a + b
    return np.asarray(total) if isinstance(total, np.generic) else total
