"""RMSprop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shardwise.backend.kernels.optimizer.optimizer import (
    rmsprop,
    rmsprop_centered,
    rmsprop_centered_momentum,
    rmsprop_momentum,
)
from shardwise.optim.elementwise import count_steps, update_all
from shardwise.optim.optimizer import Optimizer
from shardwise.optim.option import check_at_least, check_hints
from shardwise.tensor import Tensor

__all__ = ["RMSprop"]


class RMSprop(Optimizer):
    """Steps over the root of a mean of squared gradients (Tieleman and Hinton 2012).

    Parameters
    ----------
    params : iterable of Tensor, of (str, Tensor), or of dict
    lr : float
    alpha : float
        How much of the running means stays at each step.
    eps : float
        Added to the divisor.
    weight_decay : float
        The parameter times this is added to its gradient.
    momentum : float
        How much of the last steps' sum stays at each step.
    centered : bool
        Divide by the standard deviation of gradients instead (Graves 2013).
    maximize : bool
        Ascend.
    **hints
        ``foreach``, ``fused``, ``capturable``: accepted, and of no effect.
    """

    moments = ("square_avg", "grad_avg", "momentum_buffer")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
        **hints: bool | None,
    ) -> None:
        check_hints(type(self).__name__, hints)
        defaults = {
            "lr": lr,
            "alpha": alpha,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "centered": centered,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise ArgumentError unless all are in the ranges of the algorithm."""
        check_at_least(type(self).__name__, options, ("lr", "alpha", "eps", "weight_decay", "momentum"))

    def update_group(self, params: Sequence[Tensor], group: dict[str, Any]) -> None:
        """Do one step for parameters of one group."""
        lr, l2, alpha = (float(group[key]) for key in ("lr", "weight_decay", "alpha"))
        eps, momentum = float(group["eps"]), float(group["momentum"])
        sign = -1.0 if group["maximize"] else 1.0
        numbers: tuple[float, ...] = (lr, sign, l2, alpha, 1.0 - alpha, eps)
        square, average, buffer = self.moments
        update, moments = rmsprop, [square]
        if group["centered"]:
            update = rmsprop_centered
            moments.append(average)
            numbers += (0.0,)
        if momentum > 0.0:
            update = rmsprop_centered_momentum if group["centered"] else rmsprop_momentum
            moments.append(buffer)
            numbers += (momentum,)
        states = [self.state[param] for param in params]
        count_steps(states)
        update_all(update, params, states, moments, [numbers] * len(params))
