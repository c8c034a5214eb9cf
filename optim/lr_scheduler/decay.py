"""Schedules that multiply the learning rate by simple factors."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable

from shardwise.backend.errors import ArgumentError
from shardwise.optim.lr_scheduler.scheduler import LRScheduler, rates
from shardwise.optim.optimizer import Optimizer

__all__ = ["ConstantLR", "ExponentialLR", "LinearLR", "MultiStepLR", "PolynomialLR", "StepLR"]


class StepLR(LRScheduler):
    """The learning rate times `gamma` at every `step_size`-th step.

    Parameters
    ----------
    optimizer : Optimizer
    step_size : int
    gamma : float
    last_epoch : int
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        if step_size < 1:
            raise ArgumentError(f"StepLR needs step_size >= 1, got {step_size}")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Multiply where it is time."""
        at = self.last_epoch == 0 or self.last_epoch % self.step_size != 0
        return [lr if at else lr * self.gamma for lr in rates(self.optimizer)]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The learning rate times `gamma` at each of some steps.

    Parameters
    ----------
    optimizer : Optimizer
    milestones : iterable of int
        One that is there twice counts twice.
    gamma : float
    last_epoch : int
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Multiply where it is time."""
        times = self.milestones.get(self.last_epoch, 0)
        return [lr * self.gamma**times if times else lr for lr in rates(self.optimizer)]

    def _get_closed_form_lr(self) -> list[float]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """The learning rate times `gamma` at every step.

    Parameters
    ----------
    optimizer : Optimizer
    gamma : float
    last_epoch : int
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Multiply, but not before the first step."""
        return [lr if self._is_initial else lr * self.gamma for lr in rates(self.optimizer)]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """The learning rate times `factor` for the first `total_iters` steps.

    Parameters
    ----------
    optimizer : Optimizer
    factor : float
        Between 0 and 1.
    total_iters : int
    last_epoch : int
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0.0 <= factor <= 1.0:
            raise ArgumentError(f"ConstantLR needs factor between 0 and 1, got {factor}")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Multiply at the beginning, and divide at the end."""
        if self.last_epoch == 0:
            return [lr * self.factor for lr in rates(self.optimizer)]
        if self.last_epoch != self.total_iters:
            return rates(self.optimizer)
        if self.factor == 0.0:
            return list(self.base_lrs)  # nothing is left to divide
        return [lr * (1.0 / self.factor) for lr in rates(self.optimizer)]

    def _get_closed_form_lr(self) -> list[float]:
        factor = 1.0 if self.last_epoch >= self.total_iters else self.factor
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """The learning rate times a factor that goes straight to another in `total_iters` steps.

    Parameters
    ----------
    optimizer : Optimizer
    start_factor : float
        Above 0, and at most 1.
    end_factor : float
        Between 0 and 1.
    total_iters : int
    last_epoch : int
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0.0 < start_factor <= 1.0:
            raise ArgumentError(f"LinearLR needs start_factor above 0 and at most 1, got {start_factor}")
        if not 0.0 <= end_factor <= 1.0:
            raise ArgumentError(f"LinearLR needs end_factor between 0 and 1, got {end_factor}")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Multiply by the ratio of this factor and the one before."""
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in rates(self.optimizer)]
        if self._is_initial or self.last_epoch > self.total_iters:
            return rates(self.optimizer)
        rise = self.end_factor - self.start_factor
        ratio = 1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)
        return [lr * ratio for lr in rates(self.optimizer)]

    def _get_closed_form_lr(self) -> list[float]:
        share = min(self.total_iters, self.last_epoch) / self.total_iters if self.total_iters else 1.0
        factor = self.start_factor + (self.end_factor - self.start_factor) * share
        return [base * factor for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The learning rate times ``(1 - step / total_iters)**power``, and 0 from then on.

    Parameters
    ----------
    optimizer : Optimizer
    total_iters : int
    power : float
    last_epoch : int
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        if total_iters < 1:
            raise ArgumentError(f"PolynomialLR needs total_iters >= 1, got {total_iters}")
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Multiply by the ratio of this factor and the one before."""
        if self._is_initial or self.last_epoch > self.total_iters:
            return rates(self.optimizer)
        left = 1.0 - self.last_epoch / self.total_iters
        ratio = (left / (1.0 - (self.last_epoch - 1) / self.total_iters)) ** self.power
        return [lr * ratio for lr in rates(self.optimizer)]

    def _get_closed_form_lr(self) -> list[float]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]
