"""What all schedules share: where they are, the rates that they set, and saving."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from shardwise.backend.errors import ModuleError
from shardwise.optim.optimizer import Optimizer

__all__ = ["LRScheduler", "check_optimizer", "rates"]


class LRScheduler:
    """Sets the learning rate of each group before the first step, and at each of its own steps.

    A subclass defines `get_lr`. As in PyTorch, most schedules multiply the rate that is in force, so that
    several of them, or a change by hand, work together on one optimizer.

    Parameters
    ----------
    optimizer : Optimizer
    last_epoch : int
        The step after which a saved run goes on; its optimizer was loaded already.

    Attributes
    ----------
    base_lrs : list of float
        The rates that the groups began with, which are noted there as ``initial_lr``.
    last_epoch : int
        The number of the step: 0 at first.

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise import optim
    >>> class Halving(LRScheduler):
    ...     def get_lr(self):
    ...         return [lr * 0.5**self.last_epoch for lr in self.base_lrs]
    >>> optimizer = optim.SGD([sw.zeros(1)], lr=1.0)
    >>> scheduler = Halving(optimizer)
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.125]
    """

    optimizer: Optimizer

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(type(self).__name__, optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", float(group["lr"]))
            elif "initial_lr" not in group:
                raise ModuleError(
                    f"{type(self).__name__}: last_epoch={last_epoch} goes on with a saved run, but group {i} "
                    "has no initial_lr; load the optimizer's state first, or leave last_epoch away"
                )
        self.base_lrs: list[float] = rates(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._last_lr: list[float] = []
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the rates of the first step."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> list[float]:
        """Return the rates for `last_epoch`, one per group; those before are still in the groups."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr()")

    def get_last_lr(self) -> list[float]:
        """Return the rates that were set last, one per group."""
        return list(self._last_lr)

    def step(self, epoch: int | None = None) -> None:
        """Go to the next step, or to a given one; call it after the optimizer's."""
        self._step_count += 1
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.base_lrs):
            raise ModuleError(
                f"{type(self).__name__} was made for {len(self.base_lrs)} parameter groups, but the "
                f"optimizer has {len(groups)}; make the scheduler after the last add_param_group()"
            )
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        values = self.get_lr() if epoch is None else self._get_closed_form_lr()
        for group, value in zip(groups, values, strict=True):
            group["lr"] = value
        self._last_lr = rates(self.optimizer)

    def _get_closed_form_lr(self) -> list[float]:
        """Return the rates for `last_epoch` whatever was before."""
        return self.get_lr()

    def state_dict(self) -> dict[str, Any]:
        """Return where the schedule is, and how it was made; functions of the user are left out."""
        return {key: _copied(value) for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go where a saved schedule was. The optimizer's own state holds the rates; load that as well.

        Raises
        ------
        ModuleError
            The state is of another schedule, or for other groups. Nothing is changed then.
        """
        name = type(self).__name__
        missing = sorted(set(self.state_dict()) - set(state_dict))
        if missing:
            raise ModuleError(f"{name}: the state is of another schedule: it lacks {', '.join(missing)}")
        groups, given = len(self.base_lrs), len(state_dict["base_lrs"])
        if groups != given:
            raise ModuleError(
                f"{name}: the state is of a schedule for {given} parameter groups, but this one has {groups}"
            )
        self.__dict__.update({key: _copied(value) for key, value in state_dict.items()})


def check_optimizer(name: str, optimizer: object) -> None:
    """Raise ModuleError unless it is an optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise ModuleError(f"{name} takes an Optimizer, not a {type(optimizer).__name__}")


def _copied(value: Any) -> Any:
    return copy.copy(value) if isinstance(value, (list, dict)) else value


def rates(optimizer: Optimizer, key: str = "lr") -> list[float]:
    """Return the learning rates of the groups, or what else is noted there."""
    return [float(group[key]) for group in optimizer.param_groups]
