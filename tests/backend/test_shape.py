"""ShapeArray gives the shapes and dtypes that NumPy gives, on thousands of calls, and holds no data."""

from __future__ import annotations

import itertools
import operator
import time
import tracemalloc
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from shardwise.backend.errors import (
    DataDependentShapeError,
    DTypeError,
    IndexRangeError,
    ShapeError,
)
from shardwise.backend.names import UFUNCS
from shardwise.backend.shape import ShapeArray

DTYPES = ["?", "i1", "i4", "i8", "u1", "u8", "f2", "f4", "f8", "c8", "c16"]
dtypes = st.sampled_from(DTYPES)
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
scalars = st.sampled_from([True, 2, -1, 0.5, 1 + 2j])
UNARY = [name for name in UFUNCS if getattr(np, name).nin == 1]
BINARY = [name for name in UFUNCS if getattr(np, name).nin == 2 and name != "matmul"]


def same(result: object, expected: object) -> None:
    """Compare a result on shapes with NumPy's, through lists and tuples."""
    if isinstance(expected, list | tuple) and not isinstance(result, ShapeArray):
        assert len(result) == len(expected)
        for ours, reference in zip(result, expected, strict=True):
            same(ours, reference)
    elif isinstance(expected, np.ndarray | np.generic):
        assert isinstance(result, ShapeArray), result
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    else:
        assert result == expected


def agree(function: Callable[..., object], *args: object, **kwargs: object) -> None:
    """Call `function` with data and with shapes: both raise, or both give the same shape and dtype."""

    def on_shapes(value: object) -> object:
        if isinstance(value, np.ndarray):
            return ShapeArray(value.shape, value.dtype)
        return type(value)(map(on_shapes, value)) if type(value) in (list, tuple) else value

    with np.errstate(all="ignore"):
        try:
            expected = function(*args, **kwargs)
        except (TypeError, ValueError, IndexError, OverflowError):
            with pytest.raises((TypeError, ValueError, IndexError, OverflowError)) as caught:
                function(*map(on_shapes, args), **{k: on_shapes(v) for k, v in kwargs.items()})
            assert not isinstance(caught.value, DataDependentShapeError)
            return
    same(function(*map(on_shapes, args), **{k: on_shapes(v) for k, v in kwargs.items()}), expected)


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
    for ufunc in (np.add, np.maximum, np.logical_and):
        agree(ufunc.reduce, x, axis=axis, keepdims=keepdims)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_with_a_dtype(dtype: str) -> None:
    for name in ("sum", "prod", "mean", "cumsum"):
        agree(getattr(np, name), np.ones((2, 3), np.float32), axis=0, dtype=dtype)
    agree(np.var, np.ones((2, 3), np.float32), axis=1, ddof=1)
    agree(np.sum, np.ones((2, 3), dtype), axis=0, where=np.ones((2, 1), bool))


index_items = st.one_of(
    st.integers(-4, 4),
    st.slices(4),
    st.none(),
    st.just(...),
    hnp.arrays(
        np.int64,
        hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3),
        elements=st.integers(-4, 3),
    ),
    st.lists(st.integers(-2, 2), max_size=3),
)


@settings(max_examples=400)
@given(shape=shapes, index=st.one_of(index_items, st.lists(index_items, max_size=5).map(tuple)))
def test_indexing(shape: tuple[int, ...], index: object) -> None:
    array, shaped = np.ones(shape, np.float32), ShapeArray(shape, np.float32)
    try:
        expected = array[index]
    except (IndexError, ValueError):
        with pytest.raises((IndexError, ValueError)):
            shaped[index]
        return
    same(shaped[index], np.asarray(expected))


@settings(max_examples=300)
@given(data=st.data(), shape=hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
def test_indexing_with_shapes(data: st.DataObject, shape: tuple[int, ...]) -> None:
    arrays = hnp.array_shapes(min_dims=1, max_dims=2, max_side=3).map(lambda s: np.zeros(s, np.int32))
    choices = [st.one_of(st.just(slice(None)), st.integers(0, n - 1), arrays) for n in shape]
    items: list[object] = [data.draw(choice) for choice in choices]
    items.insert(data.draw(st.integers(0, len(items))), None)
    try:
        expected = np.ones(shape)[tuple(items)]
    except IndexError:
        assume(False)
    shaped = tuple(ShapeArray(i.shape, i.dtype) if isinstance(i, np.ndarray) else i for i in items)
    same(ShapeArray(shape, np.float64)[shaped], np.asarray(expected))


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


@settings(max_examples=200)
@given(
    shape=shapes,
    index=hnp.arrays(
        np.int64, hnp.array_shapes(min_dims=0, max_dims=3, max_side=3), elements=st.integers(-4, 3)
    ),
    axis=st.one_of(st.none(), st.integers(-4, 4)),
)
def test_take(shape: tuple[int, ...], index: np.ndarray, axis: int | None) -> None:
    x = np.ones(shape, np.float16)
    for function in (np.take, np.take_along_axis):
        try:
            expected = np.asarray(function(x, index, axis))
        except (IndexError, ValueError):
            with pytest.raises((IndexError, ValueError)):
                function(ShapeArray(shape, np.float16), index, axis)
            continue
        same(function(ShapeArray(shape, np.float16), index, axis), expected)
        same(function(ShapeArray(shape, np.float16), ShapeArray(index.shape, index.dtype), axis), expected)


def test_creation() -> None:
    like = ShapeArray((3, 2), np.float16)
    x = np.ones((3, 2), np.float16)
    same(np.zeros_like(like), np.zeros_like(x))
    same(np.ones_like(like, dtype=bool, shape=(2, 5)), np.ones_like(x, dtype=bool, shape=(2, 5)))
    same(np.empty_like(like, np.int8), np.empty_like(x, np.int8))
    same(np.full_like(like, 2.5, shape=4), np.full_like(x, 2.5, shape=4))
    same(np.zeros((2, 3), like=like), np.zeros((2, 3)))
    same(np.ones(5, np.int32, like=like), np.ones(5, np.int32))
    same(np.full((2,), 7, like=like), np.full((2,), 7))
    same(np.empty((), np.float32, like=like), np.empty((), np.float32))
    for arguments in ((5,), (2, 9), (2, 9, 3), (9, 2, -2), (0.0, 1.0, 0.3), (4, 2)):
        same(np.arange(*arguments, like=like), np.arange(*arguments))
    same(np.arange(3, dtype=np.uint64, like=like), np.arange(3, dtype=np.uint64))
    assert np.shape(like) == (3, 2)
    assert np.ndim(like) == 2
    assert np.size(like) == 6
    assert not np.iscomplexobj(like)


def test_attributes_and_methods() -> None:
    x, c = ShapeArray((2, 3, 4), np.float32), ShapeArray((2,), np.complex64)
    assert (x.ndim, x.size, x.itemsize, x.nbytes, len(x)) == (3, 24, 4, 96, 2)
    assert (x.T.shape, c.real.dtype, c.imag.dtype) == ((4, 3, 2), np.float32, np.float32)
    same(np.real(c), np.ones(2, np.float32))
    assert [part.shape for part in x] == [(3, 4), (3, 4)]
    assert x.reshape(6, -1).shape == x.reshape((6, 4)).shape == (6, 4)
    assert x.astype(np.int8).dtype == x.copy().astype("i1").dtype == np.int8
    assert x.view(np.int32).dtype == np.int32
    assert ShapeArray(3).shape == (3,)
    assert repr(x) == "ShapeArray((2, 3, 4), float32)"
    with pytest.raises(DTypeError, match=r"view: wanted a dtype of 4 bytes like float32, got float64\."):
        x.view(np.float64)
    with pytest.raises(TypeError, match="no dims"):
        len(ShapeArray(()))
    with pytest.raises(ShapeError, match=r"wanted lengths of 0 or more, got the shape \(-1, 2\)"):
        ShapeArray((-1, 2))


def test_writing_in_place_checks_shape_and_dtype() -> None:
    x = ShapeArray((2, 3), np.float32)
    before = x
    x += 1.0
    x *= ShapeArray((3,), np.float32)
    assert x is before
    x[0] = 1.0
    x[:, 1] = ShapeArray((1, 1, 2))
    with pytest.raises(ShapeError, match=r"the result has shape \(4, 2, 3\), and out has \(2, 3\)"):
        x += ShapeArray((4, 2, 3))
    with pytest.raises(DTypeError, match=r"numpy.add: the result is complex64, which does not go into out"):
        x += ShapeArray((3,), np.complex64)
    with pytest.raises(ShapeError, match=r"cannot write an array of shape \(4,\) into one of shape \(3,\)"):
        x[0] = np.ones(4)
    with pytest.raises(DataDependentShapeError, match=r"into an array with data"):
        np.exp(x, out=np.empty((2, 3), np.float32))


READS = {
    "bool(ShapeArray((1,), float32))": bool,
    "int(ShapeArray((1,), float32))": int,
    "float(ShapeArray((1,), float32))": float,
    "complex(ShapeArray((1,), float32))": complex,
    "operator.index(ShapeArray((1,), float32))": operator.index,
    "ShapeArray((1,), float32).item()": lambda x: x.item(),
    "ShapeArray((1,), float32).tolist()": lambda x: x.tolist(),
    "ShapeArray((1,), float32).nonzero()": lambda x: x.nonzero(),
    "numpy.asarray(ShapeArray((1,), float32))": np.asarray,
    "0.0 in ShapeArray((1,), float32)": lambda x: 0.0 in x,
    "numpy.nonzero": np.nonzero,
    "numpy.unique": np.unique,
    "numpy.count_nonzero": np.count_nonzero,
    "numpy.where with one argument": np.where,
    "numpy.allclose": lambda x: np.allclose(x, x),
    "numpy.repeat with a ShapeArray for its counts": lambda x: np.repeat(
        np.broadcast_to(x, (3,)), ShapeArray((3,), np.int64)
    ),
}


@pytest.mark.parametrize("operation", READS)
def test_reading_data_is_an_error_that_names_the_operation(operation: str) -> None:
    with pytest.raises(DataDependentShapeError) as caught:
        READS[operation](ShapeArray((1,), np.float32))
    assert str(caught.value) == (
        f"{operation} depends on the data of the array, and a ShapeArray holds none. Run this part on arrays "
        "with data, or write it with operations whose result has a known shape."
    )


@pytest.mark.parametrize("mask", [ShapeArray((3,), bool), np.ones(3, bool), True, [True, False, True]])
def test_masks_are_errors(mask: object) -> None:
    with pytest.raises(DataDependentShapeError, match=r"^indexing with a boolean mask: how many elements"):
        ShapeArray((3,))[mask]
    with pytest.raises(DataDependentShapeError, match=r"^indexing with a boolean mask"):
        ShapeArray((2, 3))[:, mask]


def test_errors_of_shapes() -> None:
    x = ShapeArray((2, 3), np.float32)
    with pytest.raises(ShapeError) as caught:
        x @ x
    assert str(caught.value) == (
        "matmul: cannot multiply arrays of shapes (2, 3) and (2, 3): the inner lengths differ."
    )
    with pytest.raises(IndexRangeError) as out_of_range:
        x[:, 3]
    assert str(out_of_range.value) == (
        "index 3 is out of bounds for dim 1 of an array of shape (2, 3): wanted -3 to 2."
    )
    with pytest.raises(IndexRangeError, match=r"too many indices: 3 for an array of shape \(2, 3\)"):
        x[0, 0, 0]
    with pytest.raises(TypeError, match=r"no implementation found for 'numpy.linalg.inv'"):
        np.linalg.inv(x)


def test_no_memory_and_no_time() -> None:
    x = ShapeArray((10**6, 10**6), np.float32)
    index = ShapeArray((10**5, 10**5), np.int64)
    started = time.perf_counter()
    tracemalloc.start()
    try:
        y = np.exp(x @ x.T) * 2.0
        y = np.where(np.tril(np.ones_like(y, dtype=bool)), y, -np.inf)
        parts = (
            *(np.sum(y, axis=0), np.argmax(y, axis=1), np.cumsum(y), np.sort(y), np.repeat(y, 3, 0)),
            *(
                np.concatenate([y, y]),
                np.stack([y, y]),
                np.reshape(y, (-1,)),
                np.ravel(y),
                np.tile(y, (2, 2)),
            ),
            *(
                np.take(y, index, 0),
                y[index],
                np.take_along_axis(y, index[:1, :] + x[:1, :1].astype("i8"), 1),
            ),
            *(np.pad(y, 3), np.roll(y, 5), np.clip(y, 0.0, 1.0), np.arange(10**14, like=y), np.flip(y)),
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    assert time.perf_counter() - started < 2.0  # any pass over 10**12 elements takes minutes
    assert parts[0].shape == (10**6,)
    assert parts[10].shape == (10**5, 10**5, 10**6)
