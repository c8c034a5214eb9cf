"""Schedules made of schedules: one after the other, or all together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from shardwise.backend.errors import ArgumentError, ModuleError
from shardwise.optim.lr_scheduler.plateau import ReduceLROnPlateau
from shardwise.optim.lr_scheduler.scheduler import LRScheduler, rates
from shardwise.optim.optimizer import Optimizer

__all__ = ["ChainedScheduler", "SequentialLR"]


class Composite(LRScheduler):
    """Holds schedules of one optimizer, and saves them with itself."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None) -> None:
        name = type(self).__name__
        if not schedulers:
            raise ArgumentError(f"{name} needs at least one scheduler")
        for i, scheduler in enumerate(schedulers):
            if not isinstance(scheduler, LRScheduler):
                raise ModuleError(f"{name}: scheduler {i} is a {type(scheduler).__name__}, no LRScheduler")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ArgumentError(
                    f"{name}: scheduler {i} is a ReduceLROnPlateau, whose steps take a number; step it alone"
                )
            if scheduler.optimizer is not (optimizer or schedulers[0].optimizer):
                raise ModuleError(
                    f"{name}: scheduler {i}, a {type(scheduler).__name__}, is of another optimizer"
                )
        self.optimizer = optimizer or schedulers[0].optimizer
        self._schedulers = list(schedulers)

    def _members(self) -> list[LRScheduler]:
        """Return the schedules whose turn it is."""
        return self._schedulers

    def _initial_step(self) -> None:
        for scheduler in self._members():
            scheduler._initial_step()
        self._last_lr = rates(self.optimizer)

    def _update_lr(self, epoch: int | None = None) -> None:
        """Begin anew, as a part of a `SequentialLR` whose turn has come."""
        _begin_rates(self.optimizer)
        self._shift(None)
        self._initial_step()

    def _shift(self, by: int | None) -> None:
        """Move all schedules by some steps, or to where they were before their first."""
        for scheduler in self._schedulers:
            if isinstance(scheduler, Composite):
                scheduler._shift(by)
            else:
                scheduler.last_epoch = -1 if by is None else scheduler.last_epoch + by

    def state_dict(self) -> dict[str, Any]:
        """Return where all schedules are."""
        own = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "_schedulers")}
        return {**own, "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go where saved schedules were."""
        saved = state_dict.get("_schedulers", ())
        if len(saved) != len(self._schedulers):
            raise ModuleError(
                f"{type(self).__name__}: the state is of {len(saved)} schedulers, but this one has "
                f"{len(self._schedulers)}"
            )
        for scheduler, state in zip(self._schedulers, saved, strict=True):
            scheduler.load_state_dict(state)
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "_schedulers"})


class SequentialLR(Composite):
    """One schedule after the other.

    Parameters
    ----------
    optimizer : Optimizer
    schedulers : sequence of LRScheduler
        Each begins anew, with its step 0, when its turn comes.
    milestones : sequence of int
        The steps at which the second one and those behind it begin.
    last_epoch : int
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        super().__init__(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ArgumentError(
                f"SequentialLR: {len(schedulers)} schedulers need {len(schedulers) - 1} milestones, got "
                f"{len(milestones)}"
            )
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        _begin_rates(optimizer)  # all schedules have set their first rate
        self._shift(-1)
        self._initial_step()

    def _members(self) -> list[LRScheduler]:
        return [self._schedulers[bisect_right(self._milestones, self.last_epoch)]]

    def _shift(self, by: int | None) -> None:
        super()._shift(by)
        if by is None:
            self.last_epoch = 0

    def step(self, epoch: int | None = None) -> None:
        """Let the schedule whose turn it is go on; `epoch` is not taken."""
        if epoch is not None:
            raise ArgumentError("SequentialLR cannot go to a given step; call step() without one")
        self.last_epoch += 1
        [scheduler] = self._members()
        if self.last_epoch in self._milestones:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = rates(self.optimizer)


class ChainedScheduler(Composite):
    """All schedules at every step: their factors are multiplied.

    Parameters
    ----------
    schedulers : sequence of LRScheduler
    optimizer : Optimizer, optional
        That of the schedulers.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        super().__init__(schedulers, optimizer)
        self._last_lr = rates(self.optimizer)

    def step(self, epoch: int | None = None) -> None:
        """Let all go on; `epoch` is not taken."""
        if epoch is not None:
            raise ArgumentError("ChainedScheduler cannot go to a given step; call step() without one")
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = rates(self.optimizer)


def _begin_rates(optimizer: Optimizer) -> None:
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"]
