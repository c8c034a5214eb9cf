"""Normalisation."""

from __future__ import annotations

import math

from shardwise.backend.errors import ShapeError
from shardwise.nn.check import check_dtypes, check_tensors
from shardwise.tensor import Tensor
from shardwise.tensor.ops import norm

__all__ = ["layer_norm"]


def layer_norm(
    x: Tensor,
    normalized_shape: int | tuple[int, ...],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise over the last dims to mean 0 and variance 1, then scale and shift.

    Parameters
    ----------
    x : Tensor, shape (..., *normalized_shape)
    normalized_shape : int or tuple of int
    weight, bias : Tensor, shape normalized_shape, optional
    eps : float
        Added to the variance.

    Returns
    -------
    Tensor, shape of `x`
    """
    check_tensors("layer_norm", x=x, weight=weight, bias=bias)
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if x.shape[x.ndim - len(shape) :] != shape or not shape:
        raise ShapeError(f"layer_norm: x of shape {x.shape} does not end in the normalised shape {shape}")
    for name, t in (("weight", weight), ("bias", bias)):
        if t is not None and t.shape != shape:
            raise ShapeError(f"layer_norm: {name} must have the normalised shape {shape}, got {t.shape}")
    check_dtypes("layer_norm", x=x, weight=weight, bias=bias)
    if len(shape) == 1:
        return norm.LayerNorm.apply(x, weight, bias, eps=eps)
    flat = x.reshape(*x.shape[: x.ndim - len(shape)], math.prod(shape))
    merged = [None if t is None else t.reshape(math.prod(shape)) for t in (weight, bias)]
    return norm.LayerNorm.apply(flat, *merged, eps=eps).reshape(x.shape)
