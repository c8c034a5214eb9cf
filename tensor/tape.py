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

__all__ = [
    "Leaf", "Node", "Target", "Version", "annotate", "check_versions", "edges_of", "record", "record_many",
    "saved_arrays", "trace_saved",
]  # fmt: skip

_order = itertools.count()  # newer nodes have higher numbers, in every thread


class Version:
    """Counts the writes into one piece of memory; shared by all tensors that look at it."""

    __slots__ = ("count", "crowd", "views")

    def __init__(self) -> None:
        self.count = 0
        self.crowd = 8  # so many views are looked through for those that are gone
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


class Node(Context):
    """One recorded op: the context of its call, and its place on the tape.

    What the tape keeps has names that begin with an underscore, because an op may set any other on
    its context. `tape` and `engine` share them.

    Attributes
    ----------
    _function : Function class
    _targets : tuple of Target or None
        Per input that needs a gradient: who gets it.
    _indices : tuple of int
        As which of the targets' outputs; empty, if all are first ones.
    _shape, _dtype
        What the gradient of the first output must look like.
    _more : tuple of (shape, dtype)
        The same for the outputs behind it.
    _order : int
        Newer nodes have higher numbers.
    _origins : tuple of int or None
        Per saved array: input ``i``, output ``-1 - i``, or None for a statistic.
    _versions : tuple of (Version, int) or None
        Per saved array: its memory's counter and the count when it was saved.
    saved
        A tuple; None, once it was freed; or what a `Saver` left, whose ``unpack()`` returns the tuple.
    """

    __slots__ = ("_dtype", "_function", "_order", "_shape", "_targets")
    _function: type[Function]
    _targets: tuple[Target | None, ...]
    _order: int
    _shape: tuple[int, ...]
    _dtype: Any

    # On the class, because most nodes need none of them.
    _indices: tuple[int, ...] = ()
    _more: tuple[tuple[tuple[int, ...], Any], ...] = ()
    _origins: tuple[int | None, ...] = ()
    _versions: tuple[tuple[Version, int] | None, ...] = ()
    _hooks: dict[int, list[Callable[[Any], Any]]] | None = None  # not None where _retained is not
    _retained: dict[int, Callable[[], Any]] | None = None
    _line: str = ""
    _module: str = ""

    def __str__(self) -> str:
        name = self._function.__name__
        return f"{name} ({self._line})" if self._line else name


def saved_arrays(node: Node) -> tuple[Any, ...]:
    """Return what a node saved, after checking that nobody has written into it."""
    if node.saved is None:
        raise AutogradError(
            f"cannot run backward through {node} again, whose result has shape {node._shape}: its saved "
            "arrays were freed by the first backward. Pass retain_graph=True to the first call."
        )
    if type(node.saved) is not tuple:
        kept: tuple[Any, ...] = node.saved.unpack()
        return kept
    check_versions(node, node.saved)
    return node.saved


def check_versions(node: Node, saved: tuple[Any, ...]) -> None:
    """Raise AutogradError if somebody has written into `saved`, the arrays of a node."""
    for at, (version, origin) in enumerate(zip(node._versions, node._origins, strict=True)):
        if version is not None and version[0].count != version[1]:
            assert origin is not None
            what = f"input {origin}" if origin >= 0 else f"output {-1 - origin}"
            shape = getattr(saved[at], "shape", ())
            raise AutogradError(
                f"{what} of {node}, of shape {shape}, was written in place after it was saved for backward "
                f"(version {version[0].count}, saved at {version[1]}). Use the out-of-place form, "
                "or clone() it first."
            )


def record(node: Node, function: type[Function], args: tuple[Any, ...], out: Any) -> None:
    """Put an op with one output on the tape.

    Parameters
    ----------
    node : Node
        The context of the forward.
    args : tuple
        The inputs as given: tensors, arrays, scalars.
    out : Tensor
        The output, which becomes tracked if its dtype is inexact.

    What the node saved is for `trace_saved` to say.
    """
    node._function = function
    node._order = next(_order)
    need = node.need
    if len(need) == 2:  # written out: a loop would cost as much as all the rest
        a, b = args
        target_a: Target | None = None
        target_b: Target | None = None
        if need[0]:
            target_a = a.node
            if target_a is None:
                target_a = a
            elif a.index:
                node._indices = _indices(args)
        if need[1]:
            target_b = b.node
            if target_b is None:
                target_b = b
            elif b.index:
                node._indices = _indices(args)
        node._targets = (target_a, target_b)
    else:
        node._targets = tuple(
            [
                None if not needed else arg if arg.node is None else arg.node
                for arg, needed in zip(args, need, strict=True)
            ]
        )
        node._indices = _indices(args)
    data = out.data
    node._shape = data.shape
    node._dtype = dtype = data.dtype
    if dtype.kind in "fcV":  # V: bfloat16
        out.requires_grad = True
        out.node = node


def _indices(args: tuple[Any, ...]) -> tuple[int, ...]:
    indices = tuple([getattr(arg, "index", 0) if hasattr(arg, "node") else 0 for arg in args])
    return indices if any(indices) else ()


def edges_of(node: Node) -> list[tuple[Target, int] | None]:
    """Return, per input that needs a gradient, who gets it and as which of its outputs."""
    indices = node._indices or (0,) * len(node._targets)
    return [None if t is None else (t, i) for t, i in zip(node._targets, indices, strict=True)]


def record_many(
    node: Node, function: type[Function], args: tuple[Any, ...], arrays: Any, outs: tuple[Any, ...]
) -> None:
    """Put an op with several outputs on the tape; see `record`."""
    first, *rest = outs
    record(node, function, args, first)
    for index, out in enumerate(rest, 1):
        dtype = out.data.dtype
        node._more += ((out.data.shape, dtype),)
        if dtype.kind in "fcV":
            out.requires_grad, out.node, out.index = True, node, index
    if node.saved:
        trace_saved(node, args, arrays, outs)


def annotate(node: Node, mode: Mode) -> None:
    """Do to a recorded node what the mode asks for: note its line and module, take away what it saved."""
    if mode.anomaly:
        node._line = source_line()
    if mode.timer is not None:
        node._module = mode.timer.module()
    if mode.saver is not None:
        mode.saver.pack(node)


def trace_saved(node: Node, args: tuple[Any, ...], arrays: Any, outs: tuple[Any, ...]) -> None:
    """Find where each saved array came from, and note the version of its memory."""
    origins: list[int | None] = []
    versions: list[tuple[Version, int] | None] = []
    for array in node.saved:
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
    node._origins = tuple(origins)
    node._versions = tuple(versions)
