"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shardwise.backend.errors import ArgumentError
from shardwise.backend.kernels.optimizer.optimizer import sgd, sgd_momentum, sgd_nesterov
from shardwise.optim.elementwise import update_all
from shardwise.optim.optimizer import Optimizer
from shardwise.optim.option import check_at_least, check_hints
from shardwise.tensor import Tensor

__all__ = ["SGD"]


class SGD(Optimizer):
    """Gradient descent, with momentum if wanted (Sutskever et al. 2013).

    Parameters
    ----------
    params : iterable of Tensor, of (str, Tensor), or of dict
    lr : float
    momentum : float
        How much of the last steps' sum stays at each step.
    dampening : float
        Gradients enter that sum times ``1 - dampening``, but for the first one, as in PyTorch.
    weight_decay : float
        The gradient of a squared norm: the parameter times this is added to its gradient.
    nesterov : bool
        Step by the sum as it will be after the step.
    maximize : bool
        Ascend.
    **hints
        ``foreach``, ``fused``, ``capturable``: accepted, and of no effect.
    """

    moments = ("momentum_buffer",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        **hints: bool | None,
    ) -> None:
        check_hints(type(self).__name__, hints)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise ArgumentError unless all are in the ranges of the algorithm."""
        name = type(self).__name__
        check_at_least(name, options, ("lr", "momentum", "weight_decay"))
        if options["nesterov"] and (options["momentum"] <= 0 or options["dampening"] != 0):
            raise ArgumentError(
                f"{name} with nesterov needs a momentum and no dampening; got "
                f"momentum={options['momentum']!r}, dampening={options['dampening']!r}"
            )

    def update_group(self, params: Sequence[Tensor], group: dict[str, Any]) -> None:
        """Do one step for parameters of one group."""
        lr, l2, momentum = (float(group[key]) for key in ("lr", "weight_decay", "momentum"))
        sign = -1.0 if group["maximize"] else 1.0
        if momentum == 0.0:
            update_all(sgd, params, [], (), [(lr, sign, l2)] * len(params))
            return
        states = [self.state[param] for param in params]
        first = (lr, sign, l2, momentum, 1.0)
        later = (lr, sign, l2, momentum, 1.0 - float(group["dampening"]))
        numbers = [first if state.get("momentum_buffer") is None else later for state in states]
        update_all(sgd_nesterov if group["nesterov"] else sgd_momentum, params, states, self.moments, numbers)
