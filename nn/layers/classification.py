"""Losses of classes, as layers."""

from __future__ import annotations

from collections.abc import Sequence

from shardwise.nn import functional
from shardwise.nn.functions.reduction import check_reduction
from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = ["CTCLoss", "CrossEntropyLoss", "NLLLoss"]


class CrossEntropyLoss(Module):
    """Negative log-likelihood of classes, from logits; see `functional.cross_entropy`."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: functional.Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        check_reduction("CrossEntropyLoss", reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction: functional.Reduction = reduction
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare (n, classes, ...) with (n, ...), or with probabilities."""
        return functional.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(Module):
    """Negative log-likelihood of classes, from log-probabilities; see `functional.nll_loss`."""

    weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, ignore_index: int = -100, reduction: functional.Reduction = "mean"
    ) -> None:
        super().__init__()
        check_reduction("NLLLoss", reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction: functional.Reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare (n, classes, ...) with (n, ...)."""
        return functional.nll_loss(
            input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class CTCLoss(Module):
    """Labels without an alignment to frames; see `functional.ctc_loss`."""

    def __init__(
        self, blank: int = 0, reduction: functional.Reduction = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__()
        check_reduction("CTCLoss", reduction)
        self.blank = blank
        self.reduction: functional.Reduction = reduction
        self.zero_infinity = zero_infinity

    def forward(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor | Sequence[int] | int,
        target_lengths: Tensor | Sequence[int] | int,
    ) -> Tensor:
        """Compare (frames, n, classes) with (n, labels)."""
        return functional.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            blank=self.blank,
            reduction=self.reduction,
            zero_infinity=self.zero_infinity,
        )
