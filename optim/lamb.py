"""LAMB."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from shardwise.backend.kernels.optimizer.optimizer import lamb, sgd
from shardwise.backend.kernels.reduction.reduction import sum_of_squares
from shardwise.collectives import tally
from shardwise.optim.elementwise import count_steps, numbers_of, parts_of, update_all
from shardwise.optim.optimizer import Optimizer
from shardwise.optim.option import check_at_least, check_betas, check_hints
from shardwise.tensor import Tensor

__all__ = ["LAMB"]


class LAMB(Optimizer):
    """Adam whose steps are as long as the parameter's norm says, for large batches (You et al. 2020).

    Parameters
    ----------
    params : iterable of Tensor, of (str, Tensor), or of dict
    lr : float
        The length of a step over the norm of the parameter.
    betas : tuple of float
        How much of the running means of gradient and squared gradient stays at each step.
    eps : float
        Added to the root of the second mean.
    weight_decay : float
        The parameter times this is added to the direction of the step.
    maximize : bool
        Ascend.
    **hints
        ``foreach``, ``fused``, ``capturable``: accepted, and of no effect.

    Notes
    -----
    Where the norm of the parameter or of the direction is 0, the step is `lr` times the direction.
    """

    moments = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
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
        """Do one step for parameters of one group: find the directions, measure them, go."""
        lr, eps, decay = (float(group[key]) for key in ("lr", "eps", "weight_decay"))
        beta1, beta2 = (float(beta) for beta in group["betas"])
        sign = -1.0 if group["maximize"] else 1.0

        def numbers(step: int) -> tuple[float, ...]:
            size, scale = 1.0 / (1.0 - beta1**step), 1.0 / math.sqrt(1.0 - beta2**step)
            return sign, decay, size, 1.0 - beta1, beta2, 1.0 - beta2, eps, scale

        states = [self.state[param] for param in params]
        steps = numbers_of(count_steps(states), numbers)
        directions = [np.empty_like(param.data) for param in params]
        update_all(lamb, params, states, self.moments, steps, more=[directions])
        arrays = [param.data for param in params]
        ours, theirs = (tally(each, lambda a: float(sum_of_squares(a))) for each in (arrays, directions))
        ratios = [_ratio(math.sqrt(a), math.sqrt(b)) for a, b in zip(ours, theirs, strict=True)]
        sgd([parts_of(arrays), parts_of(directions)], [(lr * ratio, 1.0, 0.0) for ratio in ratios])


def _ratio(ours: float, theirs: float) -> float:
    return ours / theirs if ours > 0.0 and theirs > 0.0 else 1.0
