"""The formulas of the optimizers: what a step makes of one element of a parameter and of its state.

Each is written once. It runs on whole arrays, and the fused version compiles it for single numbers. So
that it is computed in the parameter's dtype there, it uses no constants: all numbers are arguments, worked
out in double precision for the whole parameter. Three of them occur everywhere: `sign` is -1 for ascent,
`l2` is the factor of a weight decay that is added to the gradient, and `keep` is what one that is decoupled
leaves of the parameter. Where there is no decay nothing is added: parameters may be infinite, and zero times
infinity is not zero.
"""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array

__all__ = [
    "adadelta", "adagrad", "adam", "adam_amsgrad", "adamax", "approach", "lamb", "lion", "nadam", "radam",
    "rmsprop", "rmsprop_centered", "rmsprop_centered_momentum", "rmsprop_momentum", "sgd", "sgd_momentum",
    "sgd_nesterov",
]  # fmt: skip


def approach(average: Array, target: Array, rate: float) -> tuple[Array]:
    """Go a part of the way from an average to a new value."""
    return (average + rate * (target - average),)


# ---- gradient descent


def sgd(param: Array, grad: Array, lr: float, sign: float, l2: float) -> tuple[Array]:
    """Descend."""
    grad = sign * grad
    if l2:
        grad = grad + l2 * param
    return (param - lr * grad,)


def sgd_momentum(
    param: Array, grad: Array, buffer: Array, lr: float, sign: float, l2: float, momentum: float, rate: float
) -> tuple[Array, Array]:
    """Descend along a sum of gradients that forgets (Sutskever et al. 2013, as PyTorch scales it).

    `rate` is 1 - dampening, and 1 in the first step.
    """
    grad = sign * grad
    if l2:
        grad = grad + l2 * param
    buffer = momentum * buffer + rate * grad
    return param - lr * buffer, buffer


def sgd_nesterov(
    param: Array, grad: Array, buffer: Array, lr: float, sign: float, l2: float, momentum: float, rate: float
) -> tuple[Array, Array]:
    """Descend along the sum as it will be after the step."""
    grad = sign * grad
    if l2:
        grad = grad + l2 * param
    buffer = momentum * buffer + rate * grad
    return param - lr * (grad + momentum * buffer), buffer


def lion(
    param: Array,
    grad: Array,
    exp_avg: Array,
    lr: float,
    sign: float,
    keep: float,
    beta1: float,
    rate1: float,
    beta2: float,
    rate2: float,
) -> tuple[Array, Array]:
    """Go by the sign alone (Chen et al. 2023, algorithm 2)."""
    grad = sign * grad
    direction = np.sign(beta1 * exp_avg + rate1 * grad)
    return keep * param - lr * direction, beta2 * exp_avg + rate2 * grad


# ---- steps divided by the size of past gradients


def adagrad(
    param: Array, grad: Array, total: Array, lr: float, sign: float, l2: float, eps: float
) -> tuple[Array, Array]:
    """Divide by the root of the sum of squares (Duchi et al. 2011); `lr` has decayed already."""
    grad = sign * grad
    if l2:
        grad = grad + l2 * param
    total = total + grad * grad
    return param - lr * grad / (np.sqrt(total) + eps), total


def adadelta(
    param: Array,
    grad: Array,
    square_avg: Array,
    acc_delta: Array,
    lr: float,
    sign: float,
    l2: float,
    rho: float,
    rate: float,
    eps: float,
) -> tuple[Array, Array, Array]:
    """Give steps the units of the parameter (Zeiler 2012, algorithm 1)."""
    grad = sign * grad
    if l2:
        grad = grad + l2 * param
    square_avg = rho * square_avg + rate * grad * grad
    delta = np.sqrt(acc_delta + eps) / np.sqrt(square_avg + eps) * grad
    return param - lr * delta, square_avg, rho * acc_delta + rate * delta * delta


def rmsprop(
    param: Array,
    grad: Array,
    square_avg: Array,
    lr: float,
    sign: float,
    l2: float,
    alpha: float,
    rate: float,
    eps: float,
) -> tuple[Array, Array]:
    """Divide by the root of the mean square (Tieleman and Hinton 2012)."""
    grad = sign * grad
    if l2:
        grad = grad + l2 * param
    square_avg = alpha * square_avg + rate * grad * grad
    return param - lr * grad / (np.sqrt(square_avg) + eps), square_avg


def rmsprop_momentum(
    param: Array,
    grad: Array,
    square_avg: Array,
    buffer: Array,
    lr: float,
    sign: float,
    l2: float,
    alpha: float,
    rate: float,
    eps: float,
    momentum: float,
) -> tuple[Array, Array, Array]:
    """Do the same along a sum that forgets."""
    grad = sign * grad
    if l2:
        grad = grad + l2 * param
    square_avg = alpha * square_avg + rate * grad * grad
    buffer = momentum * buffer + grad / (np.sqrt(square_avg) + eps)
    return param - lr * buffer, square_avg, buffer


def rmsprop_centered(
    param: Array,
    grad: Array,
    square_avg: Array,
    grad_avg: Array,
    lr: float,
    sign: float,
    l2: float,
    alpha: float,
    rate: float,
    eps: float,
    least: float,
) -> tuple[Array, Array, Array]:
    """Divide by the standard deviation instead (Graves 2013, equations 38 to 45).

    The variance is a difference, which rounding may make negative: `least` is 0.
    """
    grad = sign * grad
    if l2:
        grad = grad + l2 * param
    square_avg = alpha * square_avg + rate * grad * grad
    grad_avg = grad_avg + rate * (grad - grad_avg)
    variance = np.maximum(square_avg - grad_avg * grad_avg, least)
    return param - lr * grad / (np.sqrt(variance) + eps), square_avg, grad_avg


def rmsprop_centered_momentum(
    param: Array,
    grad: Array,
    square_avg: Array,
    grad_avg: Array,
    buffer: Array,
    lr: float,
    sign: float,
    l2: float,
    alpha: float,
    rate: float,
    eps: float,
    least: float,
    momentum: float,
) -> tuple[Array, Array, Array, Array]:
    """Do the same along a sum that forgets."""
    grad = sign * grad
    if l2:
        grad = grad + l2 * param
    square_avg = alpha * square_avg + rate * grad * grad
    grad_avg = grad_avg + rate * (grad - grad_avg)
    variance = np.maximum(square_avg - grad_avg * grad_avg, least)
    buffer = momentum * buffer + grad / (np.sqrt(variance) + eps)
    return param - lr * buffer, square_avg, grad_avg, buffer


# ---- Adam and what came of it


def adam(
    param: Array,
    grad: Array,
    exp_avg: Array,
    exp_avg_sq: Array,
    size: float,
    sign: float,
    l2: float,
    keep: float,
    rate1: float,
    beta2: float,
    rate2: float,
    eps: float,
    scale: float,
) -> tuple[Array, Array, Array]:
    """Divide a mean of gradients by the root of a mean of squares (Kingma and Ba 2015, algorithm 1).

    `size` is the learning rate and `scale` the factor of the root, both corrected for the bias of means that
    begin at zero; `rate1` is ``1 - beta1``. With `keep` it is AdamW (Loshchilov and Hutter 2019).
    """
    grad = sign * grad
    if l2:
        grad = grad + l2 * param
    exp_avg = exp_avg + rate1 * (grad - exp_avg)
    exp_avg_sq = beta2 * exp_avg_sq + rate2 * grad * grad
    return keep * param - size * exp_avg / (np.sqrt(exp_avg_sq) * scale + eps), exp_avg, exp_avg_sq


def adam_amsgrad(
    param: Array,
    grad: Array,
    exp_avg: Array,
    exp_avg_sq: Array,
    max_exp_avg_sq: Array,
    size: float,
    sign: float,
    l2: float,
    keep: float,
    rate1: float,
    beta2: float,
    rate2: float,
    eps: float,
    scale: float,
) -> tuple[Array, Array, Array, Array]:
    """Divide by the largest root so far, so that steps never grow again (Reddi et al. 2018, algorithm 2)."""
    grad = sign * grad
    if l2:
        grad = grad + l2 * param
    exp_avg = exp_avg + rate1 * (grad - exp_avg)
    exp_avg_sq = beta2 * exp_avg_sq + rate2 * grad * grad
    largest = np.maximum(max_exp_avg_sq, exp_avg_sq)
    return keep * param - size * exp_avg / (np.sqrt(largest) * scale + eps), exp_avg, exp_avg_sq, largest


def adamax(
    param: Array,
    grad: Array,
    exp_avg: Array,
    exp_inf: Array,
    size: float,
    sign: float,
    l2: float,
    rate1: float,
    beta2: float,
    eps: float,
) -> tuple[Array, Array, Array]:
    """Divide by the largest gradient, which decays (Kingma and Ba 2015, algorithm 2)."""
    grad = sign * grad
    if l2:
        grad = grad + l2 * param
    exp_avg = exp_avg + rate1 * (grad - exp_avg)
    exp_inf = np.maximum(beta2 * exp_inf, np.abs(grad) + eps)
    return param - size * exp_avg / exp_inf, exp_avg, exp_inf


def nadam(
    param: Array,
    grad: Array,
    exp_avg: Array,
    exp_avg_sq: Array,
    grad_size: float,
    avg_size: float,
    sign: float,
    l2: float,
    keep: float,
    rate1: float,
    beta2: float,
    rate2: float,
    eps: float,
    scale: float,
) -> tuple[Array, Array, Array]:
    """Use the mean as it will be after the step (Dozat 2016, algorithm 2)."""
    grad = sign * grad
    if l2:
        grad = grad + l2 * param
    exp_avg = exp_avg + rate1 * (grad - exp_avg)
    exp_avg_sq = beta2 * exp_avg_sq + rate2 * grad * grad
    step = (grad_size * grad + avg_size * exp_avg) / (np.sqrt(exp_avg_sq) * scale + eps)
    return keep * param - step, exp_avg, exp_avg_sq


def radam(
    param: Array,
    grad: Array,
    exp_avg: Array,
    exp_avg_sq: Array,
    size: float,
    sign: float,
    l2: float,
    keep: float,
    rate1: float,
    beta2: float,
    rate2: float,
    eps: float,
    root: float,
    plain: float,
) -> tuple[Array, Array, Array]:
    """Divide by the root of squares only once its variance is known (Liu et al. 2020, algorithm 2).

    `root` and `plain` are 1 and 0 then, and 0 and 1 before.
    """
    grad = sign * grad
    if l2:
        grad = grad + l2 * param
    exp_avg = exp_avg + rate1 * (grad - exp_avg)
    exp_avg_sq = beta2 * exp_avg_sq + rate2 * grad * grad
    step = size * exp_avg / (root * (np.sqrt(exp_avg_sq) + eps) + plain)
    return keep * param - step, exp_avg, exp_avg_sq


def lamb(
    param: Array,
    grad: Array,
    exp_avg: Array,
    exp_avg_sq: Array,
    direction: Array,
    sign: float,
    decay: float,
    size: float,
    rate1: float,
    beta2: float,
    rate2: float,
    eps: float,
    scale: float,
) -> tuple[Array, Array, Array, Array]:
    """Find the direction of a step whose length depends on its norm (You et al. 2020, algorithm 2)."""
    grad = sign * grad
    exp_avg = exp_avg + rate1 * (grad - exp_avg)
    exp_avg_sq = beta2 * exp_avg_sq + rate2 * grad * grad
    direction = size * exp_avg / (np.sqrt(exp_avg_sq) * scale + eps)
    if decay:
        direction = direction + decay * param
    return param, exp_avg, exp_avg_sq, direction
