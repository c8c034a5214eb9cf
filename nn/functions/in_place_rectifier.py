"""Rectifiers that write their result into their input: ``F.relu_(x)`` is ``F.relu(x, inplace=True)``."""

from __future__ import annotations

from shardwise.nn.functions.rectifier import celu, elu, hardtanh, leaky_relu, relu, rrelu, selu, threshold
from shardwise.tensor import Tensor

__all__ = ["celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "rrelu_", "selu_", "threshold_"]


def relu_(input: Tensor) -> Tensor:
    """Do `relu` in place, and return `input`."""
    return relu(input, inplace=True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Do `hardtanh` in place, and return `input`."""
    return hardtanh(input, min_val, max_val, inplace=True)


def threshold_(input: Tensor, threshold_: float, value: float) -> Tensor:
    """Do `threshold` in place, and return `input`."""
    return threshold(input, threshold_, value, inplace=True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Do `leaky_relu` in place, and return `input`."""
    return leaky_relu(input, negative_slope, inplace=True)


def rrelu_(
    input: Tensor, lower: float = 1.0 / 8.0, upper: float = 1.0 / 3.0, training: bool = False
) -> Tensor:
    """Do `rrelu` in place, and return `input`."""
    return rrelu(input, lower, upper, training, inplace=True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Do `elu` in place, and return `input`."""
    return elu(input, alpha, inplace=True)


def selu_(input: Tensor) -> Tensor:
    """Do `selu` in place, and return `input`."""
    return selu(input, inplace=True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Do `celu` in place, and return `input`."""
    return celu(input, alpha, inplace=True)
