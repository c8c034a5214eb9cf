"""Sums of products over named or paired dims."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import TypeAlias

from shardwise.backend.array import Array
from shardwise.tensor.ops import einsum as contraction
from shardwise.tensor.ops import product
from shardwise.tensor.ops.equation import equation_and_operands
from shardwise.tensor.tensor import Tensor

__all__ = ["chain_matmul", "einsum", "tensordot"]

Labels: TypeAlias = Sequence[int | EllipsisType]
Part: TypeAlias = Tensor | Array | Labels | Sequence[Tensor]


def einsum(equation: str | Tensor | Array, *operands: Part) -> Tensor:
    """Return the sum of products that an equation over named dims describes.

    Parameters
    ----------
    equation : str
        A term of letters per operand, one letter per dim, and ``->`` with the letters of the result. A
        letter that the result lacks is summed over; one that repeats within a term takes the diagonal;
        ``...`` stands for any other dims, which broadcast. Without ``->`` the result has the letters that
        occur once, in alphabetical order, behind the dims of ``...``.
    *operands : Tensor
        One per term, or a list of them; dims of size one broadcast. ``einsum(a, [0, 1], b, [1, 2], [0, 2])``
        with numbers for letters is understood too.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If the equation cannot be read, or the sizes of a letter differ: names letter, sizes and operands.

    Notes
    -----
    Two operands are contracted by one (batched) matrix product, several two at a time, in the order that
    costs least. Gradients are contractions of the same kind.

    Examples
    --------
    >>> import shardwise as sw
    >>> a, b = sw.ones(2, 3), sw.ones(5, 3, 4)
    >>> einsum("ij, bjk -> bik", a, b).shape
    (5, 2, 4)
    >>> einsum("ii", sw.ones(3, 3)).item()
    3.0
    """
    result: Tensor = contraction.einsum(*equation_and_operands((equation, *operands)))
    return result


def tensordot(a: Tensor, b: Tensor, dims: product.Pairs = 2) -> Tensor:
    """Return the sum of products over pairs of dims.

    Parameters
    ----------
    a, b : Tensor
    dims : int, or two sequences of int, default 2
        How many of the last dims of `a` to pair with the first dims of `b`, in order; or which dims of each.

    Returns
    -------
    Tensor
        The other dims of `a`, then those of `b`.

    Raises
    ------
    ShapeError
        If the sizes of a pair differ.

    Examples
    --------
    >>> import shardwise as sw
    >>> tensordot(sw.ones(2, 3, 4), sw.ones(4, 3, 5), dims=([1, 2], [1, 0])).shape
    (2, 5)
    """
    result: Tensor = product.tensordot(a, b, dims)
    return result


def chain_matmul(*matrices: Tensor) -> Tensor:
    """Return the product of several matrices, multiplied in the order that costs least."""
    result: Tensor = product.multi_dot(matrices)
    return result
