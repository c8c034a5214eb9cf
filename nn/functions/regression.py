"""Losses of numbers: how far `input` is from `target`."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.nn.check import check_reals
from shardwise.nn.functions.reduction import Reduction, check_pair, reduced
from shardwise.tensor import Tensor
from shardwise.tensor.ops import regression

__all__ = ["huber_loss", "l1_loss", "mse_loss", "smooth_l1_loss"]


def mse_loss(
    input: Tensor, target: Tensor, reduction: Reduction = "mean", weight: Tensor | None = None
) -> Tensor:
    """Return the squared difference.

    Parameters
    ----------
    input, target : Tensor, of one shape and one real floating dtype
    reduction : "mean", "sum" or "none"
        What becomes of the elements. The mean of none is NaN.
    weight : Tensor, shape of `input`, optional
        What each element counts. The mean is then divided by the sum of the weights.

    Returns
    -------
    Tensor, shape (), or that of `input` for "none"

    Raises
    ------
    ShapeError, DTypeError, ArgumentError
        Shapes or dtypes that differ, which PyTorch would broadcast and promote; no such reduction.
    """
    check_pair("mse_loss", input, target, reduction)
    return _weighted("mse_loss", regression.SquaredError.apply(input, target), weight, reduction)


def l1_loss(
    input: Tensor, target: Tensor, reduction: Reduction = "mean", weight: Tensor | None = None
) -> Tensor:
    """Return the absolute difference, whose slope at 0 is 0; parameters are those of `mse_loss`."""
    check_pair("l1_loss", input, target, reduction)
    return _weighted("l1_loss", regression.AbsoluteError.apply(input, target), weight, reduction)


def smooth_l1_loss(input: Tensor, target: Tensor, reduction: Reduction = "mean", beta: float = 1.0) -> Tensor:
    """Return ``d² / (2 beta)`` where ``|d|`` is below `beta`, and ``|d| - beta / 2`` elsewhere.

    Parameters
    ----------
    input, target, reduction
        As for `mse_loss`.
    beta : float
        At least 0, where it is `l1_loss`.
    """
    check_pair("smooth_l1_loss", input, target, reduction)
    if not beta >= 0:
        raise ArgumentError(f"smooth_l1_loss: beta must be at least 0, got {beta}")
    if beta == 0:
        return reduced(regression.AbsoluteError.apply(input, target), reduction)
    return reduced(regression.SmoothL1.apply(input, target, beta=float(beta)), reduction)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: Reduction = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Return ``d² / 2`` where ``|d|`` is at most `delta`, and ``delta * (|d| - delta / 2)`` elsewhere.

    Parameters
    ----------
    input, target, reduction
        As for `mse_loss`.
    delta : float
        Above 0.
    weight : Tensor, shape of `input`, optional
        What each element counts. The mean is still divided by their number, as in PyTorch.
    """
    check_pair("huber_loss", input, target, reduction)
    if not (delta > 0 and math.isfinite(delta)):
        raise ArgumentError(f"huber_loss: delta must be above 0, got {delta}")
    errors = regression.Huber.apply(input, target, delta=float(delta))
    if weight is not None:
        _check_weight("huber_loss", errors, weight)
        errors = errors * weight
    return reduced(errors, reduction)


def _weighted(op: str, errors: Tensor, weight: Tensor | None, reduction: Reduction) -> Tensor:
    if weight is None:
        return reduced(errors, reduction)
    _check_weight(op, errors, weight)
    errors = errors * weight
    if reduction != "mean":
        return reduced(errors, reduction)
    total = weight.sum()
    nothing = np.where(np.equal(total.data, 0.0), math.nan, 0.0).astype(total.dtype)
    return errors.sum() / (total + Tensor(nothing))  # NaN without a warning, where nothing counts


def _check_weight(op: str, errors: Tensor, weight: Tensor) -> None:
    check_reals(op, input=errors, weight=weight)
    if weight.shape != errors.shape:
        raise ShapeError(f"{op}: weight of shape {weight.shape} must have the shape of input, {errors.shape}")
