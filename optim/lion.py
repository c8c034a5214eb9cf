"""Lion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shardwise.backend.kernels.optimizer.optimizer import lion
from shardwise.optim.elementwise import update_all
from shardwise.optim.optimizer import Optimizer
from shardwise.optim.option import check_at_least, check_betas, check_hints
from shardwise.tensor import Tensor

__all__ = ["Lion"]


class Lion(Optimizer):
    """Steps by the sign of a mean of gradients (Chen et al. 2023, algorithm 2).

    Parameters
    ----------
    params : iterable of Tensor, of (str, Tensor), or of dict
    lr : float
    betas : tuple of float
        How much of the running mean enters the step, and how much of it stays.
    weight_decay : float
        Each step multiplies parameters by ``1 - lr * weight_decay``.
    maximize : bool
        Ascend.
    **hints
        ``foreach``, ``fused``, ``capturable``: accepted, and of no effect.
    """

    moments = ("exp_avg",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **hints: bool | None,
    ) -> None:
        check_hints(type(self).__name__, hints)
        defaults = {
            "lr": lr,
            "betas": betas,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise ArgumentError unless all are in the ranges of the algorithm."""
        check_at_least(type(self).__name__, options, ("lr", "weight_decay"))
        check_betas(type(self).__name__, options)

    def update_group(self, params: Sequence[Tensor], group: dict[str, Any]) -> None:
        """Do one step for parameters of one group."""
        lr, decay = (float(group[key]) for key in ("lr", "weight_decay"))
        beta1, beta2 = (float(beta) for beta in group["betas"])
        sign = -1.0 if group["maximize"] else 1.0
        numbers = (lr, sign, 1.0 - lr * decay, beta1, 1.0 - beta1, beta2, 1.0 - beta2)
        states = [self.state[param] for param in params]
        update_all(lion, params, states, self.moments, [numbers] * len(params))
