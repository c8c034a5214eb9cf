"""Calls of the normalising ops, in float64, small enough for finite differences."""

from __future__ import annotations

import shardwise as sw
from cases.operand import Case, make
from shardwise.nn import functional as F

__all__ = ["CASES"]

MEAN, VARIANCE = sw.tensor([0.5, 1.0], dtype=float), sw.tensor([2.0, 3.0], dtype=float)

CASES: dict[str, Case] = {
    "layer_norm": (lambda x, w, b: F.layer_norm(x, 4, w, b), (make(3, 4), make(4), make(4, seed=1))),
    "layer_norm plain": (lambda x: F.layer_norm(x, (2, 3)), (make(2, 2, 3),)),
    "layer_norm no shift": (lambda x, w: F.layer_norm(x, 4, w), (make(3, 4), make(4))),
    "layer_norm dims": (
        lambda x, w, b: F.layer_norm(x, (2, 3), w, b),
        (make(2, 2, 3), make(2, 3), make(2, 3, seed=1)),
    ),
    "rms_norm": (lambda x, w: F.rms_norm(x, 4, w), (make(3, 4), make(4))),
    "rms_norm plain": (lambda x: F.rms_norm(x, (2, 3), eps=0.1), (make(2, 2, 3),)),
    "rms_norm turned": (lambda x: F.rms_norm(x.T, 3), (make(3, 2),)),
    "local_response_norm": (lambda x: F.local_response_norm(x, 3, 0.5), (make(2, 4, 2),)),
    "batch_norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
        (make(3, 2, 2), make(2), make(2, seed=1)),
    ),
    "batch_norm columns": (lambda x, w: F.batch_norm(x, None, None, w, training=True), (make(4, 2), make(2))),
    "batch_norm of itself": (
        lambda x: F.batch_norm(x, None, None, x[0, :, 0], training=True, eps=0.1),
        (make(2, 2, 2),),
    ),
    "batch_norm outside training": (
        lambda x, w, b: F.batch_norm(x, MEAN, VARIANCE, w, b),
        (make(3, 2, 2), make(2), make(2, seed=1)),
    ),
    "batch_norm no rows": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
        (make(0, 2, 2), make(2), make(2, seed=1)),
    ),
    "instance_norm": (
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
        (make(2, 2, 3), make(2), make(2, seed=1)),
    ),
    "instance_norm plain": (F.instance_norm, (make(2, 2, 2, 2),)),
    "group_norm": (
        lambda x, w, b: F.group_norm(x, 2, w, b),
        (make(2, 4, 2), make(4), make(4, seed=1)),
    ),
    "group_norm plain": (lambda x: F.group_norm(x, 1, eps=0.1), (make(2, 3),)),
    "group_norm turned": (lambda x, w: F.group_norm(x.transpose(1, 2), 2, w), (make(2, 3, 2), make(2))),
}  # fmt: skip
