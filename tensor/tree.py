"""Nests of containers with arrays in them: taken apart into leaves, and put together again.

Lists, tuples, named tuples, dicts and dataclasses are containers; None is a container of nothing;
everything else is a leaf. The names are those of ``jax.tree_util``.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from shardwise.backend.errors import ArgumentError

__all__ = ["Tree", "TreeDef", "tree_flatten", "tree_leaves", "tree_map", "tree_unflatten"]

Tree: TypeAlias = Any
"""A leaf, or a nest of containers with leaves in it."""


@dataclass(frozen=True, slots=True)
class TreeDef:
    """The structure of a tree: its containers without the leaves.

    Attributes
    ----------
    kind : type or None
        The class of the outermost container; None if the tree is a leaf.
    keys : tuple
        The keys, indices or field names in it, in the order of its leaves.
    children : tuple of TreeDef
        One per key.
    """

    kind: type | None = None
    keys: tuple[Any, ...] = ()
    children: tuple[TreeDef, ...] = ()
    _empty: Any = field(default=None, repr=False, compare=False)  # the container, with None for its values

    @property
    def num_leaves(self) -> int:
        """The number of leaves."""
        return 1 if self.kind is None else sum(child.num_leaves for child in self.children)

    def flatten_up_to(self, tree: Tree) -> list[Any]:
        """Return what `tree` has at the places of this structure's leaves.

        Raises
        ------
        ArgumentError
            If `tree` has another container on the way to one of them; says where.
        """
        found: list[Any] = []
        self._collect(tree, "", found)
        return found

    def _collect(self, tree: Tree, path: str, found: list[Any]) -> None:
        if self.kind is None:
            found.append(tree)
            return
        parts = _parts(tree)
        if parts is None or type(tree) is not self.kind or set(parts[0]) != set(self.keys):
            wanted, got = _described(self.kind, self.keys), _described(type(tree), parts[0] if parts else ())
            raise ArgumentError(
                f"the trees differ{' at ' + path if path else ''}: wanted {wanted}, got {got}"
            )
        values = dict(zip(*parts, strict=True))
        for key, child in zip(self.keys, self.children, strict=True):
            child._collect(values[key], f"{path}[{key!r}]", found)


_LEAF = TreeDef()


def tree_flatten(tree: Tree) -> tuple[list[Any], TreeDef]:
    """Return the leaves of a tree, in order, and its structure.

    Examples
    --------
    >>> leaves, structure = tree_flatten({"w": [1.0, 2.0], "b": (3.0, None)})
    >>> leaves
    [1.0, 2.0, 3.0]
    >>> tree_unflatten(structure, [10, 20, 30])
    {'w': [10, 20], 'b': (30, None)}
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def tree_leaves(tree: Tree) -> list[Any]:
    """Return the leaves of a tree, in order."""
    return tree_flatten(tree)[0]


def tree_unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Tree:
    """Put leaves back into a structure.

    Raises
    ------
    ArgumentError
        If there are more or fewer leaves than the structure has places.
    """
    values = list(leaves)
    if len(values) != treedef.num_leaves:
        raise ArgumentError(
            f"tree_unflatten: the structure has {treedef.num_leaves} leaves, and got {len(values)}"
        )
    return _unflatten(treedef, iter(values).__next__)


def tree_map(fn: Callable[..., Any], tree: Tree, *rest: Tree) -> Tree:
    """Return a tree of the structure of `tree`, with ``fn(leaf, ...)`` for each leaf.

    Parameters
    ----------
    fn : callable
        Takes a leaf of `tree` and what each of `rest` has in its place: a leaf, None or a tree.
    tree, *rest : tree
        Dicts are matched by key, whatever the order.

    Raises
    ------
    ArgumentError
        If one of `rest` has another structure than `tree`; says where.

    Examples
    --------
    >>> tree_map(lambda p, g: p - 0.5 * g, {"w": [1.0, 2.0]}, {"w": [2.0, 4.0]})
    {'w': [0.0, 0.0]}
    """
    leaves, treedef = tree_flatten(tree)
    columns = [leaves, *(treedef.flatten_up_to(other) for other in rest)]
    return tree_unflatten(treedef, [fn(*row) for row in zip(*columns, strict=True)])


def _parts(node: Tree) -> tuple[Sequence[Any], Sequence[Any]] | None:
    """Return the keys and values of a container, None for a leaf."""
    if node is None:
        return (), ()
    if isinstance(node, dict):
        return tuple(node), tuple(node.values())
    if isinstance(node, (list, tuple)):
        return range(len(node)), node
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        names = tuple([each.name for each in dataclasses.fields(node)])
        return names, [getattr(node, name) for name in names]
    return None


def _flatten(node: Tree, leaves: list[Any]) -> TreeDef:
    parts = _parts(node)
    if parts is None:
        leaves.append(node)
        return _LEAF
    keys, values = parts
    children = tuple([_flatten(value, leaves) for value in values])
    return TreeDef(type(node), tuple(keys), children, _emptied(node, keys))


def _emptied(node: Tree, keys: Sequence[Any]) -> Tree:
    """Return what a container is rebuilt from: what a dict or dataclass has beside its values."""
    if node is None or isinstance(node, (list, tuple)):
        return None
    return _filled(copy.copy(node), keys, (None,) * len(keys))


def _filled(node: Tree, keys: Sequence[Any], values: Sequence[Any]) -> Tree:
    if isinstance(node, dict):
        node.update(zip(keys, values, strict=True))
    else:
        for key, value in zip(keys, values, strict=True):
            object.__setattr__(node, key, value)  # frozen ones too: the copy is nobody else's yet
    return node


def _unflatten(treedef: TreeDef, next_leaf: Callable[[], Any]) -> Tree:
    kind = treedef.kind
    if kind is None:
        return next_leaf()
    values = [_unflatten(child, next_leaf) for child in treedef.children]
    if kind is type(None):
        return None
    if issubclass(kind, (list, tuple)):
        return kind(*values) if hasattr(kind, "_fields") else kind(values)
    return _filled(copy.copy(treedef._empty), treedef.keys, values)


def _described(kind: type, keys: Sequence[Any]) -> str:
    if kind is type(None):
        return "None"
    if issubclass(kind, (list, tuple)):
        return f"{kind.__name__} of {len(keys)}"
    return f"{kind.__name__} with {list(keys)}" if keys or issubclass(kind, dict) else kind.__name__
