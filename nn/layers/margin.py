"""Losses that ask for a margin, as layers."""

from __future__ import annotations

from shardwise.nn import functional
from shardwise.nn.functions.reduction import check_reduction
from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = [
    "HingeEmbeddingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "SoftMarginLoss",
]


class HingeEmbeddingLoss(Module):
    """Small where the target is 1, large where it is -1; see `functional.hinge_embedding_loss`."""

    def __init__(self, margin: float = 1.0, reduction: functional.Reduction = "mean") -> None:
        super().__init__()
        check_reduction("HingeEmbeddingLoss", reduction)
        self.margin = margin
        self.reduction: functional.Reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare two tensors of one shape."""
        return functional.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class SoftMarginLoss(Module):
    """Logistic loss of 1 and -1; see `functional.soft_margin_loss`."""

    def __init__(self, reduction: functional.Reduction = "mean") -> None:
        super().__init__()
        check_reduction("SoftMarginLoss", reduction)
        self.reduction: functional.Reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare two tensors of one shape."""
        return functional.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(Module):
    """Logistic loss of each class; see `functional.multilabel_soft_margin_loss`."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: functional.Reduction = "mean") -> None:
        super().__init__()
        check_reduction("MultiLabelSoftMarginLoss", reduction)
        self.register_buffer("weight", weight)
        self.reduction: functional.Reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare (..., classes) with zeros and ones."""
        return functional.multilabel_soft_margin_loss(
            input, target, weight=self.weight, reduction=self.reduction
        )


class MultiMarginLoss(Module):
    """A margin above all other classes; see `functional.multi_margin_loss`."""

    weight: Tensor | None

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        reduction: functional.Reduction = "mean",
    ) -> None:
        super().__init__()
        check_reduction("MultiMarginLoss", reduction)
        self.p = p
        self.margin = margin
        self.register_buffer("weight", weight)
        self.reduction: functional.Reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare (n, classes) with (n,)."""
        return functional.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class MultiLabelMarginLoss(Module):
    """A margin of some classes above all others; see `functional.multilabel_margin_loss`."""

    def __init__(self, reduction: functional.Reduction = "mean") -> None:
        super().__init__()
        check_reduction("MultiLabelMarginLoss", reduction)
        self.reduction: functional.Reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare (n, classes) with lists of classes."""
        return functional.multilabel_margin_loss(input, target, reduction=self.reduction)
