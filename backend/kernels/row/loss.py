"""Cross-entropy of rows of logits against class labels."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import DTypeError, IndexRangeError, ShapeError
from shardwise.backend.kernels.kernel import Kernel

__all__ = [
    "check_classes", "check_labels", "cross_entropy_and_slope", "cross_entropy_backward",
    "cross_entropy_forward",
]  # fmt: skip

_FUSED = "shardwise.backend.kernels.row.loss_cpu"
_CUDA = "shardwise.backend.kernels.row.loss_cuda"


def check_labels(logits: Array, target: Array, ignore_index: int) -> None:
    """Raise if `target` cannot label the rows of `logits`.

    Values are looked at on the CPU only: a GPU would have to wait for the answer, and a shape has none.

    Raises
    ------
    ShapeError
        If the shapes are not (rows, classes) and (rows,).
    DTypeError
        If the labels are not integers.
    IndexRangeError
        If a label is neither in ``[0, classes)`` nor `ignore_index`.
    """
    if target.dtype.kind not in "iu":
        raise DTypeError(
            f"cross_entropy: wanted integers as labels, got {target.dtype}. Convert them with "
            "astype(numpy.int64)."
        )
    if logits.ndim != 2 or target.shape != logits.shape[:1]:
        raise ShapeError(
            "cross_entropy: wanted logits of shape (rows, classes) and a target of shape (rows,), got "
            f"{tuple(logits.shape)} and {tuple(target.shape)}. Reshape the logits to two dims and "
            "flatten the target."
        )
    check_classes("cross_entropy", target, logits.shape[1], ignore_index)


def check_classes(op: str, target: Array, classes: int, ignore_index: int | None = None) -> None:
    """Raise if a label is neither in ``[0, classes)`` nor `ignore_index`; on the CPU only.

    Parameters
    ----------
    op : str
        For the message.
    target : integer array, any shape
    classes : int
    ignore_index : int, optional

    Raises
    ------
    IndexRangeError
        Names the first wrong label and its place.
    """
    if type(target) is not np.ndarray or not target.size:
        return
    if int(target.min()) >= 0 and int(target.max()) < classes:
        return
    wrong = (target < 0) | (target >= classes)
    if ignore_index is not None:
        wrong &= target != ignore_index
    if wrong.any():
        rest = "." if ignore_index is None else f", or ignore_index={ignore_index}."
        place = np.unravel_index(int(np.argmax(wrong)), target.shape)
        where = f"[{', '.join(str(int(i)) for i in place)}]" if place else ""
        raise IndexRangeError(
            f"{op}: target{where} is {int(target[place])}, and the logits have {classes} classes: "
            f"wanted 0 to {classes - 1}{rest}"
        )


def _cross_entropy_forward(logits: Array, target: Array, ignore_index: int) -> tuple[Array, Array]:
    """The negative log-likelihood of each row's label.

    Parameters
    ----------
    logits : floating array, shape (rows, classes)
    target : integer array, shape (rows,)
    ignore_index : int
        Rows with this label have loss 0.

    Returns
    -------
    loss : array, shape (rows,)
    logsumexp : array, shape (rows,)
        For the backward.

    Raises
    ------
    ShapeError, DTypeError, IndexRangeError
        See :func:`check_labels`.
    """
    check_labels(logits, target, ignore_index)
    counted = target != ignore_index
    label = np.expand_dims(np.where(counted, target, 0), 1)
    maximum = np.amax(logits, axis=1, keepdims=True)
    logarithm = np.log(np.sum(np.exp(logits - maximum), axis=1, keepdims=True))
    # In this order: beside large logits, maximum + logarithm would lose the logarithm.
    loss = (maximum - np.take_along_axis(logits, label, axis=1)) + logarithm
    loss, logsumexp = np.squeeze(loss, axis=1), np.squeeze(maximum + logarithm, axis=1)
    return np.where(counted, loss, 0.0), logsumexp


def _cross_entropy_backward(
    g: Array, logits: Array, target: Array, logsumexp: Array | None, ignore_index: int
) -> Array:
    """The gradient of :func:`cross_entropy_forward`'s loss.

    Parameters
    ----------
    g : array, shape (rows,)
        Gradient of each row's loss.
    logits, target, ignore_index
        As in the forward.
    logsumexp : array, shape (rows,), or None
        From the forward; None computes it again, so that gradients of this gradient see how it
        depends on `logits`.

    Returns
    -------
    array
        Of `logits`' shape; rows that are ignored are 0.
    """
    if logsumexp is None:
        maximum = np.amax(logits, axis=1, keepdims=True)
        exponentials = np.exp(logits - maximum)
        probability = exponentials / np.sum(exponentials, axis=1, keepdims=True)
    else:
        probability = np.exp(logits - np.expand_dims(logsumexp, 1))
    label = np.expand_dims(target, 1)
    is_label = np.arange(logits.shape[1], like=target) == label
    weight = np.expand_dims(g, 1)
    return np.where(label == ignore_index, 0.0, (probability - is_label) * weight)


def _cross_entropy_and_slope(
    logits: Array, target: Array, ignore_index: int, share: float
) -> tuple[Array, Array]:
    """The losses of :func:`cross_entropy_forward`, and their gradient for ``g = share`` in every row.

    For one number that is the mean of all rows' losses, that is the gradient itself; it costs one pass while
    the exponentials are at hand, and another exponential of every logit later.

    Parameters
    ----------
    logits, target, ignore_index
        See :func:`cross_entropy_forward`.
    share : float
        What the gradient of each row's loss is expected to be.

    Returns
    -------
    loss : array, shape (rows,)
    slope : array of `logits`' shape
    """
    loss, logsumexp = _cross_entropy_forward(logits, target, ignore_index)
    g = np.full_like(loss, share)
    return loss, _cross_entropy_backward(g, logits, target, logsumexp, ignore_index)


cross_entropy_and_slope = Kernel(
    _cross_entropy_and_slope,
    f"{_FUSED}:cross_entropy_and_slope",
    arrays=2,
    integer="target",
    statistics=1,
    cuda=f"{_CUDA}:cross_entropy_and_slope",
)
cross_entropy_forward = Kernel(
    _cross_entropy_forward,
    f"{_FUSED}:cross_entropy_forward",
    arrays=2,
    integer="target",
    statistics=1,
    cuda=f"{_CUDA}:cross_entropy_forward",
)
cross_entropy_backward = Kernel(
    _cross_entropy_backward,
    f"{_FUSED}:cross_entropy_backward",
    arrays=4,
    integer="target",
    cuda=f"{_CUDA}:cross_entropy_backward",
)
