"""Cross-entropy with class weights, smoothed labels or probabilities, of rows of logits."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import Kernel
from shardwise.backend.kernels.pointwise.pointwise import WORTH_FUSING

__all__ = [
    "soft_cross_entropy_backward", "soft_cross_entropy_forward", "weighted_cross_entropy_backward",
    "weighted_cross_entropy_forward",
]  # fmt: skip

_FUSED = "shardwise.backend.kernels.row.weighted_loss_cpu"
_CUDA = "shardwise.backend.kernels.row.weighted_loss_cuda"


def _weighted_cross_entropy_forward(
    logits: Array, target: Array, weight: Array | None, ignore_index: int, smoothing: float
) -> tuple[Array, Array]:
    """The cross-entropy of each row, with class weights and a smoothed label.

    ``(1 - s) * weight[target] * loss(target) + s / classes * sum(weight[c] * loss(c))``, with
    ``loss(c) = logsumexp(logits) - logits[c]``.

    Parameters
    ----------
    logits : floating array, shape (rows, classes)
    target : integer array, shape (rows,)
        Each in ``[0, classes)`` or `ignore_index`.
    weight : floating array, shape (classes,), or None
        1 if there is none.
    ignore_index : int
        Rows with this label have loss 0.
    smoothing : float
        ``s``, from 0 to 1.

    Returns
    -------
    loss : array, shape (rows,)
    logsumexp : array, shape (rows,)
        For the backward.

    References
    ----------
    C. Szegedy et al., "Rethinking the Inception architecture for computer vision", CVPR 2016, section 7.
    """
    classes = logits.shape[1]
    counted, label = _labels(target, ignore_index)
    maximum, logarithm = _maximum_and_logarithm(logits)
    losses = (maximum - logits) + logarithm
    loss = np.take_along_axis(losses, label, axis=1) * (1.0 - smoothing)
    if weight is not None:
        loss = loss * np.take(weight, label, axis=0)
    if smoothing:
        every = losses if weight is None else losses * weight
        loss = loss + np.sum(every, axis=1, keepdims=True) * (smoothing / classes)
    return np.squeeze(np.where(counted, loss, 0.0), axis=1), np.squeeze(maximum + logarithm, axis=1)


def _weighted_cross_entropy_backward(
    logits: Array,
    g: Array,
    target: Array,
    weight: Array | None,
    logsumexp: Array | None,
    ignore_index: int,
    smoothing: float,
) -> Array:
    """The gradient of :func:`weighted_cross_entropy_forward`'s loss.

    Parameters
    ----------
    logits, target, weight, ignore_index, smoothing
        As in the forward.
    g : array, shape (rows,)
        Gradient of each row's loss.
    logsumexp : array, shape (rows,), or None
        From the forward; None computes it again, so that gradients of this gradient see how it
        depends on `logits`.
    """
    classes = logits.shape[1]
    counted, label = _labels(target, ignore_index)
    own: Any = 1.0 - smoothing
    every: Any = smoothing / classes
    total: Any = smoothing
    if weight is not None:
        own = np.take(weight, label, axis=0) * own
        every = weight * every
        total = np.sum(every)
    slope = _probability(logits, logsumexp) * (own + total)
    slope = np.where(np.arange(classes, like=target) == label, slope - own, slope)
    if smoothing:
        slope = slope - every
    return np.where(counted, slope * np.expand_dims(g, 1), 0.0)


def _soft_cross_entropy_forward(
    logits: Array, target: Array, weight: Array | None, smoothing: float
) -> tuple[Array, Array]:
    """The cross-entropy of each row of logits against probabilities.

    ``-sum(weight[c] * p[c] * log_softmax(logits)[c])``, with ``p = (1 - s) * target + s / classes``.

    Parameters
    ----------
    logits, target : floating arrays, shape (rows, classes)
    weight : floating array, shape (classes,), or None
    smoothing : float
        ``s``, from 0 to 1.

    Returns
    -------
    loss : array, shape (rows,)
    logsumexp : array, shape (rows,)
        For the backward.
    """
    maximum, logarithm = _maximum_and_logarithm(logits)
    losses = (maximum - logits) + logarithm
    loss = np.sum(losses * _shares(target, weight, smoothing), axis=1)
    return loss, np.squeeze(maximum + logarithm, axis=1)


def _soft_cross_entropy_backward(
    logits: Array,
    g: Array,
    target: Array,
    weight: Array | None,
    logsumexp: Array | None,
    smoothing: float,
) -> Array:
    """The gradient of :func:`soft_cross_entropy_forward`'s loss with respect to the logits.

    Parameters are those of the forward, and of :func:`weighted_cross_entropy_backward`.
    """
    share = _shares(target, weight, smoothing)
    total = np.sum(share, axis=1, keepdims=True)
    return (_probability(logits, logsumexp) * total - share) * np.expand_dims(g, 1)


def _labels(target: Array, ignore_index: int) -> tuple[Any, Any]:
    """Which rows count, and their labels, 0 for the others; both of shape (rows, 1)."""
    column = np.expand_dims(target, 1)
    counted = column != ignore_index
    return counted, np.where(counted, column, 0)


def _maximum_and_logarithm(logits: Any) -> tuple[Any, Any]:
    """Two parts of each row's logsumexp: beside large logits, their sum would lose the second."""
    maximum = np.amax(logits, axis=1, keepdims=True)
    return maximum, np.log(np.sum(np.exp(logits - maximum), axis=1, keepdims=True))


def _probability(logits: Any, logsumexp: Any) -> Any:
    if logsumexp is not None:
        return np.exp(logits - np.expand_dims(logsumexp, 1))
    maximum, logarithm = _maximum_and_logarithm(logits)
    return np.exp((logits - maximum) - logarithm)


def _shares(target: Any, weight: Any, smoothing: float) -> Any:
    if smoothing:
        target = target * (1.0 - smoothing) + smoothing / target.shape[1]
    return target if weight is None else target * weight


weighted_cross_entropy_forward = Kernel(
    _weighted_cross_entropy_forward,
    f"{_FUSED}:weighted_cross_entropy_forward",
    arrays=3,
    integer="target",
    statistics=1,
    least=WORTH_FUSING,
    cuda=f"{_CUDA}:weighted_cross_entropy_forward",
)
weighted_cross_entropy_backward = Kernel(
    _weighted_cross_entropy_backward,
    f"{_FUSED}:weighted_cross_entropy_backward",
    arrays=5,
    integer="target",
    least=WORTH_FUSING,
    cuda=f"{_CUDA}:weighted_cross_entropy_backward",
)
soft_cross_entropy_forward = Kernel(
    _soft_cross_entropy_forward,
    f"{_FUSED}:soft_cross_entropy_forward",
    arrays=3,
    statistics=1,
    least=WORTH_FUSING,
    cuda=f"{_CUDA}:soft_cross_entropy_forward",
)
soft_cross_entropy_backward = Kernel(
    _soft_cross_entropy_backward,
    f"{_FUSED}:soft_cross_entropy_backward",
    arrays=5,
    least=WORTH_FUSING,
    cuda=f"{_CUDA}:soft_cross_entropy_backward",
)
