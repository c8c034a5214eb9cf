"""Losses of classes whose scores lie in parts: two small all-reduces forward, none backward.

Each rank knows the scores of some classes of its rows. The largest of all is agreed on first; then the sums
of exponentials, the scores of the labels and what smoothing adds go round together. The gradient of each
rank's scores needs nothing else (M. Shoeybi et al., "Megatron-LM", 2019, section 3).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.row.loss import check_classes
from shardwise.backend.kind import is_narrow
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.rule.block import here_of
from shardwise.dtensor.rule.formula import settled
from shardwise.dtensor.rule.program import added_up, local_of, whole_of, with_outer_dim, without_dim
from shardwise.dtensor.rule.skip import is_outside, skipped
from shardwise.tensor.joining import stack, where
from shardwise.tensor.mode import override
from shardwise.tensor.tensor import Tensor

__all__ = ["cross_entropy", "negative_likelihood", "soft_cross_entropy", "weighted_cross_entropy"]


def cross_entropy(logits: Any, target: Any, ignore_index: int) -> Any:
    """`CrossEntropy` with the classes in parts."""
    return weighted_cross_entropy(logits, target, None, ignore_index, 0.0)


def weighted_cross_entropy(logits: Any, target: Any, weight: Any, ignore_index: int, smoothing: float) -> Any:
    """`WeightedCrossEntropy` with the classes in parts."""
    if is_outside(logits.layout):
        return _nothing_of(logits)
    x = _Scores(logits)
    labels = _Labels(x, target, ignore_index)
    shifted = x.shifted()
    sums = [shifted.exp().sum(1), labels.pick(shifted)]
    weights = None if weight is None else weight.placed_as(weight.layout.replicated()).to_local().detach()
    if smoothing:
        sums.append((shifted if weights is None else shifted * x.own(weights)).sum(1))
    total, picked, *rest = x.added_up(sums)
    logarithm = total.log()
    loss = logarithm - picked
    if weights is not None:
        loss = loss * weights[labels.whole]
    if smoothing:
        everything = float(x.classes) if weights is None else weights.sum()
        loss = loss * (1.0 - smoothing) + (logarithm * everything - rest[0]) * (smoothing / x.classes)
    return x.per_row(where(labels.counted, loss, 0.0))


def soft_cross_entropy(logits: Any, target: Any, weight: Any, smoothing: float) -> Any:
    """`SoftCrossEntropy` with the classes in parts."""
    if is_outside(logits.layout):
        laid = settled(logits).layout.with_dtype(target.dtype)
        return _nothing_of(logits, settled(target).placed_as(laid))
    x = _Scores(logits)
    shares = target.astype(np.float32) if is_narrow(target.dtype) else target
    shares = local_of(settled(shares).placed_as(x.layout.with_dtype(shares.dtype)))
    if smoothing:
        shares = shares * (1.0 - smoothing) + smoothing / x.classes
    if weight is not None:
        shares = shares * x.own(weight.placed_as(weight.layout.replicated()).to_local().detach())
    shifted = x.shifted()
    total, mass, score = x.added_up([shifted.exp().sum(1), shares.sum(1), (shares * shifted).sum(1)])
    return x.per_row(total.log() * mass - score)


def negative_likelihood(logs: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    """`NegativeLikelihood` with the classes in parts: one all-reduce."""
    if is_outside(logs.layout):
        return _nothing_of(logs)
    x = _Scores(logs)
    labels = _Labels(x, target, ignore_index)
    (picked,) = x.added_up([labels.pick(x.local)])
    loss = -picked
    if weight is not None:
        weights = weight.placed_as(weight.layout.replicated()).to_local().detach()
        loss = loss * weights[labels.whole]
    return x.per_row(where(labels.counted, loss, 0.0))


def _nothing_of(scores: Any, *others: Any) -> Any:
    """Return what a rank outside of the mesh has of the losses of rows."""
    whole = settled(scores)
    return skipped([whole, *others], without_dim(whole.layout, 1))


class _Scores:
    """The part of rows of scores that this rank has, and what its rows share with other ranks."""

    def __init__(self, scores: Any) -> None:
        self.dtype = scores.dtype
        whole = settled(scores.astype(np.float32) if is_narrow(scores.dtype) else scores)
        self.whole = whole
        self.layout: Layout = whole.layout
        self.rows = without_dim(self.layout, 1)
        self.axes = self.layout.order[1]
        self.classes: int = whole.shape[1]
        box = self.layout.box(here_of(self.layout))
        self.start, self.count = box.offset[1], box.shape[1]
        self.local = local_of(whole)

    def shifted(self) -> Any:
        """Return the scores less the largest of their row, which is a constant: it cancels."""
        with override(grad=False):
            top = settled(self.whole.detach().amax(1, keepdim=True)).to_local()
        return self.local - top

    def own(self, weights: Any) -> Any:
        """Return the weights of this rank's classes."""
        return weights[self.start : self.start + self.count]

    def added_up(self, sums: list[Any]) -> list[Any]:
        """Return sums over all classes of sums over each rank's."""
        layout = with_outer_dim(self.rows, len(sums))
        return list(added_up(stack(sums), layout, self.axes).unbind(0))

    def per_row(self, loss: Any) -> Any:
        """Return the losses of rows as a whole."""
        return whole_of(loss, self.rows).astype(self.dtype)


class _Labels:
    """The labels of this rank's rows, and which of them are among its classes."""

    def __init__(self, scores: _Scores, target: Any, ignore_index: int) -> None:
        labels: Array = target.placed_as(scores.rows.with_dtype(target.dtype)).to_local().data
        check_classes("cross_entropy", labels, scores.classes, ignore_index)
        counted = labels != ignore_index
        whole = np.where(counted, labels, 0)
        near = whole - scores.start
        inside = np.logical_and(counted, np.logical_and(near >= 0, near < scores.count))
        self.counted, self.whole = Tensor(counted), Tensor(whole)
        self.inside, self.near = Tensor(inside), Tensor(np.where(inside, near, 0))

    def pick(self, x: Any) -> Any:
        """Return the scores of the labels that are among this rank's classes, and 0 for the others."""
        if not x.shape[1]:
            return x.sum(1)
        return where(self.inside, x.gather(1, self.near.reshape(-1, 1)).reshape(-1), 0.0)
