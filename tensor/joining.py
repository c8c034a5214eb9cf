"""Functions that join tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar, overload

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.methods.carrier import Carrier, Operand
from shardwise.tensor.methods.numpy_name import numpy_names
from shardwise.tensor.ops import arithmetic, joining, padding, view

__all__ = [
    "block_diag", "cat", "column_stack", "concat", "concatenate", "dstack", "hstack", "row_stack", "stack",
    "standing", "vstack", "where",
]  # fmt: skip

T = TypeVar("T", bound=Carrier | Array)


@numpy_names
def cat(tensors: Sequence[T], dim: int = 0) -> T:
    """Return tensors joined along an existing dim; their other sizes must agree.

    Parameters
    ----------
    tensors : sequence of Tensor
        As in PyTorch, those of shape ``(0,)`` are left out beside others that have more dims.
    dim : int, default 0

    Raises
    ------
    ShapeError
        Their shapes differ in other dims, or there are none.
    """
    return _joined("cat", tensors, dim)


@numpy_names
def concat(tensors: Sequence[T], dim: int = 0) -> T:
    """Return tensors joined along an existing dim; the same as `cat`."""
    return _joined("concat", tensors, dim)


@numpy_names
def concatenate(tensors: Sequence[T], dim: int = 0) -> T:
    """Return tensors joined along an existing dim; the same as `cat`."""
    return _joined("concatenate", tensors, dim)


def _joined(op: str, tensors: Sequence[T], dim: int) -> T:
    parts: list[Any] = [_array(part) for part in tensors]
    if not parts:
        raise ShapeError(f"{op} needs at least one tensor")
    if any(part.shape != (0,) for part in parts):
        ndim = max(len(part.shape) for part in parts)
        parts = [part for part in parts if ndim == 1 or part.shape != (0,)]
    shape = parts[0].shape
    if not shape:
        raise ShapeError(f"{op}: tensors without dims have none to be joined along; use stack()")
    at = counted_dim(op, dim, len(shape))
    for part in parts[1:]:
        theirs = part.shape
        if len(theirs) != len(shape) or theirs[:at] + theirs[at + 1 :] != shape[:at] + shape[at + 1 :]:
            raise ShapeError(f"{op}: shapes {shape} and {theirs} differ in other dims than {at}")
    joined: T = joining.Cat.apply(*parts, dim=at)
    return joined


@numpy_names
def stack(tensors: Sequence[T], dim: int = 0) -> T:
    """Return tensors of one shape joined along a new dim."""
    parts: list[Any] = [_array(part) for part in tensors]
    if not parts:
        raise ShapeError("stack needs at least one tensor")
    for part in parts[1:]:
        if part.shape != parts[0].shape:
            raise ShapeError(f"stack: shapes {parts[0].shape} and {part.shape} differ; wanted one shape")
    joined: T = joining.Stack.apply(*parts, dim=counted_dim("stack", dim, len(parts[0].shape) + 1))
    return joined


def hstack(tensors: Sequence[T]) -> T:
    """Return tensors joined along the second dim, or the first where they have only one."""
    parts: list[Any] = [standing(part, 1) for part in tensors]
    joined: T = _joined("hstack", parts, 0 if parts and len(parts[0].shape) == 1 else 1)
    return joined


def vstack(tensors: Sequence[T]) -> T:
    """Return tensors joined along the first dim; vectors count as rows."""
    return _joined("vstack", [standing(part, 2) for part in tensors], 0)


def row_stack(tensors: Sequence[T]) -> T:
    """Return tensors joined along the first dim; the same as `vstack`."""
    return vstack(tensors)


def dstack(tensors: Sequence[T]) -> T:
    """Return tensors joined along the third dim, which is added where it lacks."""
    return _joined("dstack", [standing(part, 3) for part in tensors], 2)


def column_stack(tensors: Sequence[T]) -> T:
    """Return tensors joined along the second dim; vectors count as columns."""
    return _joined("column_stack", [_column(part) for part in tensors], 1)


def _column(part: T) -> T:
    given: Any = _array(part)
    column: T = (
        given if len(given.shape) > 1 else view.Reshape.apply(given, shape=(math.prod(given.shape), 1))
    )
    return column


def standing(part: T, ndim: int) -> T:
    """Return an operand with dims of size one added until it has `ndim` (of at most 3).

    A vector becomes a row, and a matrix gets a third dim at the end.
    """
    given: Any = _array(part)
    shape = given.shape
    grown = shape
    if len(shape) < ndim:
        grown = {0: (1,) * ndim, 1: (1, *shape, 1)[:ndim] if ndim > 1 else shape, 2: (*shape, 1)}[len(shape)]
    result: T = given if grown == shape else view.Reshape.apply(given, shape=grown)
    return result


def block_diag(*tensors: T) -> T:
    """Return a matrix with tensors of at most two dims along its diagonal; vectors count as rows."""
    blocks: list[Any] = [standing(part, 2) for part in tensors]
    if not blocks or any(len(block.shape) > 2 for block in blocks):
        shapes = [tuple(block.shape) for block in blocks]
        raise ShapeError(f"block_diag: wanted tensors of at most two dims, got the shapes {shapes}")
    total, left = sum(block.shape[1] for block in blocks), 0
    rows: list[T] = []
    for block in blocks:
        right = total - left - block.shape[1]
        rows.append(padding.Pad.apply(block, pads=((0, 0), (left, right))))
        left += block.shape[1]
    return _joined("block_diag", rows, 0)


@overload
def where(condition: T) -> tuple[T, ...]: ...
@overload
def where(condition: T, input: Operand, other: Operand) -> T: ...
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """Return `input` where `condition` is true and `other` elsewhere; all three broadcast.

    Two Python numbers give the dtype that `shardwise.tensor` would give them: float32, int64, bool or
    complex64. ``where(condition)`` gives the indices of what is true, a vector per dim.
    """
    if input is None and other is None:
        return np.nonzero(condition)
    if input is None or other is None:
        raise ArgumentError("where: wanted two values, or none for the indices of what is true; got one")
    if isinstance(input, (bool, int, float, complex)) and isinstance(other, (bool, int, float, complex)):
        kind = np.result_type(type(input), type(other)).kind
        array = condition.data if isinstance(condition, Carrier) else condition
        number = np.full_like(array, input, {"f": np.float32, "c": np.complex64}.get(kind), shape=())
        return arithmetic.Where.apply(condition, number if kind in "fc" else input, other)
    return arithmetic.Where.apply(condition, input, other)


def _array(part: Any) -> Any:
    """Return an operand as something that has a shape."""
    return part if hasattr(part, "shape") else np.asarray(part)
