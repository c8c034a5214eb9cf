"""Losses as layers."""

from __future__ import annotations

from shardwise.nn import functional
from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = ["CrossEntropyLoss", "MSELoss"]


class CrossEntropyLoss(Module):
    """Negative log-likelihood of integer classes; see `functional.cross_entropy`."""

    def __init__(self, ignore_index: int = -100, reduction: functional.Reduction = "mean") -> None:
        super().__init__()
        self.ignore_index = ignore_index
        self.reduction: functional.Reduction = reduction

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compare (n, classes) with (n,)."""
        return functional.cross_entropy(
            logits, target, ignore_index=self.ignore_index, reduction=self.reduction
        )


class MSELoss(Module):
    """Squared difference; see `functional.mse_loss`."""

    def __init__(self, reduction: functional.Reduction = "mean") -> None:
        super().__init__()
        self.reduction: functional.Reduction = reduction

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Compare two tensors of one shape."""
        return functional.mse_loss(x, target, self.reduction)
