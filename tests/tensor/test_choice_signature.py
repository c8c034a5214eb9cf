"""Ops that give indices, counts and answers: their signatures and dry runs agree with what they do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.backend import ShapeArray
from shardwise.errors import DataDependentShapeError
from shardwise.tensor import Tensor, intercept
from shardwise.tensor.searching import bucketize, isin, searchsorted
from shardwise.tensor.signature import known_shapes

CALLS: dict[str, Any] = {
    "argmax": lambda x: x.argmax(),
    "argmin dim": lambda x: x.argmin(1, keepdim=True),
    "any": lambda x: x.any((0, 2)),
    "all": lambda x: x.all(-1, keepdim=True),
    "count_nonzero": lambda x: x.count_nonzero(0),
    "max": lambda x: x.max(1),
    "min keepdim": lambda x: x.min(-1, keepdim=True),
    "sort": lambda x: x.sort(0),
    "argsort": lambda x: x.argsort(1, descending=True),
    "topk": lambda x: x.topk(2, 1),
    "kthvalue": lambda x: x.kthvalue(2, 0),
    "median": lambda x: x.median(1),
    "nanmedian": lambda x: x.nanmedian(),
    "mode": lambda x: x.mode(-1, True),
    "cummax": lambda x: x.cummax(1),
    "searchsorted": lambda x: searchsorted(x, x[..., :2]),
    "bucketize": lambda x: bucketize(x, x[0, 0]),
    "isin": lambda x: isin(x, x[0]),
    "isin number": lambda x: isin(x, 1.0),
    "histc": lambda x: x.histc(5, -1, 1),
    "histogram": lambda x: x.histogram(3),
    "histogram weighted": lambda x: x.histogram(x[0, 0].msort(), weight=x, density=True),
    "nonzero": lambda x: x.nonzero(),
    "unique": lambda x: x.unique(dim=1, return_inverse=True, return_counts=True),
    "unique_consecutive": lambda x: x.unique_consecutive(return_inverse=True),
    "bincount": lambda x: x.argsort(1)[0, 0].bincount(),
    "bincount weighted": lambda x: x.argsort(1)[0, 0].bincount(x[0, 0]),
}
DATA_DEPENDENT = ("nonzero", "unique", "unique_consecutive", "bincount", "bincount weighted")


def several(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", CALLS)
def test_signatures_tell_the_shapes(name: str) -> None:
    seen = []

    def check(op: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        out = op.apply(*args, **params)
        shapes = tuple(np.shape(getattr(arg, "data", arg)) for arg in args if arg is not None)
        for told, real in zip(known_shapes(op, shapes, params), several(out), strict=True):
            assert len(told) == real.ndim, (op, told, real.shape)
            assert all(n in (None, m) for n, m in zip(told, real.shape, strict=True)), (op, told, real.shape)
        seen.append(op)
        return out

    with intercept(check):
        CALLS[name](sw.tensor(np.random.default_rng(6).standard_normal((2, 3, 4))))
    assert seen


@pytest.mark.parametrize("name", CALLS)
def test_dry_runs_give_the_shapes(name: str) -> None:
    array = np.random.default_rng(6).standard_normal((2, 3, 4)).astype(np.float32)
    hollow = Tensor(ShapeArray(array.shape, array.dtype))  # type: ignore[arg-type]
    if name in DATA_DEPENDENT:
        with pytest.raises(DataDependentShapeError):
            CALLS[name](hollow)
        return
    real = several(CALLS[name](sw.tensor(array)))
    for dry, expected in zip(several(CALLS[name](hollow)), real, strict=True):
        assert isinstance(dry.data, ShapeArray)
        assert (dry.shape, dry.dtype) == (expected.shape, expected.dtype)
