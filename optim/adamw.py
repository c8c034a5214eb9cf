"""AdamW."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError
from shardwise.backend.kernels.optimizer import adamw_
from shardwise.optim.optimizer import Optimizer

__all__ = ["AdamW"]


class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2).

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
    betas : tuple of float
        How much of the running means of gradient and squared gradient stays at each step.
    eps : float
        Added to the root of the second mean.
    weight_decay : float
        Each step multiplies parameters by ``1 - lr * weight_decay``.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise ArgumentError unless all are in the ranges of the algorithm."""
        lr, betas, eps, decay = (options[key] for key in ("lr", "betas", "eps", "weight_decay"))
        numbers = all(isinstance(n, (int, float, np.number)) for n in (lr, eps, decay, *betas))
        if not numbers or not (
            lr >= 0 and eps >= 0 and decay >= 0 and len(betas) == 2 and all(0 <= b < 1 for b in betas)
        ):
            raise ArgumentError(
                f"AdamW needs lr, eps, weight_decay >= 0 and two betas in [0, 1); got lr={lr}, eps={eps}, "
                f"weight_decay={decay}, betas={betas}"
            )

    def update(self, param: Array, grad: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Do one step for one parameter."""
        if not state:
            state.update(step=0, exp_avg=np.zeros_like(param), exp_avg_sq=np.zeros_like(param))
        state["step"] += 1
        beta1, beta2 = group["betas"]
        correction1 = 1.0 - math.pow(beta1, state["step"])
        correction2 = 1.0 - math.pow(beta2, state["step"])
        adamw_(
            param, grad, state["exp_avg"], state["exp_avg_sq"], group["lr"], beta1, beta2, group["eps"],
            group["weight_decay"], correction1, correction2,
        )  # fmt: skip
