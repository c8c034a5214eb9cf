"""Losses as functions."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from shardwise.backend.errors import ArgumentError, DTypeError, ShapeError
from shardwise.nn.check import check_dtypes, check_tensors
from shardwise.tensor import Tensor
from shardwise.tensor.ops import loss

__all__ = ["Reduction", "cross_entropy", "mse_loss"]

Reduction = Literal["mean", "sum", "none"]


def cross_entropy(
    logits: Tensor, target: Tensor, *, ignore_index: int = -100, reduction: Reduction = "mean"
) -> Tensor:
    """Return the negative log-likelihood of integer classes, in nats.

    Parameters
    ----------
    logits : Tensor, shape (classes,), (n, classes) or (n, classes, ...)
    target : Tensor of integers, shape (), (n,) or (n, ...)
    ignore_index : int
        Targets of this value count for nothing.
    reduction : "mean", "sum" or "none"
        The mean is over the targets that count; NaN if there is none.

    Returns
    -------
    Tensor, shape (), or the target's for "none"
    """
    check_tensors("cross_entropy", logits=logits, target=target)
    if target.dtype.kind not in "iu":
        raise DTypeError(
            f"cross_entropy: the target must be integer classes, not {target.dtype}; cast with long()"
        )
    check_dtypes("cross_entropy", logits=logits)
    _check_reduction("cross_entropy", reduction)
    class_dim = 0 if logits.ndim == 1 else 1
    wanted = logits.shape[:class_dim] + logits.shape[class_dim + 1 :]
    if logits.ndim == 0 or wanted != target.shape:
        raise ShapeError(
            f"cross_entropy: logits of shape {logits.shape}, which are (n, classes, ...), need a target "
            f"of shape {wanted}, got {target.shape}"
            if logits.ndim
            else "cross_entropy: logits need a dim of classes, but their shape is ()"
        )
    rows = logits.permute(0, *range(2, logits.ndim), 1) if logits.ndim > 2 else logits
    classes = target.reshape(-1)
    per_row = loss.CrossEntropy.apply(
        rows.reshape(classes.numel(), logits.shape[class_dim]), classes, ignore_index=ignore_index
    )
    if reduction == "none":
        return per_row.reshape(target.shape)
    total = per_row.sum()
    if reduction == "sum":
        return total
    counted = int(np.count_nonzero(classes.data != ignore_index))
    return total * (1.0 / counted if counted else math.nan)


def mse_loss(x: Tensor, target: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Return the squared difference, averaged, summed or as it is.

    Parameters
    ----------
    x, target : Tensor, of one shape and dtype
    reduction : "mean", "sum" or "none"
    """
    check_tensors("mse_loss", x=x, target=target)
    if x.shape != target.shape:
        raise ShapeError(f"mse_loss: x of shape {x.shape} and target of shape {target.shape} must agree")
    check_dtypes("mse_loss", x=x, target=target)
    _check_reduction("mse_loss", reduction)
    squares = (x - target).square()
    return squares.mean() if reduction == "mean" else squares.sum() if reduction == "sum" else squares


def _check_reduction(op: str, reduction: str) -> None:
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentError(f"{op}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
