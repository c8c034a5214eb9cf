"""Calls of the losses of classes, in float64, small enough for finite differences."""

from __future__ import annotations

import numpy as np

import shardwise as sw
from cases.operand import INDEX, TARGET, Case, make
from shardwise.nn import functional as F

__all__ = ["CASES"]

WEIGHT = sw.tensor(np.array([0.5, 2.0, 0.0, 1.0, 3.0]))
LABELS = np.array([[1, 2, 1], [3, 3, 0]])
FRAMES, LENGTHS = [6, 4], [3, 2]

CASES: dict[str, Case] = {
    "cross_entropy": (lambda x: F.cross_entropy(x, sw.tensor(TARGET)), (make(4, 5),)),
    "cross_entropy none": (lambda x: F.cross_entropy(x, sw.tensor(TARGET), reduction="none"), (make(4, 5),)),
    "cross_entropy dims": (lambda x: F.cross_entropy(x, sw.tensor(INDEX), reduction="sum"), (make(2, 4, 3),)),
    "cross_entropy of one": (lambda x: F.cross_entropy(x, sw.tensor(2)), (make(5),)),
    "cross_entropy of nothing": (
        lambda x: F.cross_entropy(x, sw.tensor(TARGET[:0]), reduction="sum"),
        (make(0, 5),),
    ),
    "cross_entropy strided": (lambda x: F.cross_entropy(x.T[::-1], sw.tensor(TARGET)), (make(5, 4),)),
    "cross_entropy weight": (lambda x: F.cross_entropy(x, sw.tensor(TARGET), WEIGHT), (make(4, 5),)),
    "cross_entropy smooth": (
        lambda x: F.cross_entropy(x, sw.tensor(TARGET), label_smoothing=0.2, reduction="none"),
        (make(4, 5),),
    ),
    "cross_entropy smooth weight": (
        lambda x: F.cross_entropy(x, sw.tensor(INDEX), WEIGHT[:4], label_smoothing=0.2),
        (make(2, 4, 3),),
    ),
    "cross_entropy probabilities": (F.cross_entropy, (make(4, 5), make(4, 5, seed=1))),
    "cross_entropy probabilities weight": (
        lambda x, p: F.cross_entropy(x, p, WEIGHT[:4], reduction="none", label_smoothing=0.1),
        (make(2, 4, 3), make(2, 4, 3, low=0.0)),
    ),
    "cross_entropy probability": (F.cross_entropy, (make(5), make(5, low=0.0))),
    "cross_entropy itself": (lambda x: F.cross_entropy(x, x), (make(2, 3),)),
    "nll": (lambda x: F.nll_loss(x, sw.tensor(TARGET)), (make(4, 5),)),
    "nll weight dims": (
        lambda x: F.nll_loss(x, sw.tensor(INDEX), WEIGHT[:4], reduction="none"),
        (make(2, 4, 3),),
    ),
    "nll of one": (lambda x: F.nll_loss(x, sw.tensor(2)), (make(5),)),
    "multi_margin": (lambda x: F.multi_margin_loss(x, sw.tensor([1, 0, 3])), (make(3, 4),)),
    "multi_margin squared": (
        lambda x: F.multi_margin_loss(x, sw.tensor([1, 0, 3]), 2, 0.7, WEIGHT[:4], reduction="none"),
        (make(3, 4),),
    ),
    "multi_margin of one": (lambda x: F.multi_margin_loss(x, sw.tensor(1)), (make(4),)),
    "multilabel_margin": (
        lambda x: F.multilabel_margin_loss(x, sw.tensor([[1, 3, -1, 0], [-1, 0, 0, 0]]), reduction="none"),
        (make(2, 4),),
    ),
    "multilabel_margin of one": (
        lambda x: F.multilabel_margin_loss(x, sw.tensor([1, 3, -1, 0])),
        (make(4),),
    ),
    "ctc": (
        lambda x: F.ctc_loss(x.log_softmax(-1), sw.tensor(LABELS), FRAMES, LENGTHS, reduction="none"),
        (make(6, 2, 4),),
    ),
    "ctc itself": (lambda x: F.ctc_loss(x, sw.tensor(LABELS), FRAMES, LENGTHS), (make(6, 2, 4),)),
    "ctc one sequence": (lambda x: F.ctc_loss(x, sw.tensor([1, 1]), 4, 2, blank=2), (make(4, 3),)),
    "ctc no labels": (
        lambda x: F.ctc_loss(x, sw.zeros(2, 0, dtype=np.int64), [3, 2], [0, 0]),
        (make(3, 2, 2),),
    ),
    "ctc no fit": (
        lambda x: F.ctc_loss(x, sw.tensor(LABELS), [2, 4], [3, 2], zero_infinity=True, reduction="sum"),
        (make(4, 2, 4),),
    ),
}  # fmt: skip
