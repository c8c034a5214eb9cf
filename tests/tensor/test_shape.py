"""The true code on arrays without data: shapes and dtypes, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardwise as sw
from gradient_cases import CASES
from shardwise.backend import ShapeArray
from shardwise.errors import DataDependentShapeError
from shardwise.tensor import Tensor, grad

DATA_DEPENDENT = {
    *("index booleans", "index booleans and integers", "index booleans along a dim", "index one boolean"),
    *("masked_select", "assign a mask", "assign a mask, one value"),
}


def hollow(value: Any) -> Any:
    """The same tensor without its data."""
    if not isinstance(value, Tensor):
        return value
    return Tensor(ShapeArray(value.shape, value.dtype), value.requires_grad)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(set(CASES) - DATA_DEPENDENT))
def test_shapes_are_those_of_the_real_run(name: str) -> None:
    function, inputs = CASES[name]
    real, dry = function(*inputs), function(*map(hollow, inputs))
    pairs = list(zip(*((x if isinstance(x, tuple) else (x,)) for x in (real, dry)), strict=True))
    for a, b in pairs:
        assert isinstance(b.data, ShapeArray)
        assert (a.shape, a.dtype, a.requires_grad) == (b.shape, b.dtype, b.requires_grad)
    leaves = [hollow(x) for x in inputs if x.requires_grad]
    outs = function(*leaves)
    outs = list(outs) if isinstance(outs, tuple) else [outs]
    seeds = [ShapeArray(out.shape, out.dtype) for out in outs]
    for leaf, gradient in zip(leaves, grad(outs, leaves, [Tensor(s) for s in seeds]), strict=True):  # type: ignore[arg-type]
        assert isinstance(gradient.data, ShapeArray)
        assert (gradient.shape, gradient.dtype) == (leaf.shape, leaf.dtype)


@pytest.mark.parametrize("name", sorted(DATA_DEPENDENT))
def test_what_only_data_could_tell_names_the_line(name: str) -> None:
    function, inputs = CASES[name]
    leaves = list(map(hollow, inputs))
    with pytest.raises(DataDependentShapeError, match=r" at .*tests/(cases|tensor)/\w+\.py:\d+"):
        grad(function(*leaves).sum(), leaves)


def test_a_mask_without_data_has_no_shape_to_give() -> None:
    x, mask = Tensor(ShapeArray((3,), np.float32)), Tensor(ShapeArray((3,), np.bool_))  # type: ignore[arg-type]
    with pytest.raises(DataDependentShapeError):
        x[mask]
    with pytest.raises(DataDependentShapeError):
        x.sum().item()
    assert repr(x) == "tensor(..., shape=(3,), device='shape')"
    assert x.device == "shape"
    assert sw.ones_like(x).shape == (3,)
