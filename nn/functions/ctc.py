"""Connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from shardwise.backend.kernels.row.loss import check_classes
from shardwise.backend.select import backend_of
from shardwise.nn.check import check_reals, check_tensors
from shardwise.nn.functions.reduction import Reduction, check_reduction, reduced
from shardwise.tensor import Tensor, as_tensor
from shardwise.tensor.ops.ctc import Ctc

__all__ = ["ctc_loss"]


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int] | int,
    target_lengths: Tensor | Sequence[int] | int,
    blank: int = 0,
    reduction: Reduction = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return how unlikely sequences of labels are, over all their alignments to frames (Graves et al. 2006).

    Parameters
    ----------
    log_probs : Tensor, shape (frames, n, classes) or (frames, classes), real floating
        As of `log_softmax` over the last dim.
    targets : Tensor of integers, shape (n, labels), or all labels behind each other in one dim
        None of them `blank`. For one sequence, shape (labels,).
    input_lengths : Tensor of integers, or integers, shape (n,) or ()
        How many frames count.
    target_lengths : Tensor of integers, or integers, shape (n,) or ()
        How many labels count.
    blank : int
        The class that stands for no label.
    reduction : "mean", "sum" or "none"
        For the mean each loss is divided by the number of its labels (at least 1) first.
    zero_infinity : bool
        Take infinite losses, of labels that do not fit in their frames, for 0.

    Returns
    -------
    Tensor, shape (), or (n,) for "none"

    Raises
    ------
    ShapeError, DTypeError, ArgumentError, IndexRangeError
        Names what does not fit.

    Notes
    -----
    The gradient is the true one with respect to `log_probs`. PyTorch returns it less that of the
    log-softmax, which is the same for what `log_probs` was computed from. Where no alignment fits,
    it is zero.
    """
    op = "ctc_loss"
    check_tensors(op, log_probs=log_probs, targets=targets)
    check_reals(op, log_probs=log_probs)
    check_reduction(op, reduction)
    if targets.dtype.kind not in "iu":
        raise DTypeError(f"{op}: the targets must be integer classes, not {targets.dtype}; cast with long()")
    single = log_probs.ndim == 2
    if log_probs.ndim not in (2, 3) or (single and targets.ndim != 1):
        raise ShapeError(
            f"{op}: log_probs must have shape (frames, n, classes), or (frames, classes) with targets of one "
            f"dim; got {log_probs.shape} and targets of {targets.shape}"
        )
    if single:
        log_probs, targets = log_probs.unsqueeze(1), targets.unsqueeze(0)
    total, n, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise IndexRangeError(f"{op}: blank must be a class from 0 to {classes - 1}, got {blank}")
    frames = _lengths(op, "input_lengths", input_lengths, n, total)
    padded = targets.ndim == 2
    lengths = _lengths(
        op, "target_lengths", target_lengths, n, targets.shape[1] if padded else targets.numel()
    )
    if targets.ndim not in (1, 2) or (padded and targets.shape[0] != n):
        raise ShapeError(
            f"{op}: targets must have shape ({n}, labels) or (labels of all,), got {targets.shape}"
        )
    if not padded and int(lengths.sum()) != targets.numel():
        raise ShapeError(
            f"{op}: target_lengths add up to {int(lengths.sum())}, but targets has {targets.numel()} labels"
        )
    labels = targets if padded else _padded(targets, lengths)
    _check_labels(op, labels.data, lengths, classes, blank)
    on = log_probs.device
    counts = as_tensor(lengths, device=on)
    if total == 0:  # no frame to start in: only a sequence without labels can be
        nothing = np.where(lengths > 0, np.inf, 0.0).astype(log_probs.dtype)
        losses = log_probs.sum((0, 2)) + as_tensor(nothing, device=on)
    else:
        losses = Ctc.apply(log_probs, labels, as_tensor(frames, device=on), counts, blank=int(blank))
    if zero_infinity:
        losses = losses.masked_fill(losses == np.inf, 0.0)
    if reduction == "mean":
        losses = losses / counts.maximum(1).astype(losses.dtype)
    if single and reduction == "none":
        return losses.reshape(())
    return reduced(losses, reduction)


def _lengths(
    op: str, name: str, lengths: Tensor | Sequence[int] | int, n: int, most: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the lengths on the host, as int64 of shape (n,), after checking them."""
    given = lengths.data if isinstance(lengths, Tensor) else np.asarray(lengths)
    host = backend_of(given).to_host(given)
    if host.size and host.dtype.kind not in "iu":
        raise DTypeError(f"{op}: {name} must be integers, not {host.dtype}; cast with long()")
    if host.shape != (n,) and not (n == 1 and host.shape == ()):
        raise ShapeError(f"{op}: {name} must have shape ({n},), got {host.shape}")
    flat = host.reshape(n).astype(np.int64)
    wrong = (flat < 0) | (flat > most)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ArgumentError(f"{op}: {name}[{i}] is {flat[i]}, but must be from 0 to {most}")
    return flat


def _padded(targets: Tensor, lengths: Array) -> Tensor:
    """Return labels that lie behind each other as rows, filled up with 0."""
    widest = int(lengths.max(initial=0))
    starts = np.cumsum(lengths) - lengths
    place = starts[:, None] + np.arange(widest)
    place = np.where(np.arange(widest) < lengths[:, None], place, 0)
    if not targets.numel():
        return targets.reshape(len(lengths), 0)
    return targets[as_tensor(place, device=targets.device)]


def _check_labels(op: str, labels: Array, lengths: Array, classes: int, blank: int) -> None:
    if type(labels) is not np.ndarray:
        return
    inside = np.arange(labels.shape[1]) < lengths[:, None]
    check_classes(op, np.where(inside, labels, 0), classes)
    blanks = inside & (labels == blank)
    if blanks.any():
        row, column = np.unravel_index(int(np.argmax(blanks)), labels.shape)
        raise ArgumentError(
            f"{op}: targets must not hold blank={blank}, but label {column} of sequence {row} is it"
        )
