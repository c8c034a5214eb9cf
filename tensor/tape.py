"""The tape: one `Node` per recorded op, and what it must remember for its backward."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Protocol

from shardwise.backend.array import Array
from shardwise.backend.errors import AutogradError
from shardwise.backend.source import source_line
from shardwise.tensor.function import Context, Function
from shardwise.tensor.mode import Mode

__all__ = ["Leaf", "Node", "Target", "Version", "record"]

_order = itertools.count()  # newer nodes have higher numbers, in every thread


class Version:
    """Counts the writes into one piece of memory; shared by all tensors that look at it."""

    __slots__ = ("count", "views")

    def __init__(self) -> None:
        self.count = 0
        self.views: list[
            Callable[[], object | None]
        ] = []  # weak references to the tensors that look at it, if several


class Leaf(Protocol):
    """What the engine needs of a tensor that has no node: somewhere to put its gradient."""

    data: Array
    grad: Any
    sink: Array | None
    hooks: list[Callable[[Any], Any]] | None
    post_hooks: list[Callable[[Any], None]] | None

    def wrap(self, array: Array) -> Any:
        """Make a tensor like this one of a gradient array."""


Target = Any  # Node | Leaf: whoever waits for a gradient


class Node:
    """One op on the tape.

    Attributes
    ----------
    edges : tuple of (Target, int) or None
        Per input that needs a gradient: who gets it, and as which of its outputs.
    outs : tuple of (shape, dtype)
        Per output, what its gradient must look like.
    origins : tuple of int or None
        Per saved array: input ``i``, output ``-1 - i``, or None for a statistic.
    versions : tuple of (Version, int) or None
        Per saved array: its memory's counter and the count when it was saved.
    """

    # On the class, because most nodes need none of them.
    origins: tuple[int | None, ...] = ()
    versions: tuple[tuple[Version, int] | None, ...] = ()
    hooks: dict[int, list[Callable[[Any], Any]]] | None = None
    retained: dict[int, Callable[[], Any]] | None = None
    saver: Any = None
    line: str = ""
    freed: bool = False

    def __init__(
        self,
        function: type[Function],
        ctx: Context,
        edges: tuple[tuple[Target, int] | None, ...],
        outs: tuple[tuple[tuple[int, ...], Any], ...],
    ) -> None:
        self.function = function
        self.ctx = ctx
        self.edges = edges
        self.outs = outs
        self.order = next(_order)

    @property
    def name(self) -> str:
        """The op's name, with its source line where anomaly mode recorded one."""
        name = self.function.__name__
        return f"{name} ({self.line})" if self.line else name

    def saved(self) -> tuple[Any, ...]:
        """Return the saved arrays, after checking that nobody has written into them."""
        if self.freed:
            raise AutogradError(
                f"cannot run backward through {self.name} again: its saved arrays were freed by the "
                "first backward. Pass retain_graph=True to the first call."
            )
        for version, origin in zip(self.versions, self.origins, strict=True):
            if version is not None and version[0].count != version[1]:
                assert origin is not None
                what = f"input {origin}" if origin >= 0 else f"output {-1 - origin}"
                raise AutogradError(
                    f"{what} of {self.name} was written in place after it was saved for backward "
                    f"(version {version[0].count}, saved at {version[1]}). Use the out-of-place form, "
                    "or clone() it first."
                )
        arrays: tuple[Any, ...] = self.saver.unpack(self) if self.saver is not None else self.ctx.saved
        return arrays

    def free(self) -> None:
        """Drop the saved arrays."""
        if self.ctx.saved or self.saver is not None:
            self.freed = True
            self.ctx.saved = ()
            self.saver = None


def record(
    function: type[Function],
    ctx: Context,
    args: tuple[Any, ...],
    arrays: list[Any],
    outs: list[Any],
    mode: Mode,
) -> Node:
    """Put an op on the tape.

    Parameters
    ----------
    args : tuple
        The inputs as given: tensors, arrays, scalars.
    arrays : list
        The same, with tensors replaced by their arrays.
    outs : list of Tensor
        The outputs; those with an inexact dtype become tracked.
    """
    edges: list[tuple[Target, int] | None] = []
    for arg, need in zip(args, ctx.need, strict=True):
        if need:
            edges.append((arg, 0) if arg.node is None else (arg.node, arg.index))
        else:
            edges.append(None)
    kinds = tuple([(out.data.shape, out.data.dtype) for out in outs])
    node = Node(function, ctx, tuple(edges), kinds)
    if ctx.saved:
        _trace_saved(node, args, arrays, outs)
    for index, out in enumerate(outs):
        if kinds[index][1].kind in "fcV":  # V: bfloat16
            out.requires_grad = True
            out.node = node
            if index:
                out.index = index
    if mode.anomaly:
        node.line = source_line()
    if mode.saver is not None:
        mode.saver.pack(node)
    return node


def _trace_saved(node: Node, args: tuple[Any, ...], arrays: list[Any], outs: list[Any]) -> None:
    """Find where each saved array came from, and note the version of its memory."""
    origins: list[int | None] = []
    versions: list[tuple[Version, int] | None] = []
    for array in node.ctx.saved:
        origin = None
        owner = None
        if array is not None:
            for i, given in enumerate(arrays):
                if given is array:
                    origin, owner = i, args[i]
                    break
            else:
                for i, out in enumerate(outs):
                    if out.data is array:
                        origin, owner = -1 - i, out
                        break
        origins.append(origin)
        version = getattr(owner, "version", None)
        versions.append(None if version is None else (version, version.count))
    node.origins = tuple(origins)
    node.versions = tuple(versions)
