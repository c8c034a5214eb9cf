"""One rise and one fall of the learning rate, with the momentum going the other way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from shardwise.backend.errors import ArgumentError
from shardwise.optim.lr_scheduler.momentum import begin_momentum, per_group, set_momentum
from shardwise.optim.lr_scheduler.scheduler import LRScheduler, check_optimizer
from shardwise.optim.optimizer import Optimizer

__all__ = ["OneCycleLR"]

Phase = tuple[float, str, str, str, str]


class OneCycleLR(LRScheduler):
    """The learning rate up to `max_lr` and far down, once over the whole run (Smith and Topin 2018).

    Parameters
    ----------
    optimizer : Optimizer
    max_lr : float, or one per group
    total_steps : int, optional
        Or `epochs` and `steps_per_epoch`.
    epochs, steps_per_epoch : int, optional
    pct_start : float
        The share of the steps that go up.
    anneal_strategy : "cos" or "linear"
    cycle_momentum : bool
        Let the momentum, or the first beta, go down and up meanwhile.
    base_momentum, max_momentum : float, or one per group
    div_factor : float
        The first rate is `max_lr` over this.
    final_div_factor : float
        The last rate is the first one over this.
    three_phase : bool
        Go down as fast as up, and only then far down.
    last_epoch : int

    Raises
    ------
    ArgumentError
        An argument makes no sense, or a step after the last one was asked for.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer("OneCycleLR", optimizer)
        self.total_steps = _total(total_steps, epochs, steps_per_epoch)
        if not 0.0 <= pct_start <= 1.0:
            raise ArgumentError(f"OneCycleLR needs pct_start between 0 and 1, got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(f'OneCycleLR: anneal_strategy is "cos" or "linear", not {anneal_strategy!r}')
        self.anneal_strategy, self.cycle_momentum = anneal_strategy, cycle_momentum
        self._phases = _phases(float(pct_start) * self.total_steps, self.total_steps, three_phase)
        for group, most in zip(
            optimizer.param_groups, per_group("OneCycleLR", "max_lr", optimizer, max_lr), strict=True
        ):
            if last_epoch == -1:
                group["initial_lr"], group["max_lr"] = most / div_factor, most
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            low = per_group("OneCycleLR", "base_momentum", optimizer, base_momentum)
            high = per_group("OneCycleLR", "max_momentum", optimizer, max_momentum)
            begin_momentum("OneCycleLR", optimizer, low, high, last_epoch == -1)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Find the phase of the step, and go between its ends; the momentum is set as well."""
        step = self.last_epoch
        if step > self.total_steps:
            raise ArgumentError(
                f"OneCycleLR was made for {self.total_steps} steps, and step {step} was asked for; make it "
                "with the total_steps of the whole training"
            )
        start = 0.0
        for phase in self._phases[:-1]:
            if step <= phase[0]:
                break
            start = phase[0]
        else:
            phase = self._phases[-1]
        end, lr_from, lr_to, momentum_from, momentum_to = phase
        share = (step - start) / (end - start) if end != start else 1.0
        for group in self.optimizer.param_groups if self.cycle_momentum else ():
            set_momentum(group, self._between(group[momentum_from], group[momentum_to], share))
        return [self._between(group[lr_from], group[lr_to], share) for group in self.optimizer.param_groups]

    def _between(self, start: float, end: float, share: float) -> float:
        if self.anneal_strategy == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1.0)


def _total(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    given = {"total_steps": total_steps, "epochs": epochs, "steps_per_epoch": steps_per_epoch}
    if total_steps is None and (epochs is None or steps_per_epoch is None):
        raise ArgumentError("OneCycleLR needs total_steps, or epochs and steps_per_epoch")
    for name, value in given.items():
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ArgumentError(f"OneCycleLR needs an integer {name} >= 1, got {value}")
    return total_steps if total_steps is not None else (epochs or 0) * (steps_per_epoch or 0)


def _phases(top: float, total: int, three: bool) -> list[Phase]:
    """Return where each phase ends, and between what its rates and momenta go."""
    up = (top - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum")
    if not three:
        return [up, (total - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
    down = (2 * top - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum")
    return [up, down, (total - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum")]
