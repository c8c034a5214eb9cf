"""One step of AdamW, in place."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.kernel import Kernel

__all__ = ["adamw_", "check_state"]


def check_state(param: Array, grad: Array, exp_avg: Array, exp_avg_sq: Array) -> None:
    """Raise ShapeError unless all four arrays have one shape."""
    shapes = [tuple(array.shape) for array in (param, grad, exp_avg, exp_avg_sq)]
    if any(shape != shapes[0] for shape in shapes):
        raise ShapeError(
            f"adamw_: the parameter has shape {shapes[0]}, and its gradient, exp_avg and exp_avg_sq have "
            f"{shapes[1]}, {shapes[2]} and {shapes[3]}; wanted the same."
        )


def _adamw_(
    param: Array,
    grad: Array,
    exp_avg: Array,
    exp_avg_sq: Array,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    bias_correction1: float,
    bias_correction2: float,
) -> None:
    """Update a parameter and its two averages, by PyTorch's formula for AdamW.

    Parameters
    ----------
    param, exp_avg, exp_avg_sq : floating arrays of one shape
        Written in place.
    grad : array of that shape
    lr, beta1, beta2, eps, weight_decay : float
    bias_correction1, bias_correction2 : float
        ``1 - beta1**step`` and ``1 - beta2**step``.

    Raises
    ------
    ShapeError
        If the shapes differ.

    References
    ----------
    I. Loshchilov, F. Hutter, "Decoupled weight decay regularization", arXiv:1711.05101.
    """
    check_state(param, grad, exp_avg, exp_avg_sq)
    param *= 1.0 - lr * weight_decay
    exp_avg += (1.0 - beta1) * (grad - exp_avg)
    exp_avg_sq *= beta2
    exp_avg_sq += (1.0 - beta2) * (grad * grad)
    denominator = np.sqrt(exp_avg_sq) / math.sqrt(bias_correction2) + eps
    param -= (lr / bias_correction1) * (exp_avg / denominator)


adamw_ = Kernel(_adamw_, "shardwise.backend.kernels.optimizer_cpu:adamw_", arrays=4, in_place=4)
