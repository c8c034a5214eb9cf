"""Adadelta."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shardwise.backend.errors import ArgumentError
from shardwise.backend.kernels.optimizer.optimizer import adadelta
from shardwise.optim.elementwise import count_steps, update_all
from shardwise.optim.optimizer import Optimizer
from shardwise.optim.option import check_at_least, check_hints
from shardwise.tensor import Tensor

__all__ = ["Adadelta"]


class Adadelta(Optimizer):
    """Steps in the units of the parameter, from running means of squares (Zeiler 2012).

    Parameters
    ----------
    params : iterable of Tensor, of (str, Tensor), or of dict
    lr : float
        A factor of the steps; 1 in the paper.
    rho : float
        How much of the running means of squares stays at each step.
    eps : float
        Added to the means under both roots.
    weight_decay : float
        The parameter times this is added to its gradient.
    maximize : bool
        Ascend.
    **hints
        ``foreach``, ``fused``, ``capturable``: accepted, and of no effect.
    """

    moments = ("square_avg", "acc_delta")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **hints: bool | None,
    ) -> None:
        check_hints(type(self).__name__, hints)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise ArgumentError unless all are in the ranges of the algorithm."""
        name = type(self).__name__
        check_at_least(name, options, ("lr", "rho", "eps", "weight_decay"))
        if options["rho"] > 1.0:
            raise ArgumentError(f"{name} needs rho <= 1, got {options['rho']!r}")

    def update_group(self, params: Sequence[Tensor], group: dict[str, Any]) -> None:
        """Do one step for parameters of one group."""
        lr, l2, rho, eps = (float(group[key]) for key in ("lr", "weight_decay", "rho", "eps"))
        sign = -1.0 if group["maximize"] else 1.0
        states = [self.state[param] for param in params]
        count_steps(states)
        numbers = [(lr, sign, l2, rho, 1.0 - rho, eps)] * len(params)
        update_all(adadelta, params, states, self.moments, numbers)
