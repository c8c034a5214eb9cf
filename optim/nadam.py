"""NAdam."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shardwise.backend.kernels.optimizer.optimizer import nadam
from shardwise.optim.elementwise import count_steps, numbers_of, update_all
from shardwise.optim.optimizer import Optimizer
from shardwise.optim.option import check_at_least, check_betas, check_hints
from shardwise.tensor import Tensor

__all__ = ["NAdam"]


class NAdam(Optimizer):
    """Adam with the mean as it will be after the step (Dozat 2016, algorithm 2).

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
    momentum_decay : float
        The first beta of step t is multiplied by ``1 - 0.96**(t * momentum_decay) / 2``.
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
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
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
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise ArgumentError unless all are in the ranges of the algorithm."""
        check_at_least(type(self).__name__, options, ("lr", "eps", "weight_decay", "momentum_decay"))
        check_betas(type(self).__name__, options)

    def update_group(self, params: Sequence[Tensor], group: dict[str, Any]) -> None:
        """Do one step for parameters of one group."""
        lr, eps, decay = (float(group[key]) for key in ("lr", "eps", "weight_decay"))
        beta1, beta2 = (float(beta) for beta in group["betas"])
        momentum_decay = float(group["momentum_decay"])
        sign = -1.0 if group["maximize"] else 1.0
        l2, keep = (0.0, 1.0 - lr * decay) if group["decoupled_weight_decay"] else (decay, 1.0)

        def momentum(step: int) -> float:
            fading: float = 0.96 ** (step * momentum_decay)
            return beta1 * (1.0 - 0.5 * fading)

        def numbers(at: tuple[int, float]) -> tuple[float, ...]:
            step, product = at
            now, after = momentum(step), momentum(step + 1)
            grad_size, avg_size = lr * (1.0 - now) / (1.0 - product), lr * after / (1.0 - product * after)
            scale = 1.0 / math.sqrt(1.0 - beta2**step)
            return grad_size, avg_size, sign, l2, keep, 1.0 - beta1, beta2, 1.0 - beta2, eps, scale

        states = [self.state[param] for param in params]
        steps = count_steps(states)
        for state, step in zip(states, steps, strict=True):
            state["mu_product"] = state.get("mu_product", 1.0) * momentum(step)
        at = [(step, state["mu_product"]) for step, state in zip(steps, states, strict=True)]
        update_all(nadam, params, states, self.moments, numbers_of(at, numbers))
