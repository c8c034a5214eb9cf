"""Calls of losses of numbers, likelihoods, pairs and distances, small enough for finite differences."""

from __future__ import annotations

import numpy as np

import shardwise as sw
from cases.operand import Case, make
from shardwise.nn import functional as F

__all__ = ["CASES"]

SIGN = sw.tensor(np.array([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]]))
PAIR = (make(2, 3), make(2, 3, seed=1))
TRIPLET = (*PAIR, make(2, 3, seed=2))
POSITIVE = make(2, 3, low=0.2)
LOGITS = (make(2, 3), make(2, 3, low=0.0))

CASES: dict[str, Case] = {
    "mse": (F.mse_loss, PAIR),
    "mse none": (lambda x, t: F.mse_loss(x, t, reduction="none"), PAIR),
    "mse itself": (lambda x: F.mse_loss(x, x), (make(2, 3),)),
    "mse of a number": (F.mse_loss, (make(), make(seed=1))),
    "mse of nothing": (lambda x, t: F.mse_loss(x, t, reduction="sum"), (make(0, 3), make(0, 3))),
    "mse strided": (lambda x, t: F.mse_loss(x.T[::-1], t), (make(3, 4), make(4, 3))),
    "mse weighted": (lambda x, t, w: F.mse_loss(x, t, "mean", w), (*PAIR, POSITIVE)),
    "l1": (F.l1_loss, PAIR),
    "l1 weighted": (lambda x, t, w: F.l1_loss(x, t, "sum", w), (*PAIR, POSITIVE)),
    "smooth_l1": (F.smooth_l1_loss, PAIR),
    "smooth_l1 beta": (lambda x, t: F.smooth_l1_loss(x, t, "none", 0.4), PAIR),
    "smooth_l1 no beta": (lambda x, t: F.smooth_l1_loss(x, t, "sum", 0.0), PAIR),
    "huber": (lambda x, t: F.huber_loss(x, t, "none", 0.4), PAIR),
    "huber weighted": (lambda x, t, w: F.huber_loss(x, t, delta=2.0, weight=w), (*PAIR, POSITIVE)),
    "bce": (lambda x, t: F.binary_cross_entropy(x.sigmoid(), t), LOGITS),
    "bce weighted": (
        lambda x, t, w: F.binary_cross_entropy(x.sigmoid(), t, w, "none"),
        (*LOGITS, make(3, low=0.5)),
    ),
    "bce logits": (F.binary_cross_entropy_with_logits, LOGITS),
    "bce logits weighted": (
        lambda x, t, w, p: F.binary_cross_entropy_with_logits(x, t, w, "none", p),
        (*LOGITS, make(2, 1, low=0.5), make(3, low=0.5)),
    ),
    "bce logits at zero": (
        F.binary_cross_entropy_with_logits,
        (sw.tensor(np.zeros(3), requires_grad=True), make(3, low=0.0)),
    ),
    "bce logits positive at zero": (
        lambda x, t, p: F.binary_cross_entropy_with_logits(x, t, pos_weight=p),
        (sw.tensor(np.zeros(3), requires_grad=True), make(3, low=0.0), make(3, low=0.5)),
    ),
    "kl": (F.kl_div, (make(2, 3), POSITIVE)),
    "kl batchmean": (lambda x, t: F.kl_div(x, t, "batchmean"), (make(2, 3), POSITIVE)),
    "kl log": (lambda x, t: F.kl_div(x, t, "none", log_target=True), PAIR),
    "poisson": (F.poisson_nll_loss, (make(2, 3), POSITIVE)),
    "poisson full": (lambda x, t: F.poisson_nll_loss(x, t * 3.0, full=True), (make(2, 3), POSITIVE)),
    "poisson counts": (
        lambda x, t: F.poisson_nll_loss(x, t * 3.0, log_input=False, full=True, reduction="none"),
        (POSITIVE, make(2, 3, seed=1, low=0.2)),
    ),
    "gaussian": (F.gaussian_nll_loss, (*PAIR, POSITIVE)),
    "gaussian column": (
        lambda x, t, v: F.gaussian_nll_loss(x, t, v, full=True, reduction="none"),
        (*PAIR, make(2, 1, low=0.5)),
    ),
    "gaussian rows": (F.gaussian_nll_loss, (*PAIR, make(2, low=0.5))),
    "gaussian one": (lambda x, t: F.gaussian_nll_loss(x, t, 0.7), PAIR),
    "hinge": (lambda x: F.hinge_embedding_loss(x, SIGN, 0.7), (make(2, 3),)),
    "soft_margin": (lambda x: F.soft_margin_loss(x, SIGN, "none"), (make(2, 3),)),
    "soft_margin target": (F.soft_margin_loss, PAIR),
    "multilabel_soft_margin": (F.multilabel_soft_margin_loss, (*LOGITS, make(3, low=0.5))),
    "margin_ranking": (lambda x, y: F.margin_ranking_loss(x, y, SIGN, 0.3, "none"), PAIR),
    "margin_ranking broadcast": (lambda x, y: F.margin_ranking_loss(x, y, SIGN), (make(2, 1), make(1, 3))),
    "cosine_embedding": (lambda x, y: F.cosine_embedding_loss(x, y, SIGN[:, 0], -0.9), PAIR),
    "cosine_embedding of one": (
        lambda x, y: F.cosine_embedding_loss(x, y, SIGN[0, 0]),
        (make(3), make(3, seed=1)),
    ),
    "triplet": (F.triplet_margin_loss, TRIPLET),
    "triplet swap": (
        lambda a, p, n: F.triplet_margin_loss(a, p, n, 9.0, 3.0, swap=True, reduction="none"),
        TRIPLET,
    ),
    "triplet distance": (
        lambda a, p, n: F.triplet_margin_with_distance_loss(
            a, p, n, distance_function=lambda x, y: 1.0 - F.cosine_similarity(x, y, -1), swap=True
        ),
        TRIPLET,
    ),
    "normalize": (F.normalize, (make(2, 3),)),
    "normalize dim": (lambda x: F.normalize(x, 3.0, 0), (make(2, 3),)),
    "cosine_similarity": (F.cosine_similarity, PAIR),
    "cosine_similarity broadcast": (
        lambda x, y: F.cosine_similarity(x, y, -1),
        (make(2, 1, 3), make(4, 3)),
    ),
    "cosine_similarity itself": (lambda x: F.cosine_similarity(x, x, 0), (make(2, 3),)),
    "pairwise_distance": (F.pairwise_distance, PAIR),
    "pairwise_distance of ones": (
        lambda x, y: F.pairwise_distance(x, y, 1.0, keepdim=True),
        (make(2, 1, 3), make(4, 3)),
    ),
}  # fmt: skip
