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
from shardwise.dtensor.rule.part import terms_along, with_outer_dim, without_dim
from shardwise.dtensor.rule.region import Linear, region
from shardwise.dtensor.rule.skip import is_outside
from shardwise.dtensor.together import raised_together, raises_together
from shardwise.tensor.joining import stack, where
from shardwise.tensor.mode import override
from shardwise.tensor.tensor import Tensor

__all__ = ["cross_entropy", "negative_likelihood", "soft_cross_entropy", "weighted_cross_entropy"]


def cross_entropy(logits: Any, target: Any, ignore_index: int) -> Any:
    """`CrossEntropy` with the classes in parts."""
    return weighted_cross_entropy(logits, target, None, ignore_index, 0.0)


def weighted_cross_entropy(logits: Any, target: Any, weight: Any, ignore_index: int, smoothing: float) -> Any:
    """`WeightedCrossEntropy` with the classes in parts."""
    x = _Scores(logits)
    labels = _Labels(x, target, ignore_index)
    weights = _everywhere(weight)
    everything = float(x.classes) if weights is None else weights.sum()

    def within(local: Any) -> Any:
        shifted = x.shifted(local)
        sums = [shifted.exp().sum(1), labels.pick(shifted)]
        if smoothing:
            sums.append((shifted if weights is None else shifted * x.own(weights)).sum(1))
        return stack(sums)

    def across(sums: Any) -> Any:
        total, picked, *rest = sums.unbind(0)
        logarithm = total.log()
        loss = logarithm - picked
        if weights is not None:
            loss = loss * weights[labels.whole]
        if smoothing:
            loss = loss * (1.0 - smoothing) + (logarithm * everything - rest[0]) * (smoothing / x.classes)
        return where(labels.counted, loss, 0.0)

    return x.per_row("CrossEntropy", [x.whole], within, 3 if smoothing else 2, across)


def soft_cross_entropy(logits: Any, target: Any, weight: Any, smoothing: float) -> Any:
    """`SoftCrossEntropy` with the classes in parts."""
    x = _Scores(logits)
    shares = target.astype(np.float32) if is_narrow(target.dtype) else target
    shares = settled(shares).placed_as(x.layout.with_dtype(shares.dtype))
    weights = _everywhere(weight)

    def within(local: Any, shares: Any) -> Any:
        if smoothing:
            shares = shares * (1.0 - smoothing) + smoothing / x.classes
        if weights is not None:
            shares = shares * x.own(weights)
        shifted = x.shifted(local)
        return stack([shifted.exp().sum(1), shares.sum(1), (shares * shifted).sum(1)])

    def across(sums: Any) -> Any:
        total, mass, score = sums.unbind(0)
        return total.log() * mass - score

    return x.per_row("SoftCrossEntropy", [x.whole, shares], within, 3, across)


def negative_likelihood(logs: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    """`NegativeLikelihood` with the classes in parts: one all-reduce."""
    x = _Scores(logs)
    labels = _Labels(x, target, ignore_index)
    weights = _everywhere(weight)

    def within(local: Any) -> Any:
        return stack([labels.pick(local)])

    def across(sums: Any) -> Any:
        loss = -sums[0]
        if weights is not None:
            loss = loss * weights[labels.whole]
        return where(labels.counted, loss, 0.0)

    return x.per_row("NegativeLikelihood", [x.whole], within, 1, across, "all")


def _everywhere(weight: Any) -> Any:
    """Return the weights of all classes as a tensor of this rank, a constant."""
    return None if weight is None else weight.placed_as(weight.layout.replicated()).to_local().detach()


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
        self.start = self.count = 0
        if not is_outside(self.layout):
            box = self.layout.box(here_of(self.layout))
            self.start, self.count = box.offset[1], box.shape[1]
        self.top: Any = None

    def shifted(self, local: Any) -> Any:
        """Return the scores less the largest of their row, which is a constant: it cancels."""
        return local - self.top

    def own(self, weights: Any) -> Any:
        """Return the weights of this rank's classes."""
        return weights[self.start : self.start + self.count]

    def per_row(
        self, name: str, inputs: list[Any], within: Any, count: int, across: Any, linear: Linear = ""
    ) -> Any:
        """Return losses of rows: `within` gives `count` sums over a rank's classes, `across` takes all sums.

        The first is a function of parts of `inputs`, the second of what all ranks have then.
        """
        if linear != "all":
            with override(grad=False):
                self.top = settled(self.whole.detach().amax(1, keepdim=True)).to_local()
        together = with_outer_dim(self.rows, count)
        sums = region(name, within, inputs, [terms_along(together, self.axes)], linear)
        return region(name, across, [sums.placed_as(together)], [self.rows], linear).astype(self.dtype)


class _Labels:
    """The labels of this rank's rows, and which of them are among its classes."""

    def __init__(self, scores: _Scores, target: Any, ignore_index: int) -> None:
        labels: Array = target.placed_as(scores.rows.with_dtype(target.dtype)).to_local().data

        def check() -> None:
            check_classes("cross_entropy", labels, scores.classes, ignore_index)

        if raises_together():
            raised_together(scores.layout.mesh, check)
        else:
            check()
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
