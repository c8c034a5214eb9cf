"""Normalisation over features: of the last dims, or of neighbouring channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.nn.check import check_dtypes, check_reals, check_tensors
from shardwise.tensor import Tensor
from shardwise.tensor.ops import norm, pooling

__all__ = ["NormalizedShape", "layer_norm", "local_response_norm", "normalized_sizes", "rms_norm"]

NormalizedShape: TypeAlias = int | Sequence[int]
"""The sizes of the last dims that are normalised together; an integer for the last one."""


def layer_norm(
    input: Tensor,
    normalized_shape: NormalizedShape,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise over the last dims to mean 0 and variance 1, then scale and shift.

    Parameters
    ----------
    input : Tensor, shape (..., *normalized_shape)
    normalized_shape : int or sequence of int
    weight, bias : Tensor, shape normalized_shape, optional
    eps : float
        Added to the variance.

    Returns
    -------
    Tensor, shape of `input`
    """
    check_tensors("layer_norm", input=input, weight=weight, bias=bias)
    shape = _last_dims("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    check_dtypes("layer_norm", input=input, weight=weight, bias=bias)
    if len(shape) == 1:
        return norm.LayerNorm.apply(input, weight, bias, eps=eps)
    rows, *merged = (_merged(t, len(shape)) for t in (input, weight, bias))
    assert rows is not None
    return norm.LayerNorm.apply(rows, *merged, eps=eps).reshape(input.shape)


def rms_norm(
    input: Tensor,
    normalized_shape: NormalizedShape,
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Divide the last dims by their common root mean square, then scale.

    Parameters
    ----------
    input : Tensor, shape (..., *normalized_shape)
    normalized_shape : int or sequence of int
    weight : Tensor, shape normalized_shape, optional
    eps : float, optional
        Added to the mean square; what the dtype can tell from 1 if not given.

    Returns
    -------
    Tensor, shape of `input`
    """
    check_reals("rms_norm", input=input, weight=weight)
    shape = _last_dims("rms_norm", input, normalized_shape, weight=weight)
    if eps is None:  # float16 and bfloat16 are computed in float32
        eps = float(np.finfo(np.float64 if input.dtype == np.float64 else np.float32).eps)
    if len(shape) == 1:
        return norm.RMSNorm.apply(input, weight, eps=eps)
    rows, scale = _merged(input, len(shape)), _merged(weight, len(shape))
    assert rows is not None
    return norm.RMSNorm.apply(rows, scale, eps=eps).reshape(input.shape)


def normalized_sizes(op: str, normalized_shape: NormalizedShape) -> tuple[int, ...]:
    """Return `normalized_shape` as a tuple.

    Raises
    ------
    ArgumentError
        It holds something else than sizes, or nothing.
    """
    given = tuple(normalized_shape) if isinstance(normalized_shape, Sequence) else (normalized_shape,)
    if not given or any(not isinstance(n, (int, np.integer)) or n < 0 for n in given):
        raise ArgumentError(
            f"{op}: normalized_shape must be a size or a sequence of sizes, got {normalized_shape!r}"
        )
    return tuple(int(n) for n in given)


def _last_dims(
    op: str, input: Tensor, normalized_shape: NormalizedShape, **parameters: Tensor | None
) -> tuple[int, ...]:
    """Return the normalised shape, if `input` ends in it and the parameters have it."""
    shape = normalized_sizes(op, normalized_shape)
    if input.shape[max(input.ndim - len(shape), 0) :] != shape:
        raise ShapeError(f"{op}: input of shape {input.shape} does not end in the normalised shape {shape}")
    for name, parameter in parameters.items():
        if parameter is not None and parameter.shape != shape:
            raise ShapeError(f"{op}: {name} must have the normalised shape {shape}, got {parameter.shape}")
    return shape


def _merged(x: Tensor | None, count: int) -> Tensor | None:
    """Return with the last `count` dims as one."""
    return None if x is None else x.reshape(*x.shape[: x.ndim - count], math.prod(x.shape[x.ndim - count :]))


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Divide each element by a power of the mean square of neighbouring channels.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, places, ...)
    size : int
        How many channels: half of them in front of the element's own.
    alpha, beta, k : float
        The divisor is ``(k + alpha * mean of squares) ** beta``; channels outside count as zeros.

    Returns
    -------
    Tensor, shape of `input`

    References
    ----------
    A. Krizhevsky, I. Sutskever, G. E. Hinton, "ImageNet classification with deep convolutional neural
    networks", 2012, section 3.3.
    """
    check_reals("local_response_norm", input=input)
    if input.ndim < 3:
        raise ShapeError(
            f"local_response_norm: input must have shape (batch, channels, places, ...), got {input.shape}"
        )
    if not isinstance(size, int) or size < 1:
        raise ArgumentError(f"local_response_norm: size must be an integer of at least 1, got {size!r}")
    batch, channels = input.shape[:2]
    squares = input.square().reshape(batch, 1, channels, math.prod(input.shape[2:]))
    places = squares.shape[3]
    near = tuple(
        range(max(0, c - size // 2), min(channels, c + (size - 1) // 2 + 1)) for c in range(channels)
    )
    alone = tuple(range(p, p + 1) for p in range(places))
    means = pooling.AveragePool.apply(
        squares, windows=(near, alone), counts=((size,) * channels, (1,) * places)
    )
    return input / (means.reshape(input.shape) * alpha + k) ** beta
