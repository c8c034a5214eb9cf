"""Learning rates that change from step to step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from shardwise.backend.errors import ArgumentError, ModuleError
from shardwise.optim.optimizer import Optimizer

__all__ = ["CosineWarmupLR", "LRScheduler", "LambdaLR"]


class LRScheduler:
    """Sets each group's ``lr`` to its first value times `factor` of the step. A subclass defines `factor`.

    Parameters
    ----------
    optimizer : Optimizer
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.base_lrs = [float(group["lr"]) for group in optimizer.param_groups]
        self.last_step = 0
        self._set()

    def factor(self, step: int, group: int) -> float:
        """Return what the first learning rate of a group is multiplied by at `step`."""
        raise NotImplementedError(f"{type(self).__name__} does not define factor()")

    def step(self) -> None:
        """Go to the next step; call it after the optimizer's."""
        self.last_step += 1
        self._set()

    def _set(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.base_lrs):
            raise ModuleError(
                f"{type(self).__name__} was made for {len(self.base_lrs)} parameter groups, but the "
                f"optimizer has {len(groups)}; make the scheduler after the last add_param_group()"
            )
        for i, (group, base) in enumerate(zip(groups, self.base_lrs, strict=True)):
            group["lr"] = base * self.factor(self.last_step, i)

    def get_last_lr(self) -> list[float]:
        """Return the learning rates in force, one per group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Return where the schedule is."""
        return {"last_step": self.last_step, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go where a saved schedule was, and set the learning rates that it had."""
        if len(state_dict["base_lrs"]) != len(self.base_lrs):
            raise ModuleError(
                f"{type(self).__name__}: the state is of a schedule for {len(state_dict['base_lrs'])} "
                f"parameter groups, but this one has {len(self.base_lrs)}"
            )
        self.last_step = state_dict["last_step"]
        self.base_lrs = list(state_dict["base_lrs"])
        self._set()


class LambdaLR(LRScheduler):
    """The first learning rate times ``lr_lambda(step)``.

    Parameters
    ----------
    optimizer : Optimizer
    lr_lambda : callable, or one per group
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]]
    ) -> None:
        groups = len(optimizer.param_groups)
        self._lambdas = [lr_lambda] * groups if callable(lr_lambda) else list(lr_lambda)
        if len(self._lambdas) != groups:
            raise ModuleError(f"LambdaLR: got {len(self._lambdas)} functions for {groups} parameter groups")
        super().__init__(optimizer)

    def factor(self, step: int, group: int) -> float:
        """Ask the function."""
        return float(self._lambdas[group](step))


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
    """

    def __init__(
        self, optimizer: Optimizer, total_steps: int, warmup_steps: int = 0, min_factor: float = 0.0
    ) -> None:
        if not 0 <= warmup_steps <= total_steps or total_steps < 1:
            raise ArgumentError(
                f"CosineWarmupLR needs 0 <= warmup_steps <= total_steps and at least one step; "
                f"got warmup_steps={warmup_steps}, total_steps={total_steps}"
            )
        if not 0.0 <= min_factor <= 1.0:
            raise ArgumentError(f"CosineWarmupLR needs min_factor between 0 and 1, got {min_factor}")
        self.total_steps, self.warmup_steps, self.min_factor = total_steps, warmup_steps, min_factor
        super().__init__(optimizer)

    def factor(self, step: int, group: int) -> float:
        """Rise, then fall."""
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        progress = (step - self.warmup_steps) / max(1, self.total_steps - self.warmup_steps)
        cosine = 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))
        return self.min_factor + (1.0 - self.min_factor) * cosine
