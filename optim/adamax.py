"""Adamax."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shardwise.backend.kernels.optimizer.optimizer import adamax
from shardwise.optim.elementwise import count_steps, numbers_of, update_all
from shardwise.optim.optimizer import Optimizer
from shardwise.optim.option import check_at_least, check_betas, check_hints
from shardwise.tensor import Tensor

__all__ = ["Adamax"]


class Adamax(Optimizer):
    """Adam with the largest gradient, which decays, as divisor (Kingma and Ba 2015, algorithm 2).

    Parameters
    ----------
    params : iterable of Tensor, of (str, Tensor), or of dict
    lr : float
    betas : tuple of float
        How much of the running mean of gradients, and of the largest one, stays at each step.
    eps : float
        Added to the size of gradients.
    weight_decay : float
        The parameter times this is added to its gradient.
    maximize : bool
        Ascend.
    **hints
        ``foreach``, ``fused``, ``capturable``: accepted, and of no effect.
    """

    moments = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
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
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise ArgumentError unless all are in the ranges of the algorithm."""
        check_at_least(type(self).__name__, options, ("lr", "eps", "weight_decay"))
        check_betas(type(self).__name__, options)

    def update_group(self, params: Sequence[Tensor], group: dict[str, Any]) -> None:
        """Do one step for parameters of one group."""
        lr, eps, l2 = (float(group[key]) for key in ("lr", "eps", "weight_decay"))
        beta1, beta2 = (float(beta) for beta in group["betas"])
        sign = -1.0 if group["maximize"] else 1.0
        states = [self.state[param] for param in params]
        numbers = numbers_of(
            count_steps(states), lambda step: (lr / (1.0 - beta1**step), sign, l2, 1.0 - beta1, beta2, eps)
        )
        update_all(adamax, params, states, self.moments, numbers)
