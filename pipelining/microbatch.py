"""Microbatches: how arguments are cut into them, and how results are put together again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from shardwise.backend.errors import ScheduleError
from shardwise.tensor import Tensor, cat, stack
from shardwise.tensor.tree import tree_flatten, tree_unflatten

__all__ = ["Chunk", "Fold", "Replicate", "merge", "rows", "split"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Cut along a dim, into pieces that differ in size by one at most; put together along it."""

    dim: int = 0


@dataclass(frozen=True, slots=True)
class Replicate:
    """Give every microbatch the whole; take the results for equal."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Put results together by ``function(function(initial, first), second)``, in their order."""

    initial: Any
    function: Callable[[Any, Any], Any]


Spec: TypeAlias = Chunk | Replicate | None


def split(values: Any, count: int, what: str, specs: Any = None) -> list[Any]:
    """Cut a tree of values into `count` trees.

    Parameters
    ----------
    values : tree
        Tensors and arrays are cut along dim 0, all else goes to every microbatch.
    count : int
    what : str
        Whose values these are, for messages.
    specs : tree of Chunk or Replicate, optional
        One for each leaf, or one for all.

    Raises
    ------
    ScheduleError
        A leaf is too short, or `specs` is another tree.
    """
    leaves, tree = tree_flatten(values)
    if specs is None or isinstance(specs, (Chunk, Replicate)):
        each: Sequence[Any] = [specs] * len(leaves)
    else:
        try:
            each = tree.flatten_up_to(specs)
        except ValueError as error:
            raise ScheduleError(
                f"{what}: the specs are not told as the values are nested: {error}"
            ) from error
    columns = [
        _cut(leaf, spec, count, f"{what} {i}")
        for i, (leaf, spec) in enumerate(zip(leaves, each, strict=True))
    ]
    return [tree_unflatten(tree, [column[i] for column in columns]) for i in range(count)]


def _cut(leaf: Any, spec: Spec, count: int, what: str) -> list[Any]:
    if spec is None:
        spec = Chunk(0) if hasattr(leaf, "shape") and len(leaf.shape) else Replicate()
    if isinstance(spec, Replicate):
        return [leaf] * count
    if not isinstance(spec, Chunk) or not hasattr(leaf, "shape"):
        raise ScheduleError(
            f"{what}: cannot cut a {type(leaf).__name__} by {spec!r}; wanted Chunk(dim) or Replicate()"
        )
    length = leaf.shape[spec.dim]
    if length < count:
        raise ScheduleError(
            f"{what} has {length} rows along dim {spec.dim}, and {count} microbatches need one each; use "
            "fewer, or a larger batch"
        )
    pieces, start = [], 0
    for i in range(count):
        size = length // count + (i < length % count)
        index = (slice(None),) * (spec.dim % len(leaf.shape)) + (slice(start, start + size),)
        pieces.append(leaf[index])
        start += size
    return pieces


def rows(values: Any) -> int:
    """Return the number of rows of the first tensor or array in a tree; 1, if there is none."""
    for leaf in tree_flatten(values)[0]:
        if hasattr(leaf, "shape") and len(leaf.shape):
            return int(leaf.shape[0])
    return 1


def merge(chunks: Sequence[Any], spec: Any = None) -> Any:
    """Put the results of microbatches together.

    Parameters
    ----------
    chunks : sequence of tree
    spec : tree of Chunk, Fold or Replicate, optional
        Along dim 0, if not given; numbers without dims are stacked.
    """
    flat = [tree_flatten(chunk) for chunk in chunks]
    tree = flat[0][1]
    specs = (
        [spec] * tree.num_leaves
        if spec is None or isinstance(spec, (Chunk, Fold, Replicate))
        else tree.flatten_up_to(spec)
    )
    return tree_unflatten(
        tree,
        [
            _join(list(column), s)
            for column, s in zip(zip(*[f for f, _ in flat], strict=True), specs, strict=True)
        ],
    )


def _join(column: list[Any], spec: Any) -> Any:
    if isinstance(spec, Fold):
        total = spec.initial
        for each in column:
            total = spec.function(total, each)
        return total
    if isinstance(spec, Replicate) or not isinstance(column[0], Tensor):
        return column[0]
    if not column[0].ndim:
        return stack(column)
    return cat(column, spec.dim if isinstance(spec, Chunk) else 0)
