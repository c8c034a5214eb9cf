"""Losses of classes."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from shardwise.backend.kernels.row.loss import check_classes
from shardwise.nn.check import check_reals, check_tensors
from shardwise.nn.functions.reduction import Reduction, check_reduction, reduced
from shardwise.tensor import Tensor
from shardwise.tensor.ops import loss
from shardwise.tensor.ops.arithmetic import Where
from shardwise.tensor.ops.comparison import NotEqual
from shardwise.tensor.ops.take import IndexSelect

__all__ = ["check_class_weight", "cross_entropy", "nll_loss"]


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the negative log-likelihood of classes under the softmax of logits, in nats.

    Parameters
    ----------
    input : Tensor, shape (classes,), (n, classes) or (n, classes, ...), real floating
        The logits.
    target : Tensor
        Of integers: a class each, shape (), (n,) or (n, ...). Floating, of the shape and dtype of
        `input`: the probability of each class.
    weight : Tensor, shape (classes,), optional
        What each class counts; a constant. Of the dtype of `input`.
    ignore_index : int
        Integer targets of this value count for nothing.
    reduction : "mean", "sum" or "none"
        The mean is over the integer targets that count, each as much as its class weighs; NaN if
        there is none. Of probabilities it is over all, whatever they weigh.
    label_smoothing : float
        The share, from 0 to 1, that is taken from the target and spread over all classes.

    Returns
    -------
    Tensor, shape (), or that of `input` without its classes for "none"

    Raises
    ------
    ShapeError, DTypeError, ArgumentError
        Names what does not fit.
    IndexRangeError
        Names the first class out of range; checked on the CPU.

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise.nn import functional as F
    >>> F.cross_entropy(sw.tensor([[0.0, 0.0], [9.0, 9.0]]), sw.tensor([0, -100])).item()
    0.6931471824645996
    """
    op = "cross_entropy"
    check_tensors(op, input=input, target=target)
    check_reduction(op, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(f"{op}: label_smoothing must be from 0 to 1, got {label_smoothing}")
    check_class_weight(op, weight, input)
    if target.dtype.kind in "fV":  # V: bfloat16
        return _soft_cross_entropy(input, target, weight, ignore_index, reduction, float(label_smoothing))
    rows, classes = _rows(op, input, target)
    try:
        if weight is None and label_smoothing == 0.0:
            per_row = loss.CrossEntropy.apply(rows, classes, ignore_index=ignore_index)
        else:
            check_classes(op, target.data, rows.shape[1], ignore_index)
            per_row = loss.WeightedCrossEntropy.apply(
                rows, classes, weight, ignore_index=ignore_index, smoothing=float(label_smoothing)
            )
    except IndexRangeError:
        check_classes(op, target.data, rows.shape[1], ignore_index)  # names the place before flattening
        raise
    return _counted(per_row, target, classes, weight, ignore_index, reduction)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return the negative log-likelihood of integer classes, from log-probabilities.

    Parameters
    ----------
    input : Tensor, shape (classes,), (n, classes) or (n, classes, ...), real floating
        As of `log_softmax`.
    target : Tensor of integers, shape (), (n,) or (n, ...)
    weight, ignore_index, reduction
        As for `cross_entropy`.

    Returns
    -------
    Tensor, shape (), or that of `target` for "none"
    """
    op = "nll_loss"
    check_tensors(op, input=input, target=target)
    check_reduction(op, reduction)
    check_class_weight(op, weight, input)
    rows, classes = _rows(op, input, target)
    check_classes(op, target.data, rows.shape[1], ignore_index)
    per_row = loss.NegativeLikelihood.apply(rows, classes, weight, ignore_index=ignore_index)
    return _counted(per_row, target, classes, weight, ignore_index, reduction)


def check_class_weight(op: str, weight: Tensor | None, input: Tensor) -> None:
    """Raise unless there is no weight, or one constant per class, in the dtype of `input`."""
    check_reals(op, input=input, weight=weight)
    if not input.ndim:
        raise ShapeError(f"{op}: input needs a dim of classes, but its shape is ()")
    if weight is None:
        return
    classes = input.shape[min(input.ndim - 1, 1)]
    if weight.shape != (classes,):
        raise ShapeError(
            f"{op}: weight must have shape ({classes},), one element per class of input {input.shape}; got "
            f"{weight.shape}"
        )
    if weight.requires_grad:
        raise ArgumentError(f"{op}: weight is a constant and gets no gradient; pass weight.detach()")


def _rows(op: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return `input` as (rows, classes) and `target` as (rows,)."""
    if target.dtype.kind not in "iu":
        raise DTypeError(f"{op}: the target must be integer classes, not {target.dtype}; cast with long()")
    place = 0 if input.ndim == 1 else 1
    wanted = input.shape[:place] + input.shape[place + 1 :]
    if wanted != target.shape:
        raise ShapeError(
            f"{op}: input of shape {input.shape}, which is (n, classes, ...), needs a target of shape "
            f"{wanted}, got {target.shape}"
        )
    if input.ndim == 2:
        return input, target
    classes = target.reshape(-1)
    return _classes_last(input).reshape(classes.numel(), input.shape[place]), classes


def _classes_last(input: Tensor) -> Tensor:
    return input.permute(0, *range(2, input.ndim), 1) if input.ndim > 2 else input


def _counted(
    per_row: Tensor,
    target: Tensor,
    classes: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: Reduction,
) -> Tensor:
    """Reduce the losses of rows, of which those that are ignored do not count."""
    if reduction == "none":
        return per_row.reshape(target.shape)
    total = per_row.sum()
    if reduction == "sum":
        return total
    if weight is None and type(classes.data) is np.ndarray:
        return total / (int(np.count_nonzero(classes.data != ignore_index)) or math.nan)
    counted = NotEqual.apply(classes.detach(), ignore_index)
    shares = counted
    if weight is not None:
        label = Where.apply(counted, classes.detach(), 0)
        shares = Where.apply(counted, IndexSelect.apply(weight.detach(), label, dim=0), 0.0)
    precision = np.float64 if per_row.dtype == np.float64 else np.float32
    count = shares.astype(precision).sum()
    with np.errstate(invalid="ignore"):  # NaN of nothing
        return (total / count).astype(per_row.dtype)


def _soft_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: Reduction,
    smoothing: float,
) -> Tensor:
    op = "cross_entropy"
    check_reals(op, input=input, target=target)
    if input.shape != target.shape:
        raise ShapeError(
            f"{op}: a floating target holds the probability of each class, so that its shape must be that of "
            f"input, {input.shape}; got {target.shape}. If it holds classes, cast it with long()."
        )
    if ignore_index >= 0:
        raise ArgumentError(
            f"{op}: ignore_index is for integer targets, not for probabilities; got {ignore_index}"
        )
    moved, shares = _classes_last(input), _classes_last(target)
    shape, classes = moved.shape[:-1], moved.shape[-1]
    count = math.prod(shape)
    rows, shares = moved.reshape(count, classes), shares.reshape(count, classes)
    per_row = loss.SoftCrossEntropy.apply(rows, shares, weight, smoothing=smoothing)
    return reduced(per_row.reshape(shape) if reduction == "none" else per_row, reduction)
