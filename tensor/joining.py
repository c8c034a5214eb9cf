"""Functions of several tensors."""

from __future__ import annotations

from collections.abc import Sequence

from shardwise.backend.errors import ShapeError
from shardwise.tensor.methods.carrier import Operand
from shardwise.tensor.ops import arithmetic, joining
from shardwise.tensor.tensor import Tensor

__all__ = ["cat", "stack", "where"]


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Return tensors joined along an existing dim; their other sizes must agree."""
    if not tensors:
        raise ShapeError("cat needs at least one tensor")
    return joining.Cat.apply(*tensors, dim=dim)


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Return tensors of one shape joined along a new dim."""
    if not tensors:
        raise ShapeError("stack needs at least one tensor")
    return joining.Stack.apply(*tensors, dim=dim)


def where(condition: Tensor, a: Operand, b: Operand) -> Tensor:
    """Return `a` where `condition` is true and `b` elsewhere; all three broadcast."""
    return arithmetic.Where.apply(condition, a, b)
