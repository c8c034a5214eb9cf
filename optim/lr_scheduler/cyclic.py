"""A learning rate that goes up and down for ever."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from shardwise.backend.errors import ArgumentError
from shardwise.optim.lr_scheduler.function import load_function, saved_function
from shardwise.optim.lr_scheduler.momentum import begin_momentum, per_group, set_momentum
from shardwise.optim.lr_scheduler.scheduler import LRScheduler, check_optimizer
from shardwise.optim.optimizer import Optimizer

__all__ = ["CyclicLR"]


class CyclicLR(LRScheduler):
    """The learning rate between two bounds, straight up and straight down (Smith 2017).

    Parameters
    ----------
    optimizer : Optimizer
    base_lr, max_lr : float, or one per group
    step_size_up : int
        Steps from the lower to the upper bound.
    step_size_down : int, optional
        Steps back; as many if not given.
    mode : "triangular", "triangular2" or "exp_range"
        Whether the height stays, is halved with each cycle, or multiplied by `gamma` with each step.
    gamma : float
    scale_fn : callable, optional
        Gives the height instead, as a factor.
    scale_mode : "cycle" or "iterations"
        Whether `scale_fn` is given the number of the cycle, from 1, or of the step.
    cycle_momentum : bool
        Let the momentum, or the first beta, go the other way meanwhile.
    base_momentum, max_momentum : float, or one per group
    last_epoch : int
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer("CyclicLR", optimizer)
        lows = per_group("CyclicLR", "base_lr", optimizer, base_lr)
        self.max_lrs = per_group("CyclicLR", "max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (float(step_size_down) if step_size_down is not None else up)
        if not (up > 0.0 and self.total_size > up):
            raise ArgumentError(
                f"CyclicLR needs step sizes above 0, got step_size_up={step_size_up}, "
                f"step_size_down={step_size_down}"
            )
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ArgumentError(
                f'CyclicLR: mode is "triangular", "triangular2" or "exp_range", not {mode!r}; or use scale_fn'
            )
        self.mode, self.gamma, self.scale_mode = mode, gamma, scale_mode
        self._scale_fn = scale_fn
        self.cycle_momentum = cycle_momentum
        if last_epoch == -1:
            for group, low in zip(optimizer.param_groups, lows, strict=True):
                group["lr"] = low
        if cycle_momentum:
            self.base_momentums = per_group("CyclicLR", "base_momentum", optimizer, base_momentum)
            self.max_momentums = per_group("CyclicLR", "max_momentum", optimizer, max_momentum)
            momenta = self.base_momentums, self.max_momentums
            begin_momentum("CyclicLR", optimizer, *momenta, last_epoch == -1)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def scale_fn(self, x: float) -> float:
        """Return the factor of the height, for the number of the cycle or of the step."""
        if self._scale_fn is not None:
            return self._scale_fn(x)
        factor: float = 1.0
        if self.mode == "triangular2":
            factor = 0.5 ** (x - 1.0)
        elif self.mode == "exp_range":
            factor = self.gamma**x
        return factor

    def get_lr(self) -> list[float]:
        """Find the height in this cycle; the momentum is set as well."""
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1.0) / (self.step_ratio - 1.0)
        own = self._scale_fn is not None
        by_step = self.scale_mode == "iterations" if own else self.mode == "exp_range"
        height *= self.scale_fn(self.last_epoch if by_step else cycle)
        if self.cycle_momentum:
            momenta = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in momenta:
                set_momentum(group, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Return where the schedule is, and what its function holds."""
        return {**super().state_dict(), "_scale_fn": saved_function(self._scale_fn)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go where a saved schedule was."""
        function = self._scale_fn
        super().load_state_dict(state_dict)
        self._scale_fn = function
        load_function(function, state_dict["_scale_fn"])
