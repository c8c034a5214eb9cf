"""Adam, and AdamW."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shardwise.backend.kernels.optimizer.optimizer import adam, adam_amsgrad
from shardwise.optim.elementwise import count_steps, numbers_of, update_all
from shardwise.optim.optimizer import Optimizer
from shardwise.optim.option import check_at_least, check_betas, check_hints
from shardwise.tensor import Tensor

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Gradient means over the root of squared means (Kingma and Ba 2015, algorithm 1).

    Parameters
    ----------
    params : iterable of Tensor, of (str, Tensor), or of dict
    lr : float
    betas : tuple of float
        How much of the running means of gradient and squared gradient stays at each step.
    eps : float
        Added to the root of the second mean.
    weight_decay : float
        The parameter times this is added to its gradient, unless it is decoupled.
    amsgrad : bool
        Divide by the largest second mean so far (Reddi et al. 2018).
    maximize : bool
        Ascend.
    decoupled_weight_decay : bool
        Multiply parameters by ``1 - lr * weight_decay`` instead, as `AdamW` does.
    **hints
        ``foreach``, ``fused``, ``capturable``: accepted, and of no effect.
    """

    moments = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        decoupled_weight_decay: bool = False,
        **hints: bool | None,
    ) -> None:
        check_hints(type(self).__name__, hints)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "decoupled_weight_decay": decoupled_weight_decay,
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

        def numbers(step: int) -> tuple[float, ...]:
            size, scale = lr / (1.0 - beta1**step), 1.0 / math.sqrt(1.0 - beta2**step)
            return size, sign, l2, keep, 1.0 - beta1, beta2, 1.0 - beta2, eps, scale

        states = [self.state[param] for param in params]
        update, moments = (adam_amsgrad, self.moments) if group["amsgrad"] else (adam, self.moments[:2])
        update_all(update, params, states, moments, numbers_of(count_steps(states), numbers))


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2).

    Parameters
    ----------
    params : iterable of Tensor, of (str, Tensor), or of dict
    lr : float
    betas : tuple of float
        How much of the running means of gradient and squared gradient stays at each step.
    eps : float
        Added to the root of the second mean.
    weight_decay : float
        Each step multiplies parameters by ``1 - lr * weight_decay``.
    amsgrad : bool
        Divide by the largest second mean so far (Reddi et al. 2018).
    maximize : bool
        Ascend.
    **hints
        ``foreach``, ``fused``, ``capturable``: accepted, and of no effect.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **hints: bool | None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            maximize=maximize,
            decoupled_weight_decay=True,
            **hints,
        )
