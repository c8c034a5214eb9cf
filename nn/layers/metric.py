"""Losses that compare pairs and triplets, as layers."""

from __future__ import annotations

from collections.abc import Callable

from shardwise.nn import functional
from shardwise.nn.functions.reduction import check_reduction
from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = ["CosineEmbeddingLoss", "MarginRankingLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss"]


class MarginRankingLoss(Module):
    """Which of two should rank higher; see `functional.margin_ranking_loss`."""

    def __init__(self, margin: float = 0.0, reduction: functional.Reduction = "mean") -> None:
        super().__init__()
        check_reduction("MarginRankingLoss", reduction)
        self.margin = margin
        self.reduction: functional.Reduction = reduction

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Compare two scores by a target of 1 or -1."""
        return functional.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class CosineEmbeddingLoss(Module):
    """Angles, small or large; see `functional.cosine_embedding_loss`."""

    def __init__(self, margin: float = 0.0, reduction: functional.Reduction = "mean") -> None:
        super().__init__()
        check_reduction("CosineEmbeddingLoss", reduction)
        self.margin = margin
        self.reduction: functional.Reduction = reduction

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Compare two rows of vectors by a target of 1 or -1."""
        return functional.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class TripletMarginLoss(Module):
    """Near to one, far from the other; see `functional.triplet_margin_loss`."""

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        reduction: functional.Reduction = "mean",
    ) -> None:
        super().__init__()
        check_reduction("TripletMarginLoss", reduction)
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap
        self.reduction: functional.Reduction = reduction

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Compare distances of vectors."""
        return functional.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(Module):
    """Near to one, far from the other, by any distance.

    See `functional.triplet_margin_with_distance_loss`.
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: functional.Reduction = "mean",
    ) -> None:
        super().__init__()
        check_reduction("TripletMarginWithDistanceLoss", reduction)
        self.distance_function = distance_function
        self.margin = margin
        self.swap = swap
        self.reduction: functional.Reduction = reduction

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Compare distances of vectors."""
        return functional.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
