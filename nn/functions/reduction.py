"""How a loss of many elements becomes one number."""

from __future__ import annotations

from typing import Literal

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.nn.check import check_reals
from shardwise.tensor import Tensor

__all__ = ["Reduction", "check_pair", "check_reduction", "reduced"]

Reduction = Literal["mean", "sum", "none"]


def reduced(loss: Tensor, reduction: Reduction) -> Tensor:
    """Return the mean of all elements (NaN if there are none), their sum, or the loss as it is."""
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def check_reduction(op: str, reduction: str) -> None:
    """Raise ArgumentError unless `reduction` is one of the three."""
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentError(f"{op}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")


def check_pair(op: str, input: Tensor, target: Tensor, reduction: str) -> None:
    """Raise unless `input` and `target` are real tensors of one shape and dtype, and `reduction` is one.

    PyTorch warns where shapes differ, and broadcasts, which is seldom what was meant.
    """
    check_reals(op, input=input, target=target)
    check_reduction(op, reduction)
    if input.shape != target.shape:
        raise ShapeError(
            f"{op}: input of shape {input.shape} and target of shape {target.shape} must agree; reshape or "
            "expand one"
        )
