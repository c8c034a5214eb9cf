"""Arrays lifted onto the tape and back: what the functional forms of differentiation stand on.

A call of ``grad(fn)(x)`` gives `fn` tensors in place of the arrays that are differentiated. Each is
a leaf of its own, or, for a tensor that is on a tape already, a result of its own: so a call inside
another, and a tensor used twice, cannot take each other's gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, DTypeError
from shardwise.backend.select import BACKENDS
from shardwise.tensor.autograd import grad
from shardwise.tensor.mode import enable_grad, is_grad_enabled
from shardwise.tensor.ops.view import Reshape
from shardwise.tensor.tape import Node
from shardwise.tensor.tensor import Tensor
from shardwise.tensor.tree import Tree, TreeDef, tree_flatten, tree_map, tree_unflatten

__all__ = ["Argnums", "Lifted"]

Argnums = int | Sequence[int]

_depth: ContextVar[int] = ContextVar("shardwise_lifting_depth", default=0)


class Lifted:
    """The positional arguments of one call, with tensors for the floating-point leaves of some.

    Parameters
    ----------
    name : str
        Of the transformation, for messages.
    args : sequence
        The arguments as the user gave them.
    argnums : int or sequence of int
        Which of them to differentiate.

    Attributes
    ----------
    args : list
        The arguments as `fn` gets them.
    tensors : list of Tensor
        The differentiated leaves.
    """

    def __init__(self, name: str, args: Sequence[Tree], argnums: Argnums) -> None:
        self.name = name
        self.args: list[Tree] = list(args)
        self.tensors: list[Tensor] = []
        self._single = not isinstance(argnums, Sequence)
        self._given: list[Any] = []  # the leaves that became tensors, as they came
        self._trees: list[tuple[TreeDef, list[bool]]] = []
        self._nested = _depth.get() > 0
        for argnum in _checked(name, argnums, len(args)):
            leaves, treedef = tree_flatten(args[argnum])
            lifted = [self._lift(leaf) for leaf in leaves]
            chosen = [tensor is not None for tensor in lifted]
            if True not in chosen:
                raise DTypeError(
                    f"{name}: argument {argnum} has nothing to differentiate: wanted floating-point or "
                    f"complex arrays or numbers, got {_kinds(leaves)}; write 3.0 for 3, or cast with astype()"
                )
            self._trees.append((treedef, chosen))
            together = [
                leaf if tensor is None else tensor for leaf, tensor in zip(leaves, lifted, strict=True)
            ]
            self.args[argnum] = tree_unflatten(treedef, together)
        self._from_tensors = any(isinstance(leaf, Tensor) for leaf in self._given)
        self._tracked = is_grad_enabled() and any(
            getattr(leaf, "requires_grad", False) for leaf in self._given
        )

    def _lift(self, leaf: Any) -> Tensor | None:
        array = _as_inexact(leaf)
        if array is None:
            return None
        if isinstance(leaf, Tensor) and leaf.requires_grad and is_grad_enabled():
            tensor = Reshape.apply(leaf, shape=leaf.shape)
        elif isinstance(leaf, Tensor):
            tensor = leaf.detach().requires_grad_()
        else:
            tensor = Tensor(array, True)
        self.tensors.append(tensor)
        self._given.append(leaf)
        return tensor

    def call(self, fn: Callable[..., Any], kwargs: dict[str, Any]) -> Any:
        """Run `fn` on the lifted arguments, recorded."""
        with enable_grad(), _deeper():
            return fn(*self.args, **kwargs)

    def records(self, outputs: Sequence[Any], cotangents: Sequence[Any] = ()) -> bool:
        """Tell whether gradients must themselves be on the tape.

        They must inside another transformation, for tensors that are on a tape, and where `fn` used
        others that require grad, if it was given tensors and not plain arrays.
        """
        if not is_grad_enabled():
            return False
        if self._nested or self._tracked or any(_is_tracked(each) for each in cotangents):
            return True
        return self._from_tensors and _reaches_others(outputs, self.tensors)

    def pull(
        self, outputs: Sequence[Any], cotangents: Sequence[Any], *, retain: bool = False, record: bool = False
    ) -> list[Tensor]:
        """Return the gradient with respect to each tensor; zeros where nothing depends on it.

        Parameters
        ----------
        outputs : sequence
            Results of `call`; those that are not on the tape are passed over.
        cotangents : sequence
            The gradient with respect to each of them.
        retain : bool
            Keep what was saved, for another call.
        record : bool
            Put the gradients themselves on the tape.
        """
        pairs = [(o, c) for o, c in zip(outputs, cotangents, strict=True) if _is_tracked(o)]
        gradients: Sequence[Tensor | None] = [None] * len(self.tensors)
        if pairs:
            live, seeds = zip(*pairs, strict=True)
            gradients = grad(live, self.tensors, seeds, retain or record, record, allow_unused=True)
        return [
            tensor.wrap(np.zeros_like(tensor.data)) if gradient is None else gradient
            for gradient, tensor in zip(gradients, self.tensors, strict=True)
        ]

    def lower(self, tree: Tree, record: bool) -> Tree:
        """Return a tree as the caller gets it: arrays for tensors, if arrays came in."""
        return tree_map(lambda leaf: self._lowered(leaf, record), tree)

    def _lowered(self, leaf: Any, record: bool) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        if self._nested or self._from_tensors:
            return leaf if record else leaf.detach()
        return leaf.data

    def own(self, results: Sequence[Any], record: bool, avoid: Sequence[Any] = ()) -> list[Any]:
        """Return results as the caller gets them, each of which may be written into.

        None of them shares memory with another, with an argument, or with those in `avoid`.
        """
        lowered = [self._lowered(each, record) for each in results]
        if record:
            return lowered
        others = [each.data for each in (*self.tensors, *avoid) if isinstance(each, Tensor)]
        return _owned(lowered, others)

    def assemble(self, gradients: Sequence[Any]) -> Tree:
        """Return gradients in the structure of the arguments, with None for leaves that have none."""
        values = iter(gradients)
        trees = [
            tree_unflatten(treedef, [next(values) if has else None for has in chosen])
            for treedef, chosen in self._trees
        ]
        return trees[0] if self._single else tuple(trees)

    def select(self, trees: Sequence[Tree]) -> list[Any]:
        """Return what `trees`, one per differentiated argument, have in the place of each tensor."""
        found: list[Any] = []
        for tree, (treedef, chosen) in zip(trees, self._trees, strict=True):
            places = treedef.flatten_up_to(tree)
            found += [each for each, has in zip(places, chosen, strict=True) if has]
        return found


@contextmanager
def _deeper() -> Iterator[None]:
    token = _depth.set(_depth.get() + 1)
    try:
        yield
    finally:
        _depth.reset(token)


def _checked(name: str, argnums: Argnums, count: int) -> list[int]:
    numbers = list(argnums) if isinstance(argnums, Sequence) else [argnums]
    places = [n + count if n < 0 else n for n in numbers]
    if not places or any(not 0 <= n < count for n in places) or len(set(places)) != len(places):
        raise ArgumentError(
            f"{name}: argnums={argnums!r} must name different positional arguments, and the function was "
            f"called with {count}; arguments given by keyword are not differentiated"
        )
    return places


def _as_inexact(leaf: Any) -> Array | None:
    """Return the array of a leaf that has gradients; None for all other leaves."""
    if isinstance(leaf, Tensor):
        leaf = leaf.data
    elif isinstance(leaf, np.generic):
        leaf = np.asarray(leaf)
    elif isinstance(leaf, (float, complex)):  # Python's: float32, as everywhere
        return np.asarray(leaf, np.complex64 if isinstance(leaf, complex) else np.float32)
    if not any(backend.owns(leaf) for backend in BACKENDS):
        return None
    array: Array = leaf
    return array if array.dtype.kind in "fcV" else None


def _kinds(leaves: Sequence[Any]) -> str:
    names = [str(getattr(leaf, "dtype", type(leaf).__name__)) for leaf in leaves]
    return ", ".join(dict.fromkeys(names)) or "no leaves"


def _is_tracked(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _reaches_others(outputs: Sequence[Any], tensors: Sequence[Tensor]) -> bool:
    """Tell whether results depend on leaves other than `tensors`, which are leaves themselves."""
    stack = [each if each.node is None else each.node for each in outputs if _is_tracked(each)]
    ours, seen = {id(tensor) for tensor in tensors}, set(stack)
    while stack:
        target = stack.pop()
        if type(target) is not Node:
            if id(target) not in ours:
                return True
            continue
        for below in target._targets:
            if below is not None and below not in seen:
                seen.add(below)
                stack.append(below)
    return False


def _owned(arrays: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Return arrays that can be written into: copies of those that look at other memory."""
    taken = {id(each) for each in others}
    result = []
    for given in arrays:
        array = given.data if isinstance(given, Tensor) else given
        if array is not None and (id(array) in taken or getattr(array, "base", None) is not None):
            array = array.copy()
            given = given.wrap(array) if isinstance(given, Tensor) else array
        taken.add(id(array))
        result.append(given)
    return result
