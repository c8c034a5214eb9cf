"""Fused AdamW for contiguous NumPy arrays; the formula is in ``optimizer.py``."""

from __future__ import annotations

import math

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import float64, fused, read, write
from shardwise.backend.kernels.optimizer import check_state

__all__ = ["adamw_"]


def adamw_(
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
    check_state(param, grad, exp_avg, exp_avg_sq)
    arrays = [array.reshape(-1) for array in (param, grad, exp_avg, exp_avg_sq)]
    # The factors are worked out in double precision, as Python would, and rounded once.
    decay, size = 1.0 - lr * weight_decay, lr / bias_correction1
    scale = 1.0 / math.sqrt(bias_correction2)
    _adamw(*arrays, decay, 1.0 - beta1, beta2, 1.0 - beta2, scale, eps, size)


@fused(
    lambda real: (
        *(write(real, 1), read(real, 1), write(real, 1), write(real, 1)),
        *(float64, float64, float64, float64, float64, float64, float64),
    )
)
def _adamw(
    param: Array,
    grad: Array,
    exp_avg: Array,
    exp_avg_sq: Array,
    decay: float,
    rate1: float,
    beta2: float,
    rate2: float,
    scale: float,
    eps: float,
    size: float,
) -> None:
    real = param.dtype.type
    keep, r1, b2, r2 = real(decay), real(rate1), real(beta2), real(rate2)
    inverse, floor, step = real(scale), real(eps), real(size)
    for i in range(param.size):
        g = grad[i]
        m = exp_avg[i] + r1 * (g - exp_avg[i])
        v = b2 * exp_avg_sq[i] + r2 * g * g
        exp_avg[i] = m
        exp_avg_sq[i] = v
        param[i] = param[i] * keep - step * m / (real(math.sqrt(v)) * inverse + floor)
