"""Adagrad."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shardwise.backend.kernels.optimizer.optimizer import adagrad
from shardwise.optim.elementwise import count_steps, numbers_of, update_all
from shardwise.optim.optimizer import Optimizer
from shardwise.optim.option import check_at_least, check_hints
from shardwise.tensor import Tensor

__all__ = ["Adagrad"]


class Adagrad(Optimizer):
    """Steps over the root of the sum of all squared gradients (Duchi et al. 2011).

    Parameters
    ----------
    params : iterable of Tensor, of (str, Tensor), or of dict
    lr : float
    lr_decay : float
        The learning rate of step t, from 0, is ``lr / (1 + t * lr_decay)``.
    weight_decay : float
        The parameter times this is added to its gradient.
    initial_accumulator_value : float
        Where the sums begin.
    eps : float
        Added to the divisor.
    maximize : bool
        Ascend.
    **hints
        ``foreach``, ``fused``, ``capturable``: accepted, and of no effect.
    """

    moments = ("sum",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        **hints: bool | None,
    ) -> None:
        check_hints(type(self).__name__, hints)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "eps": eps,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise ArgumentError unless all are in the ranges of the algorithm."""
        check_at_least(
            type(self).__name__,
            options,
            ("lr", "lr_decay", "weight_decay", "eps", "initial_accumulator_value"),
        )

    def update_group(self, params: Sequence[Tensor], group: dict[str, Any]) -> None:
        """Do one step for parameters of one group."""
        lr, lr_decay, l2, eps = (float(group[key]) for key in ("lr", "lr_decay", "weight_decay", "eps"))
        sign = -1.0 if group["maximize"] else 1.0
        start = float(group["initial_accumulator_value"])
        states = [self.state[param] for param in params]
        numbers = numbers_of(
            count_steps(states), lambda step: (lr / (1.0 + (step - 1) * lr_decay), sign, l2, eps)
        )
        update_all(adagrad, params, states, self.moments, numbers, complex(start, start))
