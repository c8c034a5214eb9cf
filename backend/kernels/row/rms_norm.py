"""Division of the last dim by its root mean square."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.kernel import Kernel

__all__ = ["check_scale", "rms_norm_backward", "rms_norm_forward"]

_FUSED = "shardwise.backend.kernels.row.rms_norm_cpu"
_CUDA = "shardwise.backend.kernels.row.norm_cuda"


def check_scale(x: Array, weight: Array | None) -> None:
    """Raise ShapeError unless `weight` has one element per feature of `x`."""
    if weight is not None and tuple(weight.shape) != tuple(x.shape[-1:]):
        raise ShapeError(
            f"rms_norm: weight has shape {tuple(weight.shape)}, and the input {tuple(x.shape)}; "
            f"wanted {tuple(x.shape[-1:])}."
        )


def _rms_norm_forward(x: Array, weight: Array | None, eps: float) -> tuple[Array, Array]:
    """Divide each row of `x` by its root mean square, then scale.

    Parameters
    ----------
    x : floating array, shape (..., features)
    weight : array of shape (features,), or None for 1
    eps : float
        Added to the mean square.

    Returns
    -------
    y : array of `x`'s shape and dtype
    scale : array of shape ``x.shape[:-1]``
        The rows' reciprocal root mean squares, for the backward.

    Raises
    ------
    ShapeError
        If `weight` does not fit the last dim.

    References
    ----------
    B. Zhang, R. Sennrich, "Root mean square layer normalization", arXiv:1910.07467.
    """
    check_scale(x, weight)
    scale = 1.0 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    y = x * scale
    if weight is not None:
        y = y * weight
    return y, np.squeeze(scale, axis=-1)


def _rms_norm_backward(
    g: Array, x: Array, weight: Array | None, scale: Array | None, eps: float
) -> tuple[Array, Array]:
    """The gradients of :func:`rms_norm_forward`.

    Parameters
    ----------
    g, x : floating arrays, shape (..., features)
        The output's gradient, and the forward's input.
    weight : array of shape (features,), or None
    scale : array of shape ``x.shape[:-1]``, or None
        From the forward. If None it is computed from `x` again, so that gradients of this gradient see
        how it depends on it.
    eps : float
        As in the forward; used only where `scale` is None.

    Returns
    -------
    dx : array of `x`'s shape
    dweight : array of shape (features,)
    """
    if scale is None:
        wide = 1.0 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    else:
        wide = np.expand_dims(scale, -1)
    normal = x * wide
    weighted = g if weight is None else g * weight
    inner = np.mean(weighted * normal, axis=-1, keepdims=True)
    leading = tuple(range(x.ndim - 1))
    return (weighted - normal * inner) * wide, np.sum(g * normal, axis=leading)


rms_norm_forward = Kernel(
    _rms_norm_forward, f"{_FUSED}:rms_norm_forward", arrays=2, statistics=1, cuda=f"{_CUDA}:rms_norm_forward"
)
rms_norm_backward = Kernel(
    _rms_norm_backward, f"{_FUSED}:rms_norm_backward", arrays=4, cuda=f"{_CUDA}:rms_norm_backward"
)
