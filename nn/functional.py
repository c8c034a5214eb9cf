"""Layers as functions, with PyTorch's names and conventions."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from shardwise.backend.errors import DTypeError, ShapeError
from shardwise.tensor import Tensor, next_draw
from shardwise.tensor.ops import activation, arithmetic, attention, index, loss, matmul, norm
from shardwise.tensor.ops import (
    dropout as dropout_op,
)

__all__ = [
    "Reduction", "cross_entropy", "dropout", "embedding", "gelu", "layer_norm", "linear", "log_softmax",
    "mse_loss",    "relu", "scaled_dot_product_attention", "softmax",
]  # fmt: skip

Reduction = Literal["mean", "sum", "none"]


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
    if not x.ndim or x.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"linear: the last dim of x must be {weight.shape[-1]}, the second of weight {weight.shape}; "
            f"x has shape {x.shape}"
        )
    return matmul.Linear.apply(x, weight, bias)


def embedding(index_: Tensor, weight: Tensor) -> Tensor:
    """Return the rows of `weight` that `index_` names.

    Parameters
    ----------
    index_ : Tensor of integers, any shape
        In [0, rows of `weight`).
    weight : Tensor, shape (rows, dim)

    Returns
    -------
    Tensor, shape (*index_.shape, dim)
    """
    if index_.dtype.kind not in "iu":
        raise DTypeError(f"embedding: the index must be integers, not {index_.dtype}; cast with long()")
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
    """
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if x.shape[x.ndim - len(shape) :] != shape or not shape:
        raise ShapeError(f"layer_norm: x of shape {x.shape} does not end in the normalised shape {shape}")
    if len(shape) == 1:
        return norm.LayerNorm.apply(x, weight, bias, eps=eps)
    flat = x.reshape(*x.shape[: x.ndim - len(shape)], -1)
    merged = [None if t is None else t.reshape(-1) for t in (weight, bias)]
    return norm.LayerNorm.apply(flat, *merged, eps=eps).reshape(x.shape)


def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Zero each element with probability `p` and scale the others by ``1 / (1 - p)``.

    The mask depends on the seed, the calling module's path and the element's place in the global
    batch, not on the number of ranks (see `shardwise.tensor.random`).
    """
    if not 0.0 <= p <= 1.0:
        raise ShapeError(f"dropout: p must be a probability between 0 and 1, got {p}")
    if not training or p == 0.0:
        return x
    if p == 1.0:
        return x * 0.0
    draw = next_draw()
    return dropout_op.Dropout.apply(
        x, p=float(p), seed=draw.seed, stream=draw.stream, offset=draw.offset(x.shape)
    )


def gelu(x: Tensor, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    """Return ``x * Phi(x)``, exactly or by the tanh approximation."""
    return activation.GeluTanh.apply(x) if approximate == "tanh" else activation.Gelu.apply(x)


def relu(x: Tensor) -> Tensor:
    """Return the positive part."""
    return x.relu()


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """Return exponentials that sum to one along `dim`."""
    return x.softmax(dim)


def log_softmax(x: Tensor, dim: int = -1) -> Tensor:
    """Return the logarithm of the softmax along `dim`."""
    return x.log_softmax(dim)


def cross_entropy(
    logits: Tensor, target: Tensor, ignore_index: int = -100, reduction: Reduction = "mean"
) -> Tensor:
    """Return the negative log-likelihood of integer classes, in nats.

    Parameters
    ----------
    logits : Tensor, shape (classes,), (n, classes) or (n, classes, ...)
    target : Tensor of integers, shape (), (n,) or (n, ...)
    ignore_index : int
        Targets of this value count for nothing.
    reduction : "mean", "sum" or "none"
        The mean is over the targets that count.
    """
    if target.dtype.kind not in "iu":
        raise DTypeError(
            f"cross_entropy: the target must be integer classes, not {target.dtype}; cast with long()"
        )
    if reduction not in ("mean", "sum", "none"):
        raise ShapeError(f"cross_entropy: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    class_dim = 0 if logits.ndim == 1 else 1
    if logits.ndim == 0 or logits.shape[:class_dim] + logits.shape[class_dim + 1 :] != target.shape:
        raise ShapeError(
            f"cross_entropy: logits of shape {logits.shape} need a target of shape "
            f"{logits.shape[:class_dim] + logits.shape[class_dim + 1 :]}, got {target.shape}"
        )
    rows = logits
    if logits.ndim > 2:
        rows = logits.permute(0, *range(2, logits.ndim), 1)
    classes = target.reshape(-1)
    per_row = loss.CrossEntropy.apply(
        rows.reshape(-1, logits.shape[class_dim]), classes, ignore_index=ignore_index
    )
    if reduction == "none":
        return per_row.reshape(target.shape)
    total = per_row.sum()
    if reduction == "sum":
        return total
    counted = int(np.count_nonzero(classes.data != ignore_index))
    return total * (1.0 / counted if counted else math.nan)


def mse_loss(x: Tensor, target: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Return the squared difference, averaged, summed or as it is."""
    if x.shape != target.shape:
        raise ShapeError(f"mse_loss: x of shape {x.shape} and target of shape {target.shape} must agree")
    squares = (x - target).square()
    return squares.mean() if reduction == "mean" else squares.sum() if reduction == "sum" else squares


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Return ``softmax(scale * query @ key.T + mask) @ value``.

    Parameters
    ----------
    query : Tensor, shape (..., q, d)
    key : Tensor, shape (..., k, d)
    value : Tensor, shape (..., k, e)
    attn_mask : Tensor, optional
        Broadcastable to (..., q, k): booleans (True takes part), or numbers that are added.
    dropout_p : float
        Probability of dropping an attention weight; applied as given, training or not.
    is_causal : bool
        Position i sees positions up to i.
    scale : float, optional
        ``1 / sqrt(d)`` if not given.

    Returns
    -------
    Tensor, shape (..., q, e)
    """
    if query.ndim < 2 or query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ShapeError(
            f"attention needs query (..., q, d), key (..., k, d), value (..., k, e); got {query.shape}, "
            f"{key.shape}, {value.shape}"
        )
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    if attn_mask is None and dropout_p == 0.0:
        return attention.Attention.apply(query, key, value, scale=scale, causal=is_causal)
    if attn_mask is not None and is_causal:
        raise ShapeError("attention: give attn_mask or is_causal, not both")
    scores = (query * scale) @ key.transpose(-1, -2)
    if is_causal:
        causal = np.tri(query.shape[-2], key.shape[-2], dtype=bool)
        scores = arithmetic.Where.apply(scores.wrap(_on_device_of(causal, scores)), scores, -math.inf)
    elif attn_mask is not None and attn_mask.dtype == np.bool_:
        scores = arithmetic.Where.apply(attn_mask, scores, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return dropout(scores.softmax(-1), dropout_p) @ value


def _on_device_of(
    mask: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], like: Tensor
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    moved: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = like.wrap(mask).to(like.device).data
    return moved
