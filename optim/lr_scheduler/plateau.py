"""A learning rate that falls when nothing gets better any more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, SupportsFloat

from shardwise.backend.errors import ArgumentError, ModuleError
from shardwise.optim.lr_scheduler.scheduler import LRScheduler, check_optimizer, rates
from shardwise.optim.optimizer import Optimizer

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(LRScheduler):
    """The learning rate times `factor` whenever a number has not got better for more than `patience` steps.

    Parameters
    ----------
    optimizer : Optimizer
    mode : "min" or "max"
        Which numbers are better.
    factor : float
        Below 1.
    patience : int
    threshold : float
        By how much a number must be better than the best so far to count.
    threshold_mode : "rel" or "abs"
        Whether that is a share of the best so far.
    cooldown : int
        Steps after a reduction in which nothing is counted.
    min_lr : float, or one per group
    eps : float
        A reduction by no more than this is not made.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        check_optimizer("ReduceLROnPlateau", optimizer)
        if not factor < 1.0:
            raise ArgumentError(f"ReduceLROnPlateau needs factor < 1, got {factor}")
        if mode not in ("min", "max"):
            raise ArgumentError(f'ReduceLROnPlateau: mode is "min" or "max", not {mode!r}')
        if threshold_mode not in ("rel", "abs"):
            raise ArgumentError(
                f'ReduceLROnPlateau: threshold_mode is "rel" or "abs", not {threshold_mode!r}'
            )
        groups = len(optimizer.param_groups)
        if isinstance(min_lr, (list, tuple)) and len(min_lr) != groups:
            raise ModuleError(
                f"ReduceLROnPlateau: got {len(min_lr)} values of min_lr for {groups} parameter groups"
            )
        self.optimizer = optimizer
        self.min_lr = min_lr
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.factor, self.patience, self.cooldown, self.eps = factor, patience, cooldown, eps
        self.base_lrs = rates(optimizer)
        self.last_epoch = 0
        self.best = math.inf if mode == "min" else -math.inf
        self.cooldown_counter = self.num_bad_epochs = 0
        self._last_lr = rates(optimizer)

    @property
    def in_cooldown(self) -> bool:
        """Whether a reduction was made just now."""
        return self.cooldown_counter > 0

    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:  # type: ignore[override]  # as in PyTorch
        """Take note of a number, such as the loss on data that was held back; call it after an epoch."""
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = rates(self.optimizer)

    def _is_better(self, current: float) -> bool:
        share = self.threshold_mode == "rel"
        if self.mode == "min":
            return current < (self.best * (1.0 - self.threshold) if share else self.best - self.threshold)
        return current > (self.best * (1.0 + self.threshold) if share else self.best + self.threshold)

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        lowest = self.min_lr if isinstance(self.min_lr, (list, tuple)) else [self.min_lr] * len(groups)
        if len(lowest) != len(groups):
            raise ModuleError(
                f"ReduceLROnPlateau was given {len(lowest)} values of min_lr, but the optimizer has "
                f"{len(groups)} parameter groups now; set scheduler.min_lr to as many"
            )
        for group, low in zip(groups, lowest, strict=True):
            before = float(group["lr"])
            after = max(before * self.factor, float(low))
            if before - after > self.eps:
                group["lr"] = after
