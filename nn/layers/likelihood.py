"""Losses that are negative log-likelihoods, as layers."""

from __future__ import annotations

from typing import Literal

from shardwise.nn import functional
from shardwise.nn.functions.reduction import check_reduction
from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = ["BCELoss", "BCEWithLogitsLoss", "GaussianNLLLoss", "KLDivLoss", "PoissonNLLLoss"]


class BCELoss(Module):
    """Cross-entropy of probabilities of yes or no; see `functional.binary_cross_entropy`."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: functional.Reduction = "mean") -> None:
        super().__init__()
        check_reduction("BCELoss", reduction)
        self.register_buffer("weight", weight)
        self.reduction: functional.Reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare two tensors of one shape."""
        return functional.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(Module):
    """Cross-entropy of logits of yes or no; see `functional.binary_cross_entropy_with_logits`."""

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        reduction: functional.Reduction = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__()
        check_reduction("BCEWithLogitsLoss", reduction)
        self.register_buffer("weight", weight)
        self.reduction: functional.Reduction = reduction
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare two tensors of one shape."""
        return functional.binary_cross_entropy_with_logits(
            input, target, weight=self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class KLDivLoss(Module):
    """Divergence of Kullback and Leibler; see `functional.kl_div`."""

    def __init__(
        self, reduction: functional.Reduction | Literal["batchmean"] = "mean", log_target: bool = False
    ) -> None:
        super().__init__()
        if reduction != "batchmean":
            check_reduction("KLDivLoss", reduction)
        self.reduction: functional.Reduction | Literal["batchmean"] = reduction
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare log-probabilities with probabilities."""
        return functional.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class PoissonNLLLoss(Module):
    """Negative log-likelihood of counts; see `functional.poisson_nll_loss`."""

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        eps: float = 1e-8,
        reduction: functional.Reduction = "mean",
    ) -> None:
        super().__init__()
        check_reduction("PoissonNLLLoss", reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps
        self.reduction: functional.Reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare expected counts with counts."""
        return functional.poisson_nll_loss(
            input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(Module):
    """Negative log-likelihood of normal numbers; see `functional.gaussian_nll_loss`."""

    def __init__(
        self, *, full: bool = False, eps: float = 1e-6, reduction: functional.Reduction = "mean"
    ) -> None:
        super().__init__()
        check_reduction("GaussianNLLLoss", reduction)
        self.full = full
        self.eps = eps
        self.reduction: functional.Reduction = reduction

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """Compare means with numbers, under variances."""
        return functional.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )
