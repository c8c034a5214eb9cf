"""Calls of the ordering ops, in float64, small enough for finite differences."""

from __future__ import annotations

import numpy as np

import shardwise as sw
from cases.operand import Case, make

__all__ = ["CASES"]

SHARES = np.array([0.1, 0.5, 0.85])

CASES: dict[str, Case] = {
    "sort": (lambda a: a.sort().values, (make(2, 4),)),
    "sort descending": (lambda a: a.sort(0, descending=True)[0], (make(4, 2),)),
    "sort backwards": (lambda a: a.T[::-1].sort(0).values, (make(2, 4),)),
    "sort zero-dimensional": (lambda a: a.sort().values, (make(),)),
    "sort empty": (lambda a: a.sort(1).values, (make(2, 0),)),
    "sort numpy": (lambda a: np.sort(a, axis=None), (make(2, 3),)),
    "msort": (lambda a: a.msort(), (make(4, 2),)),
    "topk": (lambda a: a.topk(2).values, (make(2, 4),)),
    "topk smallest": (lambda a: a.topk(3, 0, largest=False)[0], (make(4, 2),)),
    "topk nothing": (lambda a: a.topk(0, 0)[0], (make(4, 2),)),
    "kthvalue": (lambda a: a.kthvalue(2).values, (make(2, 4),)),
    "kthvalue keepdim": (lambda a: a.kthvalue(3, 0, True)[0], (make(4, 2),)),
    "kthvalue zero-dimensional": (lambda a: a.kthvalue(1)[0], (make(),)),
    "median": (lambda a: a.median(), (make(2, 4),)),
    "median dim": (lambda a: a.median(-1).values, (make(2, 4),)),
    "nanmedian": (lambda a: a.nanmedian(0, keepdim=True)[0], (make(3, 2),)),
    "median numpy": (lambda a: np.median(a, axis=1), (make(2, 4),)),
    "mode": (lambda a: a.mode(1).values, (make(2, 4),)),
    "quantile": (lambda a: a.quantile(0.3), (make(2, 4),)),
    "quantile dim": (lambda a: a.quantile(sw.tensor(SHARES), 1, keepdim=True), (make(2, 5),)),
    "quantile first dim": (lambda a: a.quantile(sw.tensor(SHARES), 0), (make(5, 2),)),
    "quantile lower": (lambda a: a.quantile(0.3, 1, interpolation="lower"), (make(2, 5),)),
    "quantile higher": (lambda a: a.quantile(0.3, 1, interpolation="higher"), (make(2, 5),)),
    "quantile nearest": (lambda a: a.quantile(0.3, 1, interpolation="nearest"), (make(2, 5),)),
    "quantile midpoint": (lambda a: a.quantile(0.3, 1, interpolation="midpoint"), (make(2, 5),)),
    "quantile by shares": (lambda a, q: a.quantile(q, 0), (make(5, 2), make(2, low=-0.05))),
    "quantile zero-dimensional": (lambda a: a.quantile(0.3), (make(),)),
    "nanquantile": (lambda a: a.nanquantile(0.7, -1), (make(2, 5),)),
}  # fmt: skip
