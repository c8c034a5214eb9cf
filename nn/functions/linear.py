"""Matrix products with weights, and rows chosen from them."""

from __future__ import annotations

from shardwise.backend.errors import DTypeError, ShapeError
from shardwise.backend.kernels.embedding import check_rows
from shardwise.nn.check import check_dtypes, check_tensors
from shardwise.tensor import Tensor
from shardwise.tensor.ops import index, matmul

__all__ = ["embedding", "linear"]


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``x @ weight.T + bias``.

    Parameters
    ----------
    x : Tensor, shape (..., in)
    weight : Tensor, shape (out, in)
    bias : Tensor, shape (out,), optional

    Returns
    -------
    Tensor, shape (..., out)
    """
    check_tensors("linear", x=x, weight=weight, bias=bias)
    if weight.ndim != 2 or (bias is not None and bias.shape != weight.shape[:1]):
        raise ShapeError(
            f"linear: weight must have shape (out, in) and bias (out,); got {weight.shape} and "
            f"{None if bias is None else bias.shape}"
        )
    if not x.ndim or x.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"linear: the last dim of x must be {weight.shape[-1]}, the second of weight {weight.shape}; "
            f"x has shape {x.shape}"
        )
    check_dtypes("linear", x=x, weight=weight, bias=bias)
    return matmul.Linear.apply(x, weight, bias)


def embedding(index_: Tensor, weight: Tensor) -> Tensor:
    """Return the rows of `weight` that `index_` names.

    Parameters
    ----------
    index_ : Tensor of integers, any shape
        In [0, rows of `weight`); checked on the CPU.
    weight : Tensor, shape (rows, dim)

    Returns
    -------
    Tensor, shape (*index_.shape, dim)

    Raises
    ------
    IndexRangeError
        Names the first index that is out of range; negative ones are.
    """
    check_tensors("embedding", index_=index_, weight=weight)
    if index_.dtype.kind not in "iu":
        raise DTypeError(f"embedding: the index must be integers, not {index_.dtype}; cast with long()")
    if weight.ndim != 2:
        raise ShapeError(f"embedding: weight must have shape (rows, dim), got {weight.shape}")
    check_rows("embedding", index_.data, weight.shape[0])
    return index.Embedding.apply(weight, index_)
