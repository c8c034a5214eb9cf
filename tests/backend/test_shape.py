"""ShapeArray gives the shapes and dtypes that NumPy gives, for every function, on thousands of calls."""

from __future__ import annotations

import itertools
import operator

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from shape_oracle import DTYPES, agree, dtypes, same, shapes
from shardwise.backend.names import UFUNCS
from shardwise.backend.shape import ShapeArray

UNARY = [name for name in UFUNCS if getattr(np, name).nin == 1]


BINARY = [name for name in UFUNCS if getattr(np, name).nin == 2 and name != "matmul"]


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", DTYPES)
def test_unary(name: str, dtype: str) -> None:
    agree(getattr(np, name), np.ones((2, 0, 3), dtype))
    agree(getattr(np, name), np.ones((2, 3), dtype))


@pytest.mark.parametrize("name", BINARY)
@settings(max_examples=40)
@given(a=shapes, b=shapes, x=dtypes, y=dtypes)
def test_binary(name: str, a: tuple[int, ...], b: tuple[int, ...], x: str, y: str) -> None:
    agree(getattr(np, name), np.ones(a, x), np.ones(b, y))


SCALARS = [True, 2, -1, 300, 0.5, 1 + 2j, np.float64(2), np.int8(3), np.array(1.5)]


# These refuse negative powers and shifts by their value, which a shape does not have.
VALUES_MATTER = ("power", "left_shift", "right_shift")


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("swapped", [False, True])
def test_scalars_are_weak_if_they_are_python_s(swapped: bool, name: str) -> None:
    ufunc = getattr(np, name)
    for scalar, dtype in itertools.product(SCALARS, DTYPES):
        arguments = [np.ones((2, 3), dtype), scalar]
        shapes = [ShapeArray((2, 3), dtype), scalar]
        if swapped:
            arguments.reverse()
            shapes.reverse()
        with np.errstate(all="ignore"):
            try:
                expected = ufunc(*arguments)
            except (TypeError, OverflowError, ValueError) as error:
                if not (name in VALUES_MATTER and isinstance(error, ValueError)):
                    with pytest.raises((TypeError, OverflowError)):
                        ufunc(*shapes)
                continue
        same(ufunc(*shapes), expected)


def test_bfloat16_promotes_as_numpy_does() -> None:
    x = np.ones((2, 3), ml_dtypes.bfloat16)
    for function in (
        lambda a: a + a,
        lambda a: a * 2.0,
        np.exp,
        lambda a: np.sum(a, axis=0),
        lambda a: a @ a.T,
    ):
        agree(function, x)


@settings(max_examples=200)
@given(a=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3), data=st.data())
def test_matmul(a: tuple[int, ...], data: st.DataObject) -> None:
    b = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3))
    if data.draw(st.booleans()) and a and b:
        b = (*b[:-2], a[-1], b[-1]) if len(b) > 1 else (a[-1],)
    x, y = data.draw(dtypes), data.draw(dtypes)
    agree(np.matmul, np.ones(a, x), np.ones(b, y))
    agree(operator.matmul, np.ones(a, x), np.ones(b, y))


axes = st.one_of(st.none(), st.integers(-4, 4), st.lists(st.integers(-3, 3), max_size=3).map(tuple))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, about empty means
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "amax", "min", "all", "any"])
@settings(max_examples=60)
@given(shape=shapes, dtype=dtypes, axis=axes, keepdims=st.booleans())
def test_reductions(
    name: str, shape: tuple[int, ...], dtype: str, axis: int | tuple[int, ...] | None, keepdims: bool
) -> None:
    agree(getattr(np, name), np.ones(shape, dtype), axis=axis, keepdims=keepdims)
    agree(getattr(np, name), np.ones(shape, dtype), axis)


@settings(max_examples=100)
@given(shape=shapes, dtype=dtypes, axis=st.one_of(st.none(), st.integers(-4, 4)), keepdims=st.booleans())
def test_reductions_along_one_dim(
    shape: tuple[int, ...], dtype: str, axis: int | None, keepdims: bool
) -> None:
    x = np.ones(shape, dtype)
    for function in (np.argmax, np.argmin):
        agree(function, x, axis=axis, keepdims=keepdims)
    for function in (np.cumsum, np.cumprod, np.sort, np.argsort):
        agree(function, x, axis=axis)
    agree(np.partition, x, 1, axis)
    for ufunc in (np.add, np.maximum, np.logical_and):
        agree(ufunc.reduce, x, axis=axis, keepdims=keepdims)


@settings(max_examples=60)
@given(shape=shapes, other=shapes, x=dtypes, y=dtypes)
def test_searches(shape: tuple[int, ...], other: tuple[int, ...], x: str, y: str) -> None:
    agree(np.searchsorted, np.ones(shape, x), np.ones(other, y), "right")
    agree(np.isin, np.ones(shape, x), np.ones(other, y), invert=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_with_a_dtype(dtype: str) -> None:
    for name in ("sum", "prod", "mean", "cumsum"):
        agree(getattr(np, name), np.ones((2, 3), np.float32), axis=0, dtype=dtype)
    agree(np.var, np.ones((2, 3), np.float32), axis=1, ddof=1)
    agree(np.sum, np.ones((2, 3), dtype), axis=0, where=np.ones((2, 1), bool))


@settings(max_examples=300)
@given(
    shape=shapes,
    lengths=st.lists(st.integers(-1, 6), max_size=4).map(tuple),
    one=st.integers(-5, 5),
    two=st.integers(-5, 5),
)
def test_views(shape: tuple[int, ...], lengths: tuple[int, ...], one: int, two: int) -> None:
    x = np.ones(shape, np.int16)
    agree(np.reshape, x, lengths)
    agree(np.reshape, x, (one,))
    agree(np.swapaxes, x, one, two)
    agree(np.moveaxis, x, one, two)
    agree(np.expand_dims, x, one)
    agree(np.expand_dims, x, (one, two))
    agree(np.squeeze, x, one)
    agree(np.squeeze, x)
    agree(np.transpose, x)
    agree(np.transpose, x, lengths)
    agree(np.broadcast_to, x, tuple(abs(n) for n in lengths))
    agree(np.flip, x, one)
    agree(np.roll, x, 2, one)
    agree(np.ravel, x)
    agree(np.tril, x)
    agree(np.triu, x, one)
    agree(np.diagonal, x)
    agree(np.split, x, max(one, 1), two)
    agree(np.repeat, x, abs(one), two)
    agree(np.repeat, x, abs(one))
    agree(np.tile, x, lengths if min(lengths, default=0) >= 0 else 2)
    agree(np.pad, x, abs(one))


@settings(max_examples=200)
@given(
    shape=shapes,
    other=shapes,
    x=dtypes,
    y=dtypes,
    axis=st.one_of(st.none(), st.integers(-4, 4)),
    data=st.data(),
)
def test_joins(
    shape: tuple[int, ...], other: tuple[int, ...], x: str, y: str, axis: int | None, data: st.DataObject
) -> None:
    if data.draw(st.booleans()):
        other = shape
    agree(np.concatenate, [np.ones(shape, x), np.ones(other, y)], axis=axis)
    if axis is not None:
        agree(np.stack, [np.ones(shape, x), np.ones(other, y)], axis=axis)
    agree(np.where, np.ones(shape, bool), np.ones(other, x), np.ones(shape, y))
    agree(np.where, np.ones(shape, bool), np.ones(other, x), 0.5)
    agree(np.where, np.ones(shape, bool), 1, 0.5)
    agree(np.clip, np.ones(shape, x), np.ones(other, y), None)
    agree(np.clip, np.ones(shape, "f4"), -1.0, 1.0)
    agree(np.result_type, np.ones(shape, x), np.ones(other, y))
