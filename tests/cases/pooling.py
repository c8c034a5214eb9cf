"""Calls of the pooling ops, in float64, small enough for finite differences."""

from __future__ import annotations

import numpy as np

import shardwise as sw
from cases.operand import Case, make
from shardwise.nn import functional as F

__all__ = ["CASES"]

PLACES = sw.tensor(np.array([[[0, 4], [8, 5]]]))

CASES: dict[str, Case] = {
    "max_pool1d": (lambda x: F.max_pool1d(x, 2), (make(2, 2, 5),)),
    "max_pool1d overlapping": (lambda x: F.max_pool1d(x, 3, 1, 1), (make(1, 2, 5),)),
    "max_pool2d": (lambda x: F.max_pool2d(x, (2, 3), (1, 2), (1, 0), ceil_mode=True), (make(2, 2, 3, 4),)),
    "max_pool2d unbatched": (lambda x: F.max_pool2d(x.transpose(1, 2), 2), (make(2, 4, 3),)),
    "max_pool2d dilated": (lambda x: F.max_pool2d(x, 2, 1, dilation=2), (make(1, 1, 4, 4),)),
    "max_pool2d no images": (lambda x: F.max_pool2d(x, 2), (make(0, 2, 3, 4),)),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2, 1), (make(1, 1, 2, 3, 3),)),
    "max_unpool1d": (lambda x: F.max_unpool1d(x, PLACES[0, :1], 2, output_size=(5,)), (make(1, 2),)),
    "max_unpool2d": (lambda x: F.max_unpool2d(x, PLACES, 1, 2, output_size=(3, 3)), (make(1, 2, 2),)),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 3, 2, 1), (make(2, 2, 5),)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, (2, 3), (2, 1), (1, 1), True, False), (make(2, 1, 3, 4),)),
    "avg_pool2d divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), (make(1, 2, 3, 4),)),
    "avg_pool2d no images": (lambda x: F.avg_pool2d(x, 2), (make(0, 2, 3, 4),)),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2, 1), (make(1, 2, 2, 3),)),
    "lp_pool1d": (lambda x: F.lp_pool1d(x, 3, 2), (make(2, 1, 4, low=0.5),)),
    "lp_pool2d": (lambda x: F.lp_pool2d(x, 2, 2, 1), (make(1, 1, 3, 3),)),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 3), (make(2, 2, 4),)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (None, 5)), (make(1, 2, 2, 3),)),
    "adaptive_avg_pool2d whole": (lambda x: F.adaptive_avg_pool2d(x, 1), (make(1, 2, 2, 3),)),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, 2), (make(2, 3, 2, 3),)),
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x, 2), (make(2, 2, 5),)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (1, 2)), (make(1, 2, 3, 3),)),
    "adaptive_max_pool3d": (lambda x: F.adaptive_max_pool3d(x, (1, 2, None)), (make(1, 2, 3, 2),)),
}  # fmt: skip
