"""Layers as functions, with PyTorch's names and conventions."""

from __future__ import annotations

import math
from typing import Literal

from shardwise.backend.errors import ArgumentError, DTypeError, ShapeError
from shardwise.backend.kernels.embedding import check_rows
from shardwise.nn.attention import scaled_dot_product_attention
from shardwise.nn.check import check_dtypes, check_tensors
from shardwise.nn.dropout import dropout
from shardwise.nn.loss import Reduction, cross_entropy, mse_loss
from shardwise.tensor import Tensor
from shardwise.tensor.ops import activation, index, matmul, norm

__all__ = [
    "Reduction", "cross_entropy", "dropout", "embedding", "gelu", "layer_norm", "linear", "log_softmax",
    "mse_loss", "relu", "scaled_dot_product_attention", "softmax",
]  # fmt: skip


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


def layer_norm(
    x: Tensor,
    normalized_shape: int | tuple[int, ...],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise over the last dims to mean 0 and variance 1, then scale and shift.

    Parameters
    ----------
    x : Tensor, shape (..., *normalized_shape)
    normalized_shape : int or tuple of int
    weight, bias : Tensor, shape normalized_shape, optional
    eps : float
        Added to the variance.

    Returns
    -------
    Tensor, shape of `x`
    """
    check_tensors("layer_norm", x=x, weight=weight, bias=bias)
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if x.shape[x.ndim - len(shape) :] != shape or not shape:
        raise ShapeError(f"layer_norm: x of shape {x.shape} does not end in the normalised shape {shape}")
    for name, t in (("weight", weight), ("bias", bias)):
        if t is not None and t.shape != shape:
            raise ShapeError(f"layer_norm: {name} must have the normalised shape {shape}, got {t.shape}")
    check_dtypes("layer_norm", x=x, weight=weight, bias=bias)
    if len(shape) == 1:
        return norm.LayerNorm.apply(x, weight, bias, eps=eps)
    flat = x.reshape(*x.shape[: x.ndim - len(shape)], math.prod(shape))
    merged = [None if t is None else t.reshape(math.prod(shape)) for t in (weight, bias)]
    return norm.LayerNorm.apply(flat, *merged, eps=eps).reshape(x.shape)


def gelu(x: Tensor, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    """Return ``x * Phi(x)``, exactly or by the tanh approximation."""
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    check_tensors("gelu", x=x)
    check_dtypes("gelu", x=x)
    return activation.GeluTanh.apply(x) if approximate == "tanh" else activation.Gelu.apply(x)


def relu(x: Tensor) -> Tensor:
    """Return the positive part."""
    check_tensors("relu", x=x)
    return x.relu()


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """Return exponentials that sum to one along `dim`."""
    check_tensors("softmax", x=x)
    return x.softmax(dim)


def log_softmax(x: Tensor, dim: int = -1) -> Tensor:
    """Return the logarithm of the softmax along `dim`."""
    check_tensors("log_softmax", x=x)
    return x.log_softmax(dim)
