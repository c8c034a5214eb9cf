"""Layer normalisation over the last dim."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.kernel import Kernel

__all__ = ["check_parameters", "layer_norm_backward", "layer_norm_forward"]

_FUSED = "shardwise.backend.kernels.row.norm_cpu"
_CUDA = "shardwise.backend.kernels.row.norm_cuda"


def check_parameters(x: Array, weight: Array | None, bias: Array | None) -> None:
    """Raise ShapeError unless `weight` and `bias` have one element per feature of `x`."""
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and tuple(value.shape) != tuple(x.shape[-1:]):
            raise ShapeError(
                f"layer_norm: {name} has shape {tuple(value.shape)}, and the input {tuple(x.shape)}; "
                f"wanted {tuple(x.shape[-1:])}."
            )


def _layer_norm_forward(
    x: Array, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """Normalise each row of `x` to mean 0 and variance 1, then scale and shift.

    Parameters
    ----------
    x : floating array, shape (..., features)
    weight, bias : array of shape (features,), or None for 1 and 0
    eps : float
        Added to the variance.

    Returns
    -------
    y : array of `x`'s shape and dtype
    mean, rstd : arrays of shape ``x.shape[:-1]``
        The rows' means and reciprocal standard deviations, for the backward.

    Raises
    ------
    ShapeError
        If `weight` or `bias` does not fit the last dim.

    References
    ----------
    J. L. Ba, J. R. Kiros, G. E. Hinton, "Layer normalization", arXiv:1607.06450.
    """
    check_parameters(x, weight, bias)
    mean = np.mean(x, axis=-1, keepdims=True)
    centred = x - mean
    rstd = 1.0 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + eps)
    y = centred * rstd
    if weight is not None:
        y = y * weight
    if bias is not None:
        y = y + bias
    return y, np.squeeze(mean, axis=-1), np.squeeze(rstd, axis=-1)


def _layer_norm_backward(
    g: Array, x: Array, weight: Array | None, mean: Array | None, rstd: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """The gradients of :func:`layer_norm_forward`.

    Parameters
    ----------
    g, x : floating arrays, shape (..., features)
        The output's gradient, and the forward's input.
    weight : array of shape (features,), or None
    mean, rstd : arrays of shape ``x.shape[:-1]``, or None
        From the forward. If either is None both are computed from `x` again, so that gradients of
        this gradient see how they depend on it.
    eps : float
        As in the forward; used only where `mean` or `rstd` is None.

    Returns
    -------
    dx : array of `x`'s shape
    dweight, dbias : arrays of shape (features,)
    """
    if mean is None or rstd is None:
        centred = x - np.mean(x, axis=-1, keepdims=True)
        scale = 1.0 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + eps)
    else:
        centred = x - np.expand_dims(mean, -1)
        scale = np.expand_dims(rstd, -1)
    normal = centred * scale
    weighted = g if weight is None else g * weight
    inner = np.mean(weighted * normal, axis=-1, keepdims=True)
    dx = (weighted - np.mean(weighted, axis=-1, keepdims=True) - normal * inner) * scale
    leading = tuple(range(x.ndim - 1))
    return dx, np.sum(g * normal, axis=leading), np.sum(g, axis=leading)


layer_norm_forward = Kernel(
    _layer_norm_forward,
    f"{_FUSED}:layer_norm_forward",
    arrays=3,
    statistics=2,
    cuda=f"{_CUDA}:layer_norm_forward",
)
layer_norm_backward = Kernel(
    _layer_norm_backward, f"{_FUSED}:layer_norm_backward", arrays=5, cuda=f"{_CUDA}:layer_norm_backward"
)
