"""Schedules that ask a function."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shardwise.backend.errors import ModuleError
from shardwise.optim.lr_scheduler.scheduler import LRScheduler, check_optimizer, rates
from shardwise.optim.optimizer import Optimizer

__all__ = ["LambdaLR", "MultiplicativeLR", "load_function", "saved_function"]

LRFunction = Callable[[int], float]
_WITHOUT_STATE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial)


class LambdaLR(LRScheduler):
    """The first learning rate times ``lr_lambda(step)``.

    Parameters
    ----------
    optimizer : Optimizer
    lr_lambda : callable, or one per group
    last_epoch : int

    Notes
    -----
    What is saved of a function that is an object is what it holds (its ``__dict__``); plain functions are not
    saved.
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: LRFunction | Sequence[LRFunction], last_epoch: int = -1
    ) -> None:
        name = type(self).__name__
        check_optimizer(name, optimizer)
        groups = len(optimizer.param_groups)
        self.lr_lambdas = [lr_lambda] * groups if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != groups:
            raise ModuleError(f"{name}: got {len(self.lr_lambdas)} functions for {groups} parameter groups")
        for function in self.lr_lambdas:
            if not callable(function):
                raise ModuleError(f"{name}: lr_lambda should be a function, got a {type(function).__name__}")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Ask the functions."""
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * function(self.last_epoch) for base, function in pairs]

    def state_dict(self) -> dict[str, Any]:
        """Return where the schedule is, and what its functions hold."""
        saved = [saved_function(function) for function in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": saved}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go where a saved schedule was."""
        functions = self.lr_lambdas
        super().load_state_dict(state_dict)
        self.lr_lambdas = functions
        for function, saved in zip(functions, state_dict["lr_lambdas"], strict=True):
            load_function(function, saved)


class MultiplicativeLR(LambdaLR):
    """The learning rate in force times ``lr_lambda(step)``, from step 1 on.

    Parameters
    ----------
    optimizer : Optimizer
    lr_lambda : callable, or one per group
    last_epoch : int
    """

    def get_lr(self) -> list[float]:
        """Ask the functions."""
        if self._is_initial:
            return rates(self.optimizer)
        pairs = zip(rates(self.optimizer), self.lr_lambdas, strict=True)
        return [lr * function(self.last_epoch) for lr, function in pairs]


def saved_function(function: Callable[..., float] | None) -> dict[str, Any] | None:
    """Return what an object that is used as a function holds; None for a plain function."""
    return None if function is None or isinstance(function, _WITHOUT_STATE) else dict(vars(function))


def load_function(function: Callable[..., float] | None, saved: Mapping[str, Any] | None) -> None:
    """Put into an object what `saved_function` returned."""
    if function is not None and saved is not None:
        vars(function).update(saved)
