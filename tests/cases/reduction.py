"""Calls of reductions, running results and statistics, in float64, small enough for finite differences."""

from __future__ import annotations

import math

import numpy as np

import shardwise as sw
from cases.operand import Case, make
from shardwise.tensor import Tensor
from shardwise.tensor.integration import cumulative_trapezoid, trapezoid

__all__ = ["CASES"]


def at(*values: object) -> Tensor:
    """These very values, in double precision."""
    array = np.array(values)
    return sw.tensor(array if array.dtype.kind == "c" else array.astype(np.float64), requires_grad=True)


def wave(*shape: int, seed: int = 0) -> Tensor:
    """Complex numbers."""
    rng = np.random.default_rng(seed + 5)
    return sw.tensor(rng.standard_normal(shape) + 1j * rng.standard_normal(shape), requires_grad=True)


WEIGHTS = np.array([0.5, 2.0, 1.0, 1.5])

CASES: dict[str, Case] = {
    "sum": (lambda a: a.sum(), (make(2, 3),)),
    "sum dim": (lambda a: a.sum(-1), (make(2, 3, 4),)),
    "sum dims keepdim": (lambda a: a.sum((0, -1), keepdim=True), (make(2, 3, 4),)),
    "sum no dims": (lambda a: np.sum(a, axis=()), (make(2, 3),)),
    "sum zero-dimensional": (lambda a: a.sum(-1), (make(),)),
    "sum empty": (lambda a: a.sum(0), (make(0, 3),)),
    "sum backwards": (lambda a: a[::-1, ::2].T.sum(0), (make(3, 4),)),
    "nansum": (lambda a: a.nansum(1), (make(2, 3),)),
    "mean": (lambda a: a.mean(), (make(2, 3),)),
    "mean dim": (lambda a: a.mean(1), (make(2, 3, 2),)),
    "mean keepdim": (lambda a: a.mean((0, 2), True), (make(2, 3, 2),)),
    "mean zero-dimensional": (lambda a: a.mean(0), (make(),)),
    "nanmean": (lambda a: a.nanmean(-1, True), (make(2, 3),)),
    "prod": (lambda a: a.prod(), (make(2, 3),)),
    "prod dim": (lambda a: a.prod(0), (make(3, 2),)),
    "prod dims keepdim": (lambda a: a.prod((0, 2), keepdim=True), (make(2, 2, 3),)),
    "prod one zero": (lambda a: a.prod(), (at(2.0, 0.0, -3.0),)),
    "prod zeros": (lambda a: a.prod(-1), (at([0.0, 2.0, 0.0], [1.0, 0.0, 3.0], [1.0, 2.0, 3.0]),)),
    "prod zero-dimensional": (lambda a: a.prod(0), (make(),)),
    "prod empty": (lambda a: a.prod(1), (make(2, 0),)),
    "prod backwards": (lambda a: a.T[::-1].prod(1), (make(3, 2),)),
    "trace": (lambda a: a.trace(), (make(3, 4),)),
    "trace of a stack": (lambda a: np.trace(a, 1, 2, 0), (make(3, 2, 4),)),
    # extremes
    "amax": (lambda a: a.amax(1), (make(3, 4),)),
    "amax dims": (lambda a: a.amax((0, 2), keepdim=True), (make(2, 3, 2),)),
    "amax zero-dimensional": (lambda a: a.amax(0), (make(),)),
    "amax without rows": (lambda a: a.amax(1), (make(0, 3),)),
    "amin all": (lambda a: a.amin(), (make(3, 4),)),
    "aminmax": (lambda a: tuple(a.aminmax(dim=0)), (make(3, 4),)),
    "max all": (lambda a: a.max(), (make(3, 4),)),
    "max dim": (lambda a: a.max(1).values, (make(3, 4),)),
    "max keepdim": (lambda a: a.max(-2, keepdim=True)[0], (make(2, 3, 4),)),
    "max zero-dimensional": (lambda a: a.max(0).values, (make(),)),
    "max backwards": (lambda a: a.T[::-1].max(0).values, (make(3, 4),)),
    "max of two": (lambda a, b: a.max(b), (make(3, 4), make(4, seed=1))),
    "min dim": (lambda a: a.min(0).values * a.sum(0), (make(3, 4),)),
    "ptp": (lambda a: a.ptp(1), (make(3, 4),)),
    # spread
    "var": (lambda a: a.var(-1), (make(2, 4),)),
    "var all": (lambda a: a.var(), (make(2, 3),)),
    "var dims": (lambda a: a.var((0, 2), keepdim=True, correction=0), (make(2, 3, 2),)),
    "var backwards": (lambda a: a.T[::-1].var(0, unbiased=False), (make(3, 4),)),
    "var empty": (lambda a: a.var(1), (make(2, 0),)),
    "std without rows": (lambda a: a.std(1), (make(0, 3),)),
    "std": (lambda a: a.std(0), (make(4, 2),)),
    "std corrected": (lambda a: a.std(correction=1.5), (make(4),)),
    "var_mean": (lambda a: a.var_mean(1), (make(2, 4),)),
    "std_mean": (lambda a: a.std_mean((0, 1), keepdim=True), (make(2, 3),)),
    "logsumexp": (lambda a: a.logsumexp(1), (make(3, 4),)),
    "logsumexp dims": (lambda a: a.logsumexp((0, 2), keepdim=True), (make(2, 3, 2),)),
    "logsumexp zero-dimensional": (lambda a: a.logsumexp(0), (make(),)),
    "norm": (lambda a: a.norm(), (make(2, 3),)),
    "norm dim": (lambda a: a.norm(dim=1, keepdim=True), (make(2, 3),)),
    "norm 1": (lambda a: a.norm(1, 0), (make(2, 3),)),
    "norm 3": (lambda a: a.norm(3, (0, -1)), (make(2, 3),)),
    "norm 1.5": (lambda a: a.norm(1.5), (make(4),)),
    "norm inf": (lambda a: a.norm(math.inf, 1), (make(2, 3),)),
    "norm -inf": (lambda a: a.norm(-math.inf, 1), (make(2, 3),)),
    "norm -1": (lambda a: a.norm(-1.0, 1), (make(2, 3),)),
    "cov": (lambda a: a.cov(), (make(3, 4),)),
    "cov weighted": (
        lambda a: a.cov(fweights=sw.tensor([1, 2, 1, 3]), aweights=sw.tensor(WEIGHTS)),
        (make(2, 4),),
    ),
    "cov of one": (lambda a: a.cov(correction=0), (make(4),)),
    "corrcoef": (lambda a: a.corrcoef(), (make(2, 4),)),
    "trapezoid": (lambda a: trapezoid(a, dx=0.5, dim=0), (make(3, 2),)),
    "trapezoid places": (lambda a, x: trapezoid(a, x), (make(2, 3), make(3))),
    "cumulative_trapezoid": (
        lambda a, x: cumulative_trapezoid(a, x, dim=0),
        (make(3, 2), make(3, 2, seed=1)),
    ),
    # running results
    "cumsum": (lambda a: a.cumsum(0), (make(3, 2),)),
    "cumsum last": (lambda a: a[:, ::-1].cumsum(-1), (make(2, 3),)),
    "cumsum zero-dimensional": (lambda a: a.cumsum(0), (make(),)),
    "cumsum empty": (lambda a: a.cumsum(1), (make(2, 0),)),
    "cumprod": (lambda a: a.cumprod(1), (make(2, 5),)),
    "cumprod zeros": (lambda a: a.cumprod(-1), (at([2.0, 0.0, 3.0, 0.0, -1.0], [0.0, 1.0, 2.0, 3.0, 4.0]),)),
    "cumprod first dim": (lambda a: a.T.cumprod(0), (make(2, 4),)),
    "cumprod zero-dimensional": (lambda a: a.cumprod(-1), (make(),)),
    "cumprod of one": (lambda a: a.cumprod(1), (make(2, 1),)),
    "cummax": (lambda a: a.cummax(1).values, (make(2, 5),)),
    "cummin": (lambda a: a.cummin(0)[0], (make(4, 2),)),
    "logcumsumexp": (lambda a: a.logcumsumexp(1), (make(2, 4),)),
    "logcumsumexp first dim": (lambda a: a.T.logcumsumexp(0), (make(2, 3),)),
    "diff": (lambda a: a.diff(), (make(2, 4),)),
    "diff twice": (lambda a: a.diff(2, 0), (make(4, 2),)),
    "diff too often": (lambda a: a.diff(5) + 1.0, (make(2, 3),)),
    "diff prepend": (lambda a, b: a.diff(1, 1, prepend=b, append=b), (make(2, 3), make(2, 1))),
    # complex
    "complex sum": (lambda a: a.sum(0), (wave(2, 3),)),
    "complex mean": (lambda a: a.mean(), (wave(2, 3),)),
    "complex prod": (lambda a: a.prod(1), (wave(2, 3),)),
    "complex cumsum": (lambda a: a.cumsum(1), (wave(2, 3),)),
    "complex cumprod": (lambda a: a.cumprod(0), (wave(4, 2),)),
    "complex cumprod zeros": (lambda a: a.cumprod(0), (at(1.0 + 1.0j, 0.0, 2.0 - 1.0j, 0.0),)),
    "complex var": (lambda a: a.var(1), (wave(2, 3),)),
    "complex std": (lambda a: a.std(0, correction=0), (wave(3, 2),)),
    "complex norm": (lambda a: a.norm(dim=1), (wave(2, 3),)),
    "complex norm 1": (lambda a: a.norm(1), (wave(2, 3),)),
    "complex norm 3": (lambda a: a.norm(3, 0), (wave(3, 2),)),
    "complex norm inf": (lambda a: a.norm(math.inf, 0), (wave(3, 2),)),
    "complex logsumexp": (lambda a: a.logsumexp(0), (wave(3, 2),)),
    "complex trace": (lambda a: a.trace(), (wave(2, 2),)),
    "complex cov": (lambda a: a.cov(), (wave(2, 4),)),
}  # fmt: skip
