"""erf and scatter_add: values, dtypes, and how other kinds of arrays take part."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import special as scipy_special

from shardwise.backend import cuda
from shardwise.backend.errors import DTypeError, IndexRangeError, ShapeError
from shardwise.backend.shape import ShapeArray
from shardwise.backend.special import (
    POINTWISE,
    SPECIAL_FUNCTIONS,
    accumulate,
    combine_at,
    erf,
    polygamma,
    scatter_add,
    top_indices,
)


class Recorder:
    """A kind of array that says what it was asked."""

    def __array_special__(
        self, function: object, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        return ("asked", function, args, kwargs)


def units(dtype: type[np.floating], x: np.ndarray) -> float:
    expected = scipy_special.erf(x.astype(np.float64))
    unit = np.spacing(np.abs(expected).astype(dtype)).astype(np.float64)
    return float(np.max(np.abs(erf(x).astype(np.float64) - expected) / unit))


@pytest.mark.parametrize(("dtype", "most"), [(np.float64, 5), (np.float32, 1), (np.float16, 1)])
def test_erf_to_a_few_units_in_the_last_place(dtype: type[np.floating], most: int) -> None:
    grid = np.linspace(-7, 7, 200_001)
    small = np.logspace(-300 if dtype is np.float64 else -6 if dtype is np.float16 else -37, 0, 3001)
    assert units(dtype, np.concatenate([grid, small, -small]).astype(dtype)) <= most


def test_erf_at_the_ends() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324, 0.0, -0.0])
    result = erf(x)
    np.testing.assert_array_equal(result[:5], [np.nan, 1.0, -1.0, 1.0, -1.0])
    np.testing.assert_array_equal(np.signbit(result[6:]), [False, True])
    assert 0.0 < result[5] < 1e-323


def test_erf_keeps_floating_dtypes() -> None:
    for dtype in (np.float16, np.float32, np.float64, ml_dtypes.bfloat16):
        assert erf(np.ones(2, dtype)).dtype == dtype
    for dtype in (np.int8, np.uint64, np.bool_):
        assert erf(np.ones(2, dtype)).dtype == np.float64
    assert erf(np.zeros((0, 3), np.float32)).shape == (0, 3)
    np.testing.assert_allclose(erf(np.float64(0.5)), scipy_special.erf(0.5), rtol=1e-15)
    with pytest.raises(DTypeError) as caught:
        erf(np.ones(2, np.complex64))
    assert str(caught.value) == (
        "erf takes real numbers, and got an array of complex64. Take its .real part first."
    )


@given(rows=st.lists(st.integers(-6, 5), max_size=30), width=st.integers(0, 3))
def test_scatter_add_is_the_adjoint_of_indexing(rows: list[int], width: int) -> None:
    rng = np.random.default_rng(len(rows))
    index = np.array(rows, np.int64)
    base, updates = rng.standard_normal((6, width)), rng.standard_normal((len(rows), width))
    inner = np.vdot(scatter_add((6, width), index, updates), base)
    assert inner == pytest.approx(np.vdot(updates, base[index]), abs=1e-12)


def test_scatter_add_takes_what_indexing_takes() -> None:
    rng = np.random.default_rng(22)
    base = rng.standard_normal((4, 5, 6))
    rows, columns = np.array([0, 3, 3]), np.array([1, 1, -1])
    for index in (rows, (rows, columns), (slice(1, 3), columns), (2, rows), (rows, slice(None), columns)):
        updates = rng.standard_normal(base[index].shape)
        total = scatter_add(base.shape, index, updates)
        assert np.vdot(total, base) == pytest.approx(np.vdot(updates, base[index]), abs=1e-12)
    np.testing.assert_array_equal(
        scatter_add((3,), np.array([0, 0]), np.array([1.0, 2.0], np.float32)), [3, 0, 0]
    )
    assert scatter_add((3,), np.array([1]), np.ones(1, np.float32)).dtype == np.float32


def test_scatter_add_refuses_what_does_not_fit() -> None:
    with pytest.raises(
        IndexRangeError, match=r"the index does not fit an array of shape \(3,\): index 3 is out"
    ):
        scatter_add((3,), np.array([3]), np.ones(1))
    with pytest.raises(
        ShapeError, match=r"updates of shape \(3,\) do not broadcast to what the index selects"
    ):
        scatter_add((3,), np.array([0, 1]), np.ones(3))


def test_combining_repeats_in_order() -> None:
    base, index = np.array([2.0, 3.0, 5.0]), np.array([0, 0, 2])
    np.testing.assert_array_equal(
        combine_at(np.multiply, base, index, np.array([2.0, 3.0, 4.0])), [12, 3, 20]
    )
    np.testing.assert_array_equal(combine_at(np.maximum, base, index, np.array([9.0, 1.0, 4.0])), [9, 3, 5])
    np.testing.assert_array_equal(
        combine_at(np.minimum, base, (index,), np.array([9.0, 1.0, 4.0])), [1, 3, 4]
    )
    assert base.tolist() == [2.0, 3.0, 5.0]


def test_other_kinds_answer_for_themselves() -> None:
    array, plain = Recorder(), np.ones(2)
    assert erf(array) == ("asked", erf, (array,), {})
    assert scatter_add((3,), plain, array) == ("asked", scatter_add, ((3,), plain, array), {})
    assert scatter_add((3,), array, plain) == ("asked", scatter_add, ((3,), array, plain), {})
    with pytest.raises(DTypeError) as caught:
        erf("text")
    assert str(caught.value) == (
        "erf takes NumPy or CuPy arrays, or a type with __array_special__, and got builtins.str. Convert it "
        "with numpy.asarray."
    )


def test_shapes_know_every_special_function() -> None:
    x = ShapeArray((10**6, 10**6), np.float32)
    results = {
        **{function: function(1, x) if function is polygamma else function(x) for function in POINTWISE},
        scatter_add: scatter_add((10**9, 7), ShapeArray((5,), np.int32), ShapeArray((5, 7), np.float16)),
        accumulate: accumulate(np.maximum, x, 1),
        combine_at: combine_at(np.maximum, x, ShapeArray((5,), np.int32), ShapeArray((5, 10**6))),
        top_indices: top_indices(x, 3, 1, True),
    }
    assert set(results) == set(SPECIAL_FUNCTIONS)
    for function in POINTWISE:
        assert (results[function].shape, results[function].dtype) == (x.shape, np.float32)
    assert (results[scatter_add].shape, results[scatter_add].dtype) == ((10**9, 7), np.float16)
    assert erf(ShapeArray((2,), np.int64)).dtype == np.float64
    assert (results[accumulate].shape, results[accumulate].dtype) == (x.shape, np.float32)
    assert (results[combine_at].shape, results[combine_at].dtype) == (x.shape, np.float32)
    assert (results[top_indices].shape, results[top_indices].dtype) == ((10**6, 3), np.int64)
    with pytest.raises(
        ShapeError, match=r"cannot write an array of shape \(6, 7\) into one of shape \(5, 7\)"
    ):
        scatter_add((9, 7), ShapeArray((5,), np.int32), ShapeArray((6, 7)))


@pytest.mark.parametrize("operation", [np.maximum, np.minimum, np.logaddexp, np.add])
@given(shape=hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=9), data=st.data())
@settings(max_examples=20)
def test_running_results_are_those_of_a_loop(
    operation: np.ufunc, shape: tuple[int, ...], data: st.DataObject
) -> None:
    dim = data.draw(st.integers(0, len(shape) - 1))
    x = np.random.default_rng(sum(shape)).standard_normal(shape)
    expected = x.copy()
    moved = np.moveaxis(expected, dim, 0)
    for i in range(1, shape[dim]):
        moved[i] = operation(moved[i - 1], moved[i])
    np.testing.assert_allclose(accumulate(operation, x, dim), expected, rtol=1e-13, atol=1e-13)
    # The formula for CUDA uses nothing that NumPy lacks.
    np.testing.assert_allclose(cuda.accumulate(operation, x, dim), expected, rtol=1e-13, atol=1e-13)


@given(
    shape=hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5),
    long=st.sampled_from([1, 7, 64, 200]),
    few=st.integers(0, 12),
    largest=st.booleans(),
    distinct=st.sampled_from([2, 5, 10**6]),
    data=st.data(),
)
@settings(max_examples=100)
def test_top_indices_are_the_beginning_of_a_stable_sort(
    shape: tuple[int, ...], long: int, few: int, largest: bool, distinct: int, data: st.DataObject
) -> None:
    dim = data.draw(st.integers(0, len(shape) - 1))
    shape = (*shape[:dim], long, *shape[dim + 1 :])
    rng = np.random.default_rng(long + few)
    x = rng.integers(0, distinct, shape).astype(data.draw(st.sampled_from(["f4", "f8", "i8", "u1"])))
    if x.dtype.kind == "f" and x.size and data.draw(st.booleans()):
        x.flat[rng.integers(0, x.size)] = np.nan
    k = min(few, long)
    keys = np.where(np.isnan(x), np.inf, x) if x.dtype.kind == "f" else x.astype(np.int64)
    expected = np.argsort(-keys if largest else keys, axis=dim, kind="stable")
    expected = expected[(slice(None),) * dim + (slice(0, k),)]
    np.testing.assert_array_equal(top_indices(x, k, dim, largest), expected)
    np.testing.assert_array_equal(cuda.top_indices(x, k, dim, largest), expected)
