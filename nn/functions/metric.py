"""Losses that compare: pairs and triplets of vectors, and ranks."""

from __future__ import annotations

from collections.abc import Callable

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.nn.check import check_reals, check_tensors
from shardwise.nn.functions.distance import pairwise_distance
from shardwise.nn.functions.reduction import Reduction, check_reduction, reduced
from shardwise.tensor import Tensor

__all__ = [
    "cosine_embedding_loss", "margin_ranking_loss", "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]  # fmt: skip

_EPSILON = 1e-12  # PyTorch's, added to the squares of lengths


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: Reduction = "mean"
) -> Tensor:
    """Return ``max(0, margin - target * (input1 - input2))``: which of two should rank higher.

    Parameters
    ----------
    input1, input2, target : Tensor, of one number of dims and one real floating dtype
        Broadcast with each other. A target of 1 wants the first higher, and of -1 the second.
    margin : float
    reduction : "mean", "sum" or "none"
    """
    op = "margin_ranking_loss"
    check_reals(op, input1=input1, input2=input2, target=target)
    check_reduction(op, reduction)
    if not input1.ndim == input2.ndim == target.ndim:
        raise ShapeError(
            f"{op}: all must have the same number of dims, got input1 {input1.shape}, input2 {input2.shape}, "
            f"target {target.shape}"
        )
    return reduced((margin - target * (input1 - input2)).clamp_min(0.0), reduction)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: Reduction = "mean"
) -> Tensor:
    """Return ``1 - cos`` where the target is 1, and ``max(0, cos - margin)`` where it is -1.

    Parameters
    ----------
    input1, input2 : Tensor, shape (n, dim) or (dim,), real floating, of one dtype
    target : Tensor, shape (n,) or ()
        Of 1 and -1.
    margin : float
        From -1 to 1.
    reduction : "mean", "sum" or "none"
    """
    op = "cosine_embedding_loss"
    check_tensors(op, target=target)
    check_reals(op, input1=input1, input2=input2)
    check_reduction(op, reduction)
    if input1.ndim not in (1, 2) or input1.ndim != input2.ndim or target.ndim != input1.ndim - 1:
        raise ShapeError(
            f"{op}: wanted two inputs of shape (n, dim) and a target (n,), or (dim,) and (); got "
            f"{input1.shape}, {input2.shape} and {target.shape}"
        )
    squares = ((x * x).sum(-1) + _EPSILON for x in (input1, input2))
    first, second = squares
    cosine = (input1 * input2).sum(-1) / (first * second).sqrt()
    near, far = 1.0 - cosine, (cosine - margin).clamp_min(0.0)
    losses = near.masked_fill(target != 1, 0.0) + far.masked_fill(target != -1, 0.0)
    return reduced(losses, reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return ``max(0, margin + d(anchor, positive) - d(anchor, negative))`` of p-norms along the last dim.

    Parameters
    ----------
    anchor, positive, negative : Tensor, shape (..., dim), real floating, of one dtype
    margin : float
        Above 0.
    p, eps : float
        As for `pairwise_distance`.
    swap : bool
        Take ``d(positive, negative)`` where that is smaller than ``d(anchor, negative)`` (Balntas et
        al. 2016).
    reduction : "mean", "sum" or "none"
    """
    op = "triplet_margin_loss"
    check_reals(op, anchor=anchor, positive=positive, negative=negative)

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return pairwise_distance(a, b, p, eps)

    return _triplet(op, anchor, positive, negative, distance, margin, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return `triplet_margin_loss` with any distance.

    Parameters
    ----------
    anchor, positive, negative : Tensor, of one number of dims
    distance_function : callable, optional
        Takes two tensors and returns their distances; `pairwise_distance` if not given.
    margin, swap, reduction
        As for `triplet_margin_loss`.
    """
    op = "triplet_margin_with_distance_loss"
    check_tensors(op, anchor=anchor, positive=positive, negative=negative)
    distance = pairwise_distance if distance_function is None else distance_function
    return _triplet(op, anchor, positive, negative, distance, margin, swap, reduction)


def _triplet(
    op: str,
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    reduction: Reduction,
) -> Tensor:
    check_reduction(op, reduction)
    if not margin > 0:
        raise ArgumentError(f"{op}: margin must be above 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ShapeError(
            f"{op}: all must have the same number of dims, got anchor {anchor.shape}, positive "
            f"{positive.shape}, negative {negative.shape}"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((margin + near - far).clamp_min(0.0), reduction)
