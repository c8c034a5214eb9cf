"""Indexing of ShapeArray: basic, with arrays, with shapes, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from shape_oracle import same, shapes
from shardwise.backend.errors import DataDependentShapeError, IndexRangeError, ShapeError
from shardwise.backend.shape import ShapeArray

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


def test_dots_for_no_dim_set_arrays_apart() -> None:
    array, shaped = np.ones((2, 3, 4)), ShapeArray((2, 3, 4), np.float64)
    rows = np.array([0, 1, 0])
    for index in ((slice(None), rows, ..., rows), (slice(1), 1, ..., rows), (..., rows, slice(None), 1)):
        same(shaped[index], array[index])


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


@pytest.mark.parametrize("mask", [ShapeArray((3,), bool), np.ones(3, bool), True, [True, False, True]])
def test_masks_are_errors(mask: object) -> None:
    with pytest.raises(
        DataDependentShapeError,
        match=r"^indexing with a boolean mask at \S+:\d+: how many",
    ):
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
    with pytest.raises(TypeError, match=r"no implementation found for 'numpy.interp'"):
        np.interp(x, [0.0], [1.0])
