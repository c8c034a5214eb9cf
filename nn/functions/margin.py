"""Losses that ask for a margin between classes, or between a label and a score."""

from __future__ import annotations

import numpy as np

from shardwise.backend.errors import ArgumentError, DTypeError, ShapeError
from shardwise.backend.kernels.row.loss import check_classes
from shardwise.nn.check import check_reals, check_tensors
from shardwise.nn.functions.classification import check_class_weight
from shardwise.nn.functions.likelihood import binary_cross_entropy_with_logits
from shardwise.nn.functions.reduction import Reduction, check_pair, check_reduction, reduced
from shardwise.tensor import Tensor
from shardwise.tensor.ops import smooth

__all__ = [
    "hinge_embedding_loss", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss",
    "soft_margin_loss",
]  # fmt: skip


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    """Return `input` where the target is 1, and ``max(0, margin - input)`` where it is -1.

    Parameters
    ----------
    input : Tensor, any shape, real floating
        Distances, mostly.
    target : Tensor, shape of `input`
        Of 1 and -1.
    margin : float
    reduction : "mean", "sum" or "none"
    """
    op = "hinge_embedding_loss"
    check_tensors(op, input=input, target=target)
    check_reals(op, input=input)
    check_reduction(op, reduction)
    if input.shape != target.shape:
        raise ShapeError(f"{op}: input of shape {input.shape} and target of shape {target.shape} must agree")
    far = (margin - input).clamp_min(0.0)
    losses = far.masked_fill(target == 1, 0.0) + input.masked_fill(target == -1, 0.0)
    return reduced(losses, reduction)


def soft_margin_loss(input: Tensor, target: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Return ``log(1 + exp(-target * input))``, without overflow.

    Parameters
    ----------
    input, target : Tensor, of one shape and one real floating dtype
        The target of 1 and -1.
    reduction : "mean", "sum" or "none"
    """
    check_pair("soft_margin_loss", input, target, reduction)
    return reduced(-smooth.LogSigmoid.apply(target * input), reduction)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: Reduction = "mean"
) -> Tensor:
    """Return the `binary_cross_entropy_with_logits` of each class, averaged over the last dim.

    Parameters
    ----------
    input : Tensor, shape (..., classes), real floating
    target : Tensor, shape and dtype of `input`
        Of 0 and 1.
    weight : Tensor, shape (classes,), optional
    reduction : "mean", "sum" or "none"
        Of what is left, shape (...).
    """
    op = "multilabel_soft_margin_loss"
    check_pair(op, input, target, reduction)
    if not input.ndim:
        raise ShapeError(f"{op}: input needs a dim of classes, but its shape is ()")
    losses = binary_cross_entropy_with_logits(input, target, weight, reduction="none")
    return reduced(losses.mean(-1), reduction)


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return ``sum(max(0, margin - input[target] + input[c]) ** p) / classes`` over all other classes c.

    Parameters
    ----------
    input : Tensor, shape (n, classes) or (classes,), real floating
    target : Tensor of integers, shape (n,) or ()
    p : int
        1 or 2.
    margin : float
    weight : Tensor, shape (classes,), optional
        What each target class counts; a constant.
    reduction : "mean", "sum" or "none"

    Raises
    ------
    ShapeError, DTypeError, ArgumentError, IndexRangeError
        Names what does not fit.
    """
    op = "multi_margin_loss"
    check_tensors(op, input=input, target=target)
    check_reduction(op, reduction)
    if p not in (1, 2):
        raise ArgumentError(f"{op}: p must be 1 or 2, got {p}")
    check_class_weight(op, weight, input)
    _check_rows(op, input, target, input.shape[:-1])
    classes = input.shape[-1]
    check_classes(op, target.data, classes)
    label = np.expand_dims(target.data, -1)
    own = input.take_along_dim(Tensor(label), -1)
    gaps = (margin - own + input).relu()
    gaps = gaps if p == 1 else gaps * gaps
    at_label = np.equal(np.arange(classes, like=label), label)
    losses = gaps.masked_fill(Tensor(at_label), 0.0).sum(-1) * (1.0 / max(classes, 1))
    if weight is not None:
        losses = losses * weight[target]
    return reduced(losses, reduction)


def multilabel_margin_loss(input: Tensor, target: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Return ``sum(max(0, 1 - input[y] + input[c])) / classes`` over target classes y and all others c.

    Parameters
    ----------
    input : Tensor, shape (n, classes) or (classes,), real floating
    target : Tensor of integers, shape of `input`
        The target classes of each row, up to the first -1.
    reduction : "mean", "sum" or "none"

    Notes
    -----
    Takes memory for ``n * classes²`` numbers.
    """
    op = "multilabel_margin_loss"
    check_tensors(op, input=input, target=target)
    check_reals(op, input=input)
    check_reduction(op, reduction)
    _check_rows(op, input, target, input.shape)
    classes = input.shape[-1]
    listed = np.cumprod(np.not_equal(target.data, -1), axis=-1).astype(np.bool_)
    label = np.where(listed, target.data, 0)
    check_classes(op, np.where(listed, target.data, 0), classes)
    places = np.expand_dims(np.arange(classes, like=label), tuple(range(label.ndim)))
    is_label = np.equal(places, np.expand_dims(label, -1)) & np.expand_dims(listed, -1)
    counts = np.expand_dims(listed, -1) & ~np.any(is_label, axis=-2, keepdims=True)
    gaps = (1.0 - input.take_along_dim(Tensor(label), -1).unsqueeze(-1) + input.unsqueeze(-2)).relu()
    losses = gaps.masked_fill(Tensor(~counts), 0.0).sum((-2, -1)) * (1.0 / max(classes, 1))
    return reduced(losses, reduction)


def _check_rows(op: str, input: Tensor, target: Tensor, wanted: tuple[int, ...]) -> None:
    if target.dtype.kind not in "iu":
        raise DTypeError(f"{op}: the target must be integer classes, not {target.dtype}; cast with long()")
    if input.ndim not in (1, 2):
        raise ShapeError(f"{op}: input must have shape (n, classes) or (classes,), got {input.shape}")
    if target.shape != wanted:
        raise ShapeError(
            f"{op}: input of shape {input.shape} needs a target of shape {wanted}, got {target.shape}"
        )
