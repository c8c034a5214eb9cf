"""Activations that treat negative and positive inputs differently."""

from __future__ import annotations

import numpy as np

from shardwise.backend import random as bits
from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, DTypeError, ShapeError
from shardwise.nn.check import check_reals, check_tensors
from shardwise.nn.functions.in_place import placed
from shardwise.tensor import Tensor, next_draw
from shardwise.tensor.ops import piecewise, rectifier
from shardwise.tensor.part import in_parts
from shardwise.tensor.signature import Part

__all__ = [
    "celu", "elu", "hardtanh", "leaky_relu", "prelu", "relu", "relu6", "rrelu", "selu", "threshold",
]  # fmt: skip

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the positive part; the slope at 0 is 0.

    Parameters
    ----------
    input : Tensor, any shape, real
    inplace : bool
        Make the result the new value of `input`, too. On the tape the old values stay in memory as
        long as backward needs them, so it saves nothing there.

    Returns
    -------
    Tensor, of the shape and dtype of `input`
    """
    _check_ordered("relu", input)
    return placed("relu", input, input.relu(), inplace)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Return values kept between 0 and 6; the slope at both is 0. `inplace` is as for `relu`."""
    _check_ordered("relu6", input)
    return placed("relu6", input, piecewise.HardTanh.apply(input, low=0, high=6), inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Return values kept between `min_val` and `max_val`; the slope at both is 0.

    Parameters
    ----------
    input : Tensor, any shape, real
    min_val, max_val : float
        For integers, integers.
    inplace : bool
        As for `relu`.

    Raises
    ------
    ArgumentError
        If `min_val` is above `max_val`.
    """
    _check_ordered("hardtanh", input)
    if not min_val <= max_val:
        raise ArgumentError(f"hardtanh: wanted min_val <= max_val, got {min_val} and {max_val}")
    if input.dtype.kind in "iu":  # as PyTorch: an integer result, of integer bounds
        min_val, max_val = int(min_val), int(max_val)
    return placed("hardtanh", input, piecewise.HardTanh.apply(input, low=min_val, high=max_val), inplace)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Return elements that are above `threshold`, and `value` for the others, where the slope is 0.

    Parameters
    ----------
    input : Tensor, any shape, real
    threshold, value : float
        For integers, integers.
    inplace : bool
        As for `relu`.
    """
    _check_ordered("threshold", input)
    if input.dtype.kind in "iu":
        threshold, value = int(threshold), int(value)
    result = rectifier.Threshold.apply(input, threshold=threshold, value=value)
    return placed("threshold", input, result, inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return positive elements, and the others times `negative_slope`, which is also the slope at 0.

    Parameters
    ----------
    input : Tensor, any shape, real floating
    negative_slope : float
    inplace : bool
        As for `relu`.
    """
    check_reals("leaky_relu", input=input)
    return placed("leaky_relu", input, rectifier.LeakyRelu.apply(input, slope=float(negative_slope)), inplace)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Return positive elements, and the others times a learned weight (He et al. 2015).

    Parameters
    ----------
    input : Tensor, shape (n, channels, ...), or (n,) or () for one weight
    weight : Tensor, shape (), (1,) or (channels,)

    Raises
    ------
    ShapeError
        If there are neither one weight nor as many as channels.
    """
    check_reals("prelu", input=input, weight=weight)
    count = weight.numel()
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.ndim > 1 or count not in (1, channels):
        raise ShapeError(
            f"prelu: weight must have shape (1,) or one element per channel, ({channels},), for input of "
            f"shape {input.shape}; got {weight.shape}"
        )
    if count == 1:
        shape: tuple[int, ...] = (1,) * input.ndim
    else:
        shape = (1, count, *(1,) * (input.ndim - 2))
    return rectifier.PRelu.apply(input, weight.reshape(shape))


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Return positive elements, and the others times random slopes (Xu et al. 2015).

    Parameters
    ----------
    input : Tensor, any shape, real floating
    lower, upper : float
        While training each element's slope is uniform between them, by its place in the global
        batch as for `dropout`; otherwise it is their mean.
    training : bool
    inplace : bool
        As for `relu`.

    Raises
    ------
    ArgumentError
        If `lower` is above `upper`, or one is not finite.
    """
    check_reals("rrelu", input=input)
    if not (lower <= upper and np.isfinite(lower) and np.isfinite(upper)):
        raise ArgumentError(f"rrelu: wanted finite lower <= upper, got {lower} and {upper}")
    if not training:
        result = rectifier.LeakyRelu.apply(input, slope=(lower + upper) / 2.0)
    else:
        draw, dtype = next_draw(), input.dtype
        precision = np.float64 if dtype == np.float64 else np.float32

        def make(part: Part, local: Array) -> Array:
            uniform = bits.uniform(
                part.shape, precision, draw.seed, draw.stream, draw.place(part), like=local
            )
            slopes: Array = (uniform * (upper - lower) + lower).astype(dtype)
            return slopes

        result = rectifier.PRelu.apply(input, in_parts(input, make))
    return placed("rrelu", input, result, inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return positive elements, and ``alpha * (exp(x) - 1)`` for the others (Clevert et al. 2016).

    Parameters
    ----------
    input : Tensor, any shape, real floating
    alpha : float
        The slope at 0, from the left.
    inplace : bool
        As for `relu`.
    """
    check_reals("elu", input=input)
    return placed("elu", input, rectifier.Elu.apply(input, alpha=float(alpha), scale=1.0, rate=1.0), inplace)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `elu` with the constants that keep mean 0 and variance 1 (Klambauer et al. 2017)."""
    check_reals("selu", input=input)
    result = rectifier.Elu.apply(input, alpha=_SELU_ALPHA, scale=_SELU_SCALE, rate=1.0)
    return placed("selu", input, result, inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return positive elements, and ``alpha * (exp(x / alpha) - 1)`` for the others (Barron 2017).

    Parameters
    ----------
    input : Tensor, any shape, real floating
    alpha : float
        Not 0.
    inplace : bool
        As for `relu`.
    """
    check_reals("celu", input=input)
    if alpha == 0:
        raise ArgumentError("celu: alpha must not be 0")
    result = rectifier.Elu.apply(input, alpha=float(alpha), scale=1.0, rate=1.0 / alpha)
    return placed("celu", input, result, inplace)


def _check_ordered(op: str, input: Tensor) -> None:
    """Raise unless the elements have an order: integers are welcome, complex numbers and truth are not."""
    check_tensors(op, input=input)
    if input.dtype.kind in "cb":
        raise DTypeError(f"{op}: input must be real numbers, not {input.dtype}; cast it with astype()")
