"""Sorting, choosing by order, telling apart, searching: values, NaN, ties, errors, arrays without data."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import shardwise as sw
from shardwise.backend import ShapeArray
from shardwise.errors import ArgumentError, DataDependentShapeError, DTypeError, ShapeError
from shardwise.tensor import Tensor, gradcheck, gradgradcheck
from shardwise.tensor.searching import bucketize, isin, searchsorted

NAN, INF = math.nan, math.inf


def tracked(*values: Any) -> Tensor:
    return sw.tensor(np.array(values, np.float64), requires_grad=True)


def lists(result: Any) -> list[Any]:
    return [part.tolist() for part in result]


@settings(max_examples=60, deadline=None)
@given(
    shape=hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5),
    dtype=st.sampled_from(["f4", "f8", "i8", "u1", "?"]),
    data=st.data(),
)
def test_orders_are_those_of_numpy(shape: tuple[int, ...], dtype: str, data: st.DataObject) -> None:
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    array = np.random.default_rng(sum(shape)).integers(0, 4, shape).astype(dtype)
    x, n = sw.tensor(array), shape[dim]
    values, indices = x.sort(dim)
    order = np.argsort(array, axis=dim, kind="stable")
    np.testing.assert_array_equal(values.data, np.sort(array, axis=dim))
    np.testing.assert_array_equal(indices.data, order)
    np.testing.assert_array_equal(x.argsort(dim).data, order)
    down = np.argsort(-array.astype(np.float64), axis=dim, kind="stable")
    np.testing.assert_array_equal(x.sort(dim, descending=True).indices.data, down)
    k = data.draw(st.integers(0, n))
    np.testing.assert_array_equal(x.topk(k, dim).indices.data, np.take(down, range(k), axis=dim))
    np.testing.assert_array_equal(x.topk(k, dim, largest=False)[1].data, np.take(order, range(k), axis=dim))
    for named, place in ((x.kthvalue(k, dim, True), k - 1) if k else (x.median(dim, True), (n - 1) // 2),):
        np.testing.assert_array_equal(named.values.data, np.take(np.sort(array, axis=dim), [place], axis=dim))
        np.testing.assert_array_equal(
            named.indices.data, np.argmax(array == named.values.data, axis=dim, keepdims=True)
        )
    most, where = x.mode(dim)
    moved = np.moveaxis(array, dim, -1).reshape(-1, n)
    for row, value, index in zip(moved, most.data.ravel(), where.data.ravel(), strict=True):
        told, counts = np.unique(row, return_counts=True)
        assert value == told[np.argmax(counts)]
        assert index == np.flatnonzero(row == value)[-1]


def test_nan_is_the_largest() -> None:
    x = sw.tensor([3.0, NAN, 1.0, 3.0])
    assert lists(x.sort())[1] == [2, 0, 3, 1]
    assert lists(x.sort(descending=True))[1] == [1, 0, 3, 2]
    assert lists(x.topk(2))[1] == [1, 0]
    assert lists(x.topk(2, largest=False)) == [[1.0, 3.0], [2, 0]]
    assert x.kthvalue(4).indices.item() == 1
    assert x.kthvalue(3).indices.item() == 0
    assert lists(x.cummax(0))[1] == [0, 1, 1, 1]
    assert lists(x.cummin(0))[1] == [0, 1, 1, 1]
    assert x.argmax().item() == x.argmin().item() == 1


def test_the_median_is_the_lower_one() -> None:
    x = sw.tensor([[4.0, 1.0, 3.0, 2.0], [1.0, NAN, 3.0, NAN], [NAN] * 4])
    assert x[0].median().item() == 2.0
    assert math.isnan(x.median().item())
    assert x.nanmedian().item() == 2.0
    values, indices = x.median(1)
    assert (values[0].item(), indices.tolist()) == (2.0, [3, 1, 0])
    assert bool(np.isnan(values.data[1:]).all())
    values, indices = x.nanmedian(1)
    assert (values.tolist()[:2], indices.tolist()) == ([2.0, 1.0], [3, 0, 0])
    assert np.median(x[0]).item() == x[0].quantile(0.5).item() == 2.5
    assert sw.tensor([5, 1, 3]).median().item() == 3
    assert math.isnan(sw.zeros(0).median().item())
    y = tracked(2.0, NAN, 2.0, 7.0)
    y.nanmedian().backward()
    assert y.grad is not None
    assert y.grad.tolist() == [0.5, 0.0, 0.5, 0.0]


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "nearest", "midpoint"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_quantiles_are_those_of_numpy(interpolation: Any, data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=6))
    dim = data.draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    keepdim = data.draw(st.booleans())
    array = np.random.default_rng(sum(shape)).standard_normal(shape)
    if data.draw(st.booleans()):
        array.flat[0] = NAN
    q = data.draw(st.sampled_from([0.0, 0.25, 0.4, 0.77, 1.0]))
    x = sw.tensor(array)
    for ours, theirs in ((x.quantile, np.quantile), (x.nanquantile, np.nanquantile)):
        if ours == x.nanquantile and np.isnan(array).all(axis=dim).any():
            continue  # NumPy warns
        expected = theirs(array, q, axis=dim, keepdims=keepdim, method=interpolation)
        np.testing.assert_allclose(
            ours(q, dim, keepdim, interpolation=interpolation).data, expected, rtol=1e-12
        )
    several = np.array([q, 0.5])
    np.testing.assert_allclose(
        x.quantile(sw.tensor(several), dim, keepdim, interpolation=interpolation).data,
        np.quantile(array, several, axis=dim, keepdims=keepdim, method=interpolation),
        rtol=1e-12,
    )


def test_quantiles_at_the_ends() -> None:
    x = sw.tensor([1.0, INF, -INF, INF])
    assert (x.quantile(1.0).item(), x.quantile(0.0).item(), x.quantile(0.9).item()) == (INF, -INF, INF)
    assert math.isnan(sw.tensor([NAN, NAN]).nanquantile(0.5).item())
    half = sw.tensor(np.arange(4001).astype(np.float16)[::-1])
    assert (half.quantile(0.5).item(), half.quantile(0.5).dtype) == (2000.0, np.float16)
    assert sw.tensor([1, 2]).quantile(0.5).dtype == np.float64
    with pytest.raises(ArgumentError, match=r"^quantile: q must be from 0 to 1, got 1\.5$"):
        x.quantile(1.5)
    with pytest.raises(
        ArgumentError, match=r"^nanquantile: interpolation='cubic'; wanted one of \('linear', "
    ):
        x.nanquantile(0.5, interpolation="cubic")  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match=r"^quantile: q is float64 and the tensor float32; bring q to that"):
        x.quantile(sw.tensor(np.array(0.5)))
    with pytest.raises(ShapeError, match=r"^quantile: q must have the shape \(\) or \(n,\), got \(1, 1\)"):
        x.quantile(sw.ones(1, 1))
    with pytest.raises(ShapeError, match=r"^quantile: dim 0 of shape \(0,\) has no element to choose"):
        sw.zeros(0).quantile(0.5)


def test_without_dims_there_is_one() -> None:
    x = sw.tensor(5.0)
    for result in (x.sort(), x.topk(1), x.kthvalue(1), x.mode(), x.median(0), x.cummax(0), x.cummin(-1)):
        assert [(part.shape, part.item()) for part in result] == [((), 5.0), ((), 0)]
    assert x.argsort().item() == 0
    assert (
        x.quantile(0.3).item() == x.cumsum(0).item() == x.logcumsumexp(0).item() == x.logsumexp(0).item() == 5
    )
    assert x.topk(0).values.shape == (0,)
    with pytest.raises(ShapeError, match="sort: there is no dim 1 among 1"):
        x.sort(1)


def test_which_k_there_are() -> None:
    x = sw.ones(2, 3)
    for k in (-1, 4):
        with pytest.raises(ArgumentError) as caught:
            x.topk(k)
        assert (
            str(caught.value) == f"topk: k={k} of the 3 elements along dim 1 of shape (2, 3); wanted 0 to 3"
        )
        with pytest.raises(ArgumentError) as caught:
            x.kthvalue(k)
        assert str(caught.value) == (
            f"kthvalue: k={k} of the 3 elements along dim 1 of shape (2, 3); wanted 1 to 3"
        )
    with pytest.raises(ShapeError, match=r"mode: dim 0 of shape \(0, 2\) has no element"):
        sw.zeros(0, 2).mode(0)


@settings(max_examples=40, deadline=None)
@given(shape=hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4), data=st.data())
def test_telling_apart(shape: tuple[int, ...], data: st.DataObject) -> None:
    array = (
        np.random.default_rng(sum(shape))
        .integers(0, 3, shape)
        .astype(data.draw(st.sampled_from(["i8", "f4"])))
    )
    dim = data.draw(st.one_of(st.none(), st.integers(0, len(shape) - 1)))
    x = sw.tensor(array)
    if dim is not None and 0 in shape:
        dim = None  # NumPy cannot tell slices without elements apart
    values, inverse, counts = np.unique(array, return_inverse=True, return_counts=True, axis=dim)
    ours = x.unique(return_inverse=True, return_counts=True, dim=dim)
    for result, expected in zip(ours, (values, inverse.reshape(ours[1].shape), counts), strict=True):
        np.testing.assert_array_equal(result.data, expected)
    np.testing.assert_array_equal(x.unique(dim=dim).data, values)
    runs, which, lengths = x.unique_consecutive(return_inverse=True, return_counts=True, dim=dim)
    whole = array.ravel() if dim is None else array
    np.testing.assert_array_equal(np.take(runs.data, which.data.ravel(), axis=dim or 0), whole)
    assert int(lengths.data.sum()) == whole.shape[dim or 0]
    steps = np.diff(runs.data, axis=dim or 0) != 0
    assert bool(np.any(steps, axis=tuple(d for d in range(steps.ndim) if d != (dim or 0))).all())


def test_telling_nan_apart_and_the_gradient() -> None:
    assert sw.tensor([NAN, 1.0, NAN]).unique().shape == (3,)  # as in PyTorch
    assert np.unique(sw.tensor([NAN, 1.0, NAN])).shape == (2,)  # as in NumPy
    x = tracked(3.0, 1.0, 3.0)
    (x.unique() * sw.tensor(np.array([10.0, 20.0]))).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [20.0, 10.0, 0.0]
    for call in (lambda a: a.unique(), lambda a: a.unique_consecutive(dim=0), lambda a: a.unique(dim=1)):
        assert gradcheck(call, (tracked([1.0, 2.0], [1.5, 0.5]),))
        assert gradgradcheck(call, (tracked([1.0, 2.0], [1.5, 0.5]),))


def test_what_is_not_zero() -> None:
    x = sw.tensor([[0.0, 2.0], [NAN, 0.0]])
    assert x.nonzero().tolist() == x.argwhere().tolist() == [[0, 1], [1, 0]]
    assert lists(x.nonzero(as_tuple=True)) == [[0, 1], [1, 0]]
    assert x[x.nonzero(as_tuple=True)].tolist()[0] == 2.0
    assert (sw.tensor(5.0).nonzero().shape, sw.tensor(0).nonzero().shape) == ((1, 0), (0, 0))
    assert lists(sw.tensor(5.0).nonzero(as_tuple=True)) == [[0]]
    assert sw.zeros(0, 3).nonzero().shape == (0, 2)
    assert x.nonzero().dtype == np.int64
    assert x.count_nonzero().item() == 2


def test_counting() -> None:
    x = sw.tensor([1, 3, 1])
    assert x.bincount().tolist() == [0, 2, 0, 1]
    assert x.bincount(minlength=6).tolist() == [0, 2, 0, 1, 0, 0]
    weights = sw.tensor([0.5, 2.0, 1.0], requires_grad=True)
    weighed = x.bincount(weights)
    assert (weighed.tolist(), weighed.dtype) == ([0.0, 1.5, 0.0, 2.0], np.float32)
    (weighed * sw.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert weights.grad is not None
    assert weights.grad.tolist() == [2.0, 4.0, 2.0]
    assert gradgradcheck(lambda w: x.bincount(w) ** 2, (tracked(0.5, 1.0, 2.0),))
    assert sw.zeros(0, dtype=np.int64).bincount(minlength=2).tolist() == [0, 0]
    for wrong, kind, message in (
        (lambda: sw.tensor([0.5]).bincount(), DTypeError, r"wanted integers of shape \(n,\), got float32 of"),
        (
            lambda: sw.tensor([[1]]).bincount(),
            ShapeError,
            r"wanted integers of shape \(n,\), got int64 of shape \(1, 1\)",
        ),
        (lambda: sw.tensor([-2]).bincount(), ArgumentError, r"wanted integers from 0 on, got -2"),
        (lambda: x.bincount(sw.ones(2)), ShapeError, r"weights of shape \(2,\) for elements of shape \(3,\)"),
        (lambda: x.bincount(minlength=-1), ArgumentError, r"minlength=-1; wanted 0 or more"),
    ):
        with pytest.raises(kind, match=rf"^bincount: {message}"):
            wrong()


def test_arrays_without_data_say_at_which_line() -> None:
    x = Tensor(ShapeArray((3,), np.int64))  # type: ignore[arg-type]
    for call in (
        lambda: x.unique(), lambda: x.nonzero(), lambda: x.argwhere(), lambda: x.bincount(),
        lambda: x.unique_consecutive(), lambda: x.unique(dim=0), lambda: np.flatnonzero(x),
    ):  # fmt: skip
        with pytest.raises(
            DataDependentShapeError, match=rf"numpy\.\w+ at {__file__}:\d+ depends on the data"
        ):
            call()
    y = Tensor(ShapeArray((5, 3), np.float32))  # type: ignore[arg-type]
    assert y.histc(4).shape == (4,)
    assert [part.shape for part in y.histogram(4)] == [(4,), (5,)]
    assert (searchsorted(y, y).shape, searchsorted(y[0], y, right=True).dtype) == ((5, 3), np.int64)
    assert isin(y, y[0]).dtype == np.bool_


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(0, 3), count=st.integers(0, 9), many=st.integers(0, 6), right=st.booleans())
def test_searching(rows: int, count: int, many: int, right: bool) -> None:
    rng = np.random.default_rng(count)
    ordered = np.sort(rng.integers(0, 6, (rows, count)), axis=-1).astype(np.float32)
    values = rng.integers(-1, 8, (rows, many)).astype(np.float32)
    side: Any = "right" if right else "left"
    found = searchsorted(sw.tensor(ordered), sw.tensor(values), right=right)
    expected = np.array([np.searchsorted(o, v, side) for o, v in zip(ordered, values, strict=True)])
    np.testing.assert_array_equal(found.data, expected.reshape(rows, many))
    assert found.dtype == np.int64
    for row in ordered:
        np.testing.assert_array_equal(
            bucketize(sw.tensor(values), sw.tensor(row), right=right).data, np.searchsorted(row, values, side)
        )


def test_searching_in_other_words() -> None:
    row = sw.tensor([1.0, 3.0, 5.0])
    assert searchsorted(row, 3).item() == 1
    assert searchsorted(row, 2.5, side="right", out_int32=True).dtype == np.int32
    unsorted, sorter = sw.tensor([5, 1, 3]), sw.tensor([1, 2, 0])
    assert searchsorted(unsorted, sw.tensor([2, 6]), sorter=sorter).tolist() == [1, 3]
    assert searchsorted(sw.tensor([1, 3, 5]), 2.5).item() == 1
    assert searchsorted(sw.tensor([[1.0, NAN]]), sw.tensor([[NAN, 2.0]])).tolist() == [[1, 1]]
    assert np.searchsorted(np.array([1.0, 3.0]), sw.tensor([2.0])).tolist() == [1]
    with pytest.raises(ArgumentError, match="side='left' and right=True say different things"):
        searchsorted(row, row, side="left", right=True)
    with pytest.raises(ArgumentError, match="side='middle'; wanted 'left' or 'right'"):
        searchsorted(row, row, side="middle")  # type: ignore[arg-type]
    with pytest.raises(
        ShapeError, match=r"rows of shape \(2, 3\) for values of shape \(3,\); all dims but the last"
    ):
        searchsorted(sw.ones(2, 3), row)
    with pytest.raises(ShapeError, match=r"sorter has the shape \(2,\); wanted that of the rows, \(3,\)"):
        searchsorted(row, row, sorter=sw.tensor([0, 1]))
    with pytest.raises(ShapeError, match="sorted_sequence has no dims"):
        searchsorted(sw.tensor(1.0), row)
    with pytest.raises(ShapeError, match=r"bucketize: boundaries must have the shape \(n,\), got \(1, 1\)"):
        bucketize(row, sw.ones(1, 1))


def test_membership() -> None:
    x = sw.tensor([[1, 2], [3, 4]])
    assert isin(x, sw.tensor([4, 1])).tolist() == [[True, False], [False, True]]
    assert isin(x, 2, invert=True).tolist() == [[True, False], [True, True]]
    assert isin(3, x).item() is True
    assert isin(x, sw.tensor([4, 1]), assume_unique=True).dtype == np.bool_
    narrow = sw.tensor(np.array([1.0, 2.0]).astype(ml_dtypes.bfloat16))
    assert isin(narrow, narrow[:1]).tolist() == [True, False]
