"""Cases of cross-entropy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from device_cases.case import RNG, Case, normal
from shardwise.backend.kernels.row.loss import (
    cross_entropy_and_slope,
    cross_entropy_backward,
    cross_entropy_forward,
)
from shardwise.backend.kernels.row.weighted_loss import (
    soft_cross_entropy_backward,
    soft_cross_entropy_forward,
    weighted_cross_entropy_backward,
    weighted_cross_entropy_forward,
)

__all__ = ["losses", "weighted_losses"]


def losses() -> Iterator[tuple[str, Case]]:
    for count, classes in ((5, 7), (3, 1000), (2, 4099), (40, 1), (0, 3), (6, 16)):
        name = f"{count}x{classes}"
        logits, g = 3.0 * normal(count, classes), normal(count)
        for kind in (np.int64, np.int32):
            target = RNG.integers(0, classes, count).astype(kind)
            target[1::3] = -100
            logsumexp = cross_entropy_forward.plain(logits, target, -100)[1] if count else normal(0)
            yield name, Case(cross_entropy_forward, (logits, target, -100), classes)
            yield name, Case(cross_entropy_backward, (g, logits, target, logsumexp, -100), classes)
            yield name, Case(cross_entropy_backward, (g, logits, target, None, -100), classes)
            yield name, Case(cross_entropy_and_slope, (logits, target, -100, 0.25), classes)
    labels = np.array([2, 0, -1])
    huge = np.array([[2e4, 2e4, -2e4], [0.0, -np.inf, 1.0], [np.nan, 0.0, 0.0]])
    yield "huge", Case(cross_entropy_forward, (huge, labels, -1), 3)
    shared = np.broadcast_to(np.array(0.25), 3)
    yield "shared", Case(cross_entropy_backward, (shared, normal(3, 4), labels, None, -1), 4)


def weighted_losses() -> Iterator[tuple[str, Case]]:
    for count, classes in ((5, 7), (3, 1000), (40, 1), (0, 3), (6, 16)):
        name = f"{count}x{classes}"
        logits, g, p = 3.0 * normal(count, classes), normal(count), RNG.random((count, classes))
        target = RNG.integers(0, classes, count)
        target[1::3] = -100
        for weight, smoothing in ((None, 0.1), (RNG.random(classes), 0.0), (RNG.random(classes), 0.3)):
            hard = (logits, target, weight, -100, smoothing)
            soft = (logits, p, weight, smoothing)
            yield name, Case(weighted_cross_entropy_forward, hard, classes)
            yield name, Case(soft_cross_entropy_forward, soft, classes)
            for known in (True, False):
                total = weighted_cross_entropy_forward.plain(*hard)[1] if known else None
                hard_back = (logits, g, *hard[1:3], total, *hard[3:])
                soft_back = (logits, g, *soft[1:3], total, smoothing)
                yield name, Case(weighted_cross_entropy_backward, hard_back, classes, 3.0)
                yield name, Case(soft_cross_entropy_backward, soft_back, classes, 3.0)
