"""Schedules along a cosine (Loshchilov and Hutter 2017)."""

from __future__ import annotations

import math

from shardwise.backend.errors import ArgumentError
from shardwise.optim.lr_scheduler.scheduler import LRScheduler, rates
from shardwise.optim.optimizer import Optimizer

__all__ = ["CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CosineWarmupLR"]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first learning rate to `eta_min` at step `T_max`, and the same way back.

    Parameters
    ----------
    optimizer : Optimizer
    T_max : int
    eta_min : float
    last_epoch : int
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        if T_max < 1:
            raise ArgumentError(f"CosineAnnealingLR needs T_max >= 1, got {T_max}")
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Multiply what is above `eta_min` by the ratio of this height and the one before."""
        if self._is_initial:
            return rates(self.optimizer)
        low, step = self.eta_min, self.last_epoch
        if (step - 1 - self.T_max) % (2 * self.T_max) == 0:  # the height before was 0
            rise = (1.0 - math.cos(math.pi / self.T_max)) / 2.0
            return [
                lr + (base - low) * rise
                for lr, base in zip(rates(self.optimizer), self.base_lrs, strict=True)
            ]
        before = 1.0 + math.cos(math.pi * (step - 1) / self.T_max)
        ratio = (1.0 + math.cos(math.pi * step / self.T_max)) / before
        return [ratio * (lr - low) + low for lr in rates(self.optimizer)]

    def _get_closed_form_lr(self) -> list[float]:
        height = (1.0 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2.0
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the first learning rate to `eta_min`, again and again.

    Parameters
    ----------
    optimizer : Optimizer
    T_0 : int
        Steps of the first descent.
    T_mult : int
        Each descent takes this many times the steps of the one before.
    eta_min : float
    last_epoch : int

    Attributes
    ----------
    T_i, T_cur
        Steps of this descent, and those that are behind.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if not isinstance(value, int) or value < 1:
                raise ArgumentError(f"CosineAnnealingWarmRestarts needs an integer {name} >= 1, got {value}")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        self.T_i: float = T_0
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Go down the cosine."""
        height = (1.0 + math.cos(math.pi * self.T_cur / self.T_i)) / 2.0
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next step, or to any: fractions are steps of batches within an epoch."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0.0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._go_to(epoch)
        self._step_count += 1
        self._update_lr(math.floor(epoch))

    def _go_to(self, epoch: float) -> None:
        if epoch < 0:
            raise ArgumentError(f"CosineAnnealingWarmRestarts: the step must be at least 0, got {epoch}")
        self.T_i, self.T_cur = self.T_0, epoch
        if self.T_mult == 1:
            self.T_cur = epoch % self.T_0
            return
        while self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult


class CosineWarmupLR(LRScheduler):
    """A straight rise for `warmup_steps`, then half a cosine down to `min_factor` at `total_steps`.

    (Loshchilov and Hutter 2017, equation 5, without restarts.)

    Parameters
    ----------
    optimizer : Optimizer
    total_steps : int
    warmup_steps : int
        The first step runs at ``1 / warmup_steps`` of the full rate.
    min_factor : float
        Fraction of the first learning rate that is left at the end, and after it.
    last_epoch : int
    """

    def __init__(
        self,
        optimizer: Optimizer,
        total_steps: int,
        warmup_steps: int = 0,
        min_factor: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if not 0 <= warmup_steps <= total_steps or total_steps < 1:
            raise ArgumentError(
                f"CosineWarmupLR needs 0 <= warmup_steps <= total_steps and at least one step; "
                f"got warmup_steps={warmup_steps}, total_steps={total_steps}"
            )
        if not 0.0 <= min_factor <= 1.0:
            raise ArgumentError(f"CosineWarmupLR needs min_factor between 0 and 1, got {min_factor}")
        self.total_steps, self.warmup_steps, self.min_factor = total_steps, warmup_steps, min_factor
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Rise, then fall."""
        return [base * self._factor(self.last_epoch) for base in self.base_lrs]

    def _factor(self, step: int) -> float:
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        progress = (step - self.warmup_steps) / max(1, self.total_steps - self.warmup_steps)
        cosine = 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))
        return self.min_factor + (1.0 - self.min_factor) * cosine
