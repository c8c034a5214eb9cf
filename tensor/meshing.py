"""Functions that bring several tensors to one number of dims, one shape, or all pairs of their elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal, TypeVar, overload

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.tensor.joining import standing
from shardwise.tensor.methods.carrier import Carrier
from shardwise.tensor.methods.selection import broadcast_shapes as broadcast_to_one
from shardwise.tensor.ops import joining, take, view

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_shapes", "broadcast_tensors", "cartesian_prod",
    "combinations", "meshgrid",
]  # fmt: skip

T = TypeVar("T", bound=Carrier | Array)


@overload
def atleast_1d(tensor: T, /) -> T: ...
@overload
def atleast_1d(tensors: Sequence[T], /) -> tuple[T, ...]: ...
@overload
def atleast_1d(first: T, second: T, /, *rest: T) -> tuple[T, ...]: ...
def atleast_1d(*tensors: Any) -> Any:
    """Return tensors with at least one dim: one of them, or a tuple if several or a sequence are given."""
    return _at_least(tensors, 1)


@overload
def atleast_2d(tensor: T, /) -> T: ...
@overload
def atleast_2d(tensors: Sequence[T], /) -> tuple[T, ...]: ...
@overload
def atleast_2d(first: T, second: T, /, *rest: T) -> tuple[T, ...]: ...
def atleast_2d(*tensors: Any) -> Any:
    """Return tensors with at least two dims, vectors as rows; see `atleast_1d`."""
    return _at_least(tensors, 2)


@overload
def atleast_3d(tensor: T, /) -> T: ...
@overload
def atleast_3d(tensors: Sequence[T], /) -> tuple[T, ...]: ...
@overload
def atleast_3d(first: T, second: T, /, *rest: T) -> tuple[T, ...]: ...
def atleast_3d(*tensors: Any) -> Any:
    """Return tensors with at least three dims: ``(n,)`` as ``(1, n, 1)``, ``(m, n)`` as ``(m, n, 1)``."""
    return _at_least(tensors, 3)


def _at_least(tensors: tuple[Any, ...], ndim: int) -> Any:
    if len(tensors) == 1 and not isinstance(tensors[0], (tuple, list)):
        return standing(tensors[0], ndim)
    return tuple([standing(tensor, ndim) for tensor in _listed(tensors)])


def _listed(tensors: tuple[Any, ...]) -> Sequence[Any]:
    """Accept ``f(a, b)`` and ``f([a, b])``."""
    return tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors


def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """Return the shape that shapes broadcast to.

    Raises
    ------
    ShapeError
        If they do not.
    """
    return broadcast_to_one(
        "broadcast_shapes", *[(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    )


def broadcast_tensors(*tensors: T) -> tuple[T, ...]:
    """Return tensors as views of the shape that they broadcast to."""
    given = _listed(tensors)
    shape = broadcast_to_one("broadcast_tensors", *[tensor.shape for tensor in given])
    return tuple([view.Expand.apply(tensor, shape=shape) for tensor in given])


def meshgrid(*tensors: T | Sequence[T], indexing: Literal["ij", "xy"] = "ij") -> tuple[T, ...]:
    """Return, for each vector, its elements along a dim of its own, repeated along those of the others.

    Parameters
    ----------
    *tensors : Tensor
        Of at most one dim.
    indexing : {"ij", "xy"}, default "ij"
        ``"xy"`` swaps the first two dims of the results, as for pictures.

    Returns
    -------
    tuple of Tensor
        Views of one shape, which has the lengths of the vectors.
    """
    return grids(_listed(tensors), indexing, sparse=False)


def grids(vectors: Sequence[Any], indexing: str, sparse: bool) -> tuple[Any, ...]:
    """`meshgrid` of operands of any kind; if `sparse`, without repeating anything."""
    if indexing not in ("ij", "xy"):
        raise ArgumentError(f"meshgrid: indexing must be 'ij' or 'xy', got {indexing!r}")
    lines = [standing(vector, 1) for vector in vectors]
    if any(len(line.shape) > 1 for line in lines):
        shapes = [tuple(line.shape) for line in lines]
        raise ShapeError(f"meshgrid: wanted tensors of at most one dim, got the shapes {shapes}")
    places = list(range(len(lines)))
    if indexing == "xy":
        places[:2] = places[1::-1] if len(places) > 1 else places[:2]
    shape = [0] * len(lines)
    for place, line in zip(places, lines, strict=True):
        shape[place] = line.shape[0]
    results = []
    for place, line in zip(places, lines, strict=True):
        alone = [1] * len(lines)
        alone[place] = line.shape[0]
        result = view.Reshape.apply(line, shape=tuple(alone))
        results.append(result if sparse else view.Expand.apply(result, shape=tuple(shape)))
    return tuple(results)


def cartesian_prod(*tensors: T) -> T:
    """Return all ways to take one element of each vector, one per row; of one vector, itself."""
    given = _listed(tensors)
    if len(given) == 1:
        alone: T = standing(given[0], 1)
        return alone
    columns: list[Any] = [
        view.CopiedReshape.apply(grid, shape=(math.prod(grid.shape),))
        for grid in grids(given, "ij", sparse=False)
    ]
    rows: T = joining.Stack.apply(*columns, dim=1)
    return rows


def combinations(input: T, r: int = 2, with_replacement: bool = False) -> T:
    """Return all ways to choose `r` elements of a vector in their order, one per row.

    Parameters
    ----------
    input : Tensor, one dim
    r : int, default 2
    with_replacement : bool, default False
        Whether one element can be chosen several times.
    """
    shape: tuple[int, ...] = getattr(input, "shape", ())
    if len(shape) != 1 or r < 0:
        raise ShapeError(f"combinations: wanted one dim and r of at least 0, got {shape} and {r}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(shape[0]), r))
    places = np.array(rows, np.int64).reshape(len(rows), r) if r else np.zeros(0, np.int64)  # as PyTorch
    given: Any = input
    named = given.new_tensor(places, dtype=np.int64) if isinstance(input, Carrier) else places
    return take.IndexSelect.apply(input, named, dim=0)
