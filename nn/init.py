"""First values for parameters, drawn from the seeded random streams."""

from __future__ import annotations

import math

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.tensor import Tensor, no_grad, rand, randn

__all__ = [
    "constant_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_", "uniform_", "xavier_normal_",
    "xavier_uniform_", "zeros_",
]  # fmt: skip


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Fill with numbers uniform between `a` and `b`."""
    if not b >= a:
        raise ArgumentError(f"uniform_ needs a <= b, got a={a} and b={b}")
    with no_grad():
        return tensor.copy_(rand(*tensor.shape, dtype=tensor.dtype, device=tensor.device) * (b - a) + a)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Fill with normal numbers."""
    if not std >= 0.0:
        raise ArgumentError(f"normal_ needs std >= 0, got {std}")
    with no_grad():
        return tensor.copy_(randn(*tensor.shape, dtype=tensor.dtype, device=tensor.device) * std + mean)


def constant_(tensor: Tensor, value: float) -> Tensor:
    """Fill with one value."""
    with no_grad():
        return tensor.fill_(value)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with 0."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with 1."""
    return constant_(tensor, 1.0)


def _fans(tensor: Tensor) -> tuple[int, int]:
    if tensor.ndim < 2:
        raise ShapeError(f"fan in and fan out need at least two dims, but the shape is {tensor.shape}")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fill uniformly with variance ``2 gain² / (fan_in + fan_out)`` (Glorot and Bengio 2010)."""
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fill normally with variance ``2 gain² / (fan_in + fan_out)`` (Glorot and Bengio 2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))))


def kaiming_uniform_(tensor: Tensor, a: float = 0.0) -> Tensor:
    """Fill uniformly with variance ``2 / ((1 + a²) fan_in)`` (He et al. 2015)."""
    bound = math.sqrt(6.0 / ((1 + a * a) * _fans(tensor)[0]))
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: Tensor, a: float = 0.0) -> Tensor:
    """Fill normally with variance ``2 / ((1 + a²) fan_in)`` (He et al. 2015)."""
    return normal_(tensor, 0.0, math.sqrt(2.0 / ((1 + a * a) * _fans(tensor)[0])))
