"""Losses of numbers, as layers."""

from __future__ import annotations

from shardwise.nn import functional
from shardwise.nn.functions.reduction import check_reduction
from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = ["HuberLoss", "L1Loss", "MSELoss", "SmoothL1Loss"]


class MSELoss(Module):
    """Squared difference; see `functional.mse_loss`."""

    def __init__(self, reduction: functional.Reduction = "mean") -> None:
        super().__init__()
        check_reduction("MSELoss", reduction)
        self.reduction: functional.Reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare two tensors of one shape."""
        return functional.mse_loss(input, target, reduction=self.reduction)


class L1Loss(Module):
    """Absolute difference; see `functional.l1_loss`."""

    def __init__(self, reduction: functional.Reduction = "mean") -> None:
        super().__init__()
        check_reduction("L1Loss", reduction)
        self.reduction: functional.Reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare two tensors of one shape."""
        return functional.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(Module):
    """Squared near 0, absolute far from it; see `functional.smooth_l1_loss`."""

    def __init__(self, reduction: functional.Reduction = "mean", beta: float = 1.0) -> None:
        super().__init__()
        check_reduction("SmoothL1Loss", reduction)
        self.reduction: functional.Reduction = reduction
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare two tensors of one shape."""
        return functional.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(Module):
    """Squared near 0, linear far from it; see `functional.huber_loss`."""

    def __init__(self, reduction: functional.Reduction = "mean", delta: float = 1.0) -> None:
        super().__init__()
        check_reduction("HuberLoss", reduction)
        self.reduction: functional.Reduction = reduction
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare two tensors of one shape."""
        return functional.huber_loss(input, target, reduction=self.reduction, delta=self.delta)
