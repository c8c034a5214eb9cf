"""RAdam."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shardwise.backend.kernels.optimizer.optimizer import radam
from shardwise.optim.elementwise import count_steps, numbers_of, update_all
from shardwise.optim.optimizer import Optimizer
from shardwise.optim.option import check_at_least, check_betas, check_hints
from shardwise.tensor import Tensor

__all__ = ["RAdam"]


class RAdam(Optimizer):
    """Adam that takes plain momentum steps until its divisor can be trusted (Liu et al. 2020, algorithm 2).

    Parameters
    ----------
    params : iterable of Tensor, of (str, Tensor), or of dict
    lr : float
    betas : tuple of float
        How much of the running means of gradient and squared gradient stays at each step.
    eps : float
        Added to the divisor.
    weight_decay : float
        The parameter times this is added to its gradient, unless it is decoupled.
    decoupled_weight_decay : bool
        Multiply parameters by ``1 - lr * weight_decay`` instead.
    maximize : bool
        Ascend.
    **hints
        ``foreach``, ``fused``, ``capturable``: accepted, and of no effect.
    """

    moments = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        **hints: bool | None,
    ) -> None:
        check_hints(type(self).__name__, hints)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise ArgumentError unless all are in the ranges of the algorithm."""
        check_at_least(type(self).__name__, options, ("lr", "eps", "weight_decay"))
        check_betas(type(self).__name__, options)

    def update_group(self, params: Sequence[Tensor], group: dict[str, Any]) -> None:
        """Do one step for parameters of one group."""
        lr, eps, decay = (float(group[key]) for key in ("lr", "eps", "weight_decay"))
        beta1, beta2 = (float(beta) for beta in group["betas"])
        sign = -1.0 if group["maximize"] else 1.0
        l2, keep = (0.0, 1.0 - lr * decay) if group["decoupled_weight_decay"] else (decay, 1.0)
        longest = 2.0 / (1.0 - beta2) - 1.0  # of the window that the mean of squares amounts to

        def numbers(step: int) -> tuple[float, ...]:
            size, correction2 = lr / (1.0 - beta1**step), 1.0 - beta2**step
            length = longest - 2.0 * step * beta2**step / correction2
            known = length > 5.0
            if known:
                rectified = (length - 4.0) * (length - 2.0) * longest
                rectified /= (longest - 4.0) * (longest - 2.0) * length
                size *= math.sqrt(rectified * correction2)
            root, plain = (1.0, 0.0) if known else (0.0, 1.0)
            return size, sign, l2, keep, 1.0 - beta1, beta2, 1.0 - beta2, eps, root, plain

        states = [self.state[param] for param in params]
        update_all(radam, params, states, self.moments, numbers_of(count_steps(states), numbers))
