"""First values for parameters, drawn from the seeded random streams.

Each function fills a tensor in place, off the tape, and returns it. Tensors without data (of the device
``"shape"``) are left as they are, and nothing is drawn for them.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import numpy as np

from shardwise.backend import random as bits
from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.backend.quantile import normal_from_doublewords
from shardwise.tensor import Tensor, as_tensor, next_draw, no_grad, rand, rand_like, randn, randn_like
from shardwise.tensor.part import in_parts
from shardwise.tensor.signature import Part

__all__ = [
    "Mode", "Nonlinearity", "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_",
    "kaiming_uniform_", "normal_", "ones_", "orthogonal_", "sparse_", "trunc_normal_", "uniform_",
    "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip

Mode: TypeAlias = Literal["fan_in", "fan_out"]
Nonlinearity: TypeAlias = Literal[
    "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "sigmoid", "tanh", "relu", "leaky_relu", "selu",
]  # fmt: skip

_GAINS = {"tanh": 5.0 / 3.0, "relu": math.sqrt(2.0), "selu": 0.75}
_PLAIN = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
          "sigmoid")  # fmt: skip


def calculate_gain(nonlinearity: Nonlinearity, param: float | None = None) -> float:
    """Return by how much a nonlinearity shrinks the standard deviation, so that weights can make up for it.

    Parameters
    ----------
    nonlinearity : str
        The function's name.
    param : float, optional
        The negative slope of ``"leaky_relu"``; 0.01 if not given.

    Raises
    ------
    ArgumentError
        A nonlinearity that is not known.

    Examples
    --------
    >>> calculate_gain("leaky_relu", 0.0) == calculate_gain("relu") == 2**0.5
    True
    """
    if nonlinearity in _PLAIN:
        return 1.0
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1.0 + slope * slope))
    if nonlinearity not in _GAINS:
        known = ", ".join((*_PLAIN, *_GAINS, "leaky_relu"))
        raise ArgumentError(f"calculate_gain: nonlinearity must be one of {known}; got {nonlinearity!r}")
    return _GAINS[nonlinearity]


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Fill with numbers uniform between `a` and `b`."""
    if not b >= a:
        raise ArgumentError(f"uniform_ needs a <= b, got a={a} and b={b}")
    if tensor.device == "shape":
        return tensor
    return _write(tensor, rand_like(tensor) * (b - a) + a)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Fill with normal numbers."""
    if not std >= 0.0:
        raise ArgumentError(f"normal_ needs std >= 0, got {std}")
    if tensor.device == "shape":
        return tensor
    return _write(tensor, randn_like(tensor) * std + mean)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0
) -> Tensor:
    """Fill with normal numbers of which those outside ``[a, b]`` are drawn again, in effect."""
    if not (b >= a and std > 0.0):
        raise ArgumentError(f"trunc_normal_ needs a <= b and std > 0, got a={a}, b={b} and std={std}")
    if tensor.device == "shape":
        return tensor
    low, high = (a - mean) / std, (b - mean) / std
    mirrored = low > 0.0  # the distribution function is exact in its lower tail only
    if mirrored:
        low, high = -high, -low
    start, width = _below(low), _below(high) - _below(low)
    draw, dtype, device = next_draw(), tensor.dtype, tensor.device

    def make(part: Part, local: Array) -> Array:
        place = bits.uniform(part.shape, np.float64, draw.seed, draw.stream, draw.place(part)) * width + start
        values = normal_from_doublewords(np.floor(place * 2.0**64).astype(np.uint64))
        values = np.clip((-values if mirrored else values) * std + mean, a, b)
        return as_tensor(values, dtype=dtype, device=device).data

    return _write(tensor, in_parts(tensor, make))


def _below(x: float) -> float:
    """Return the probability that a normal number is below `x`."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value."""
    with no_grad():
        return tensor.fill_(val)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with 0."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with 1."""
    return constant_(tensor, 1.0)


def eye_(tensor: Tensor) -> Tensor:
    """Make a matrix the identity, as far as its shape allows."""
    if tensor.ndim != 2:
        raise ShapeError(f"eye_ needs a matrix, but the shape is {tensor.shape}")
    return _write(tensor, _on_device(np.eye(*tensor.shape, dtype=np.float32), tensor))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Make the weight of a convolution pass its input channels on, as many as there are output channels.

    Parameters
    ----------
    tensor : Tensor, shape (out, in, *kernel), with one to three kernel dims
    groups : int
        Each group of output channels passes on the first input channels.
    """
    if not 3 <= tensor.ndim <= 5:
        raise ShapeError(f"dirac_ needs a weight of 3, 4 or 5 dims, but the shape is {tensor.shape}")
    if groups < 1 or tensor.shape[0] % groups:
        raise ArgumentError(f"dirac_: {tensor.shape[0]} output channels do not part into {groups} groups")
    out = tensor.shape[0] // groups
    weight = np.zeros(tensor.shape, np.float32)
    middle = tuple(n // 2 for n in tensor.shape[2:])
    for group in range(groups):
        for channel in range(min(out, tensor.shape[1])):
            weight[(group * out + channel, channel, *middle)] = 1.0
    return _write(tensor, _on_device(weight, tensor))


def _fans(tensor: Tensor) -> tuple[int, int]:
    if tensor.ndim < 2:
        raise ShapeError(f"fan in and fan out need at least two dims, but the shape is {tensor.shape}")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fill uniformly with variance ``2 gain² / (fan_in + fan_out)`` (Glorot and Bengio 2010)."""
    bound = gain * math.sqrt(6.0 / max(sum(_fans(tensor)), 1))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fill normally with variance ``2 gain² / (fan_in + fan_out)`` (Glorot and Bengio 2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / max(sum(_fans(tensor)), 1)))


def kaiming_uniform_(
    tensor: Tensor, a: float = 0.0, mode: Mode = "fan_in", nonlinearity: Nonlinearity = "leaky_relu"
) -> Tensor:
    """Fill uniformly with variance ``gain² / fan`` (He et al. 2015).

    Parameters
    ----------
    tensor : Tensor, at least two dims
    a : float
        The negative slope, where `nonlinearity` is ``"leaky_relu"``.
    mode : {"fan_in", "fan_out"}
        Keep the variance of activations, or of gradients.
    nonlinearity : str
        See `calculate_gain`.
    """
    bound = math.sqrt(3.0) * _deviation(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(
    tensor: Tensor, a: float = 0.0, mode: Mode = "fan_in", nonlinearity: Nonlinearity = "leaky_relu"
) -> Tensor:
    """Fill normally with variance ``gain² / fan`` (He et al. 2015); see `kaiming_uniform_`."""
    return normal_(tensor, 0.0, _deviation(tensor, a, mode, nonlinearity))


def _deviation(tensor: Tensor, a: float, mode: Mode, nonlinearity: Nonlinearity) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError(f"mode must be 'fan_in' or 'fan_out', got {mode!r}")
    fan = _fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(max(fan, 1))


def orthogonal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fill with a random orthogonal matrix times `gain` (Saxe, McClelland, Ganguli 2013).

    The dims behind the first are taken as one. Where there are fewer rows than columns the rows are
    orthonormal, otherwise the columns are.
    """
    if tensor.ndim < 2:
        raise ShapeError(f"orthogonal_ needs at least two dims, but the shape is {tensor.shape}")
    if tensor.device == "shape" or not tensor.numel():
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    drawn = randn(max(rows, columns), min(rows, columns), dtype=np.float64).data
    q, r = np.linalg.qr(drawn)
    q = q * np.sign(np.diagonal(r))  # otherwise the distribution would not be uniform (Mezzadri 2007)
    q = q.T if rows < columns else q
    return _write(tensor, _on_device(gain * q.reshape(tensor.shape), tensor))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01) -> Tensor:
    """Fill a matrix normally, and set the fraction `sparsity` of each column to 0 (Martens 2010)."""
    if tensor.ndim != 2:
        raise ShapeError(f"sparse_ needs a matrix, but the shape is {tensor.shape}")
    if not 0.0 <= sparsity <= 1.0:
        raise ArgumentError(f"sparse_: sparsity must be a fraction between 0 and 1, got {sparsity}")
    normal_(tensor, 0.0, std)
    if tensor.device == "shape":
        return tensor
    order = np.argsort(rand(*tensor.shape, dtype=np.float64).data, axis=0)
    kept = np.ones(tensor.shape, np.float32)
    np.put_along_axis(kept, order[: math.ceil(sparsity * tensor.shape[0])], 0.0, axis=0)
    with no_grad():
        return tensor.mul_(_on_device(kept, tensor))


def _on_device(values: Array, tensor: Tensor) -> Tensor:
    return tensor.new_tensor(values)


def _write(tensor: Tensor, values: Tensor) -> Tensor:
    with no_grad():
        return tensor.copy_(values)
