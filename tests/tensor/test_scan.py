"""Running sums, products and extremes, differences and areas: values, dtypes, edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import integrate as scipy_integrate

import shardwise as sw
from shardwise.errors import ArgumentError, ShapeError
from shardwise.tensor import Tensor
from shardwise.tensor.integration import cumulative_trapezoid, trapezoid, trapz

NAN, INF = math.nan, math.inf


def tracked(*values: Any) -> Tensor:
    return sw.tensor(np.array(values, np.float64), requires_grad=True)


@settings(max_examples=60, deadline=None)
@given(
    shape=hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5),
    dtype=st.sampled_from(["f4", "f8", "i8", "u1", "?", "c16"]),
    data=st.data(),
)
def test_running_results_are_those_of_numpy(shape: tuple[int, ...], dtype: str, data: st.DataObject) -> None:
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    array = np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(dtype)
    x = sw.tensor(array)
    total = np.int64 if array.dtype.kind in "ub" else None
    for ours, theirs in ((x.cumsum, np.cumsum), (x.cumprod, np.cumprod)):
        result, expected = ours(dim), theirs(array, axis=dim, dtype=total)
        np.testing.assert_allclose(result.data, expected, rtol=1e-6)
        assert result.dtype == expected.dtype
    for n in (0, 1, 2):
        np.testing.assert_array_equal(x.diff(n, dim).data, np.diff(array, n, axis=dim))
    if dtype == "c16":
        return
    for method, ufunc in ((x.cummax, np.maximum), (x.cummin, np.minimum)):
        values, indices = method(dim)
        np.testing.assert_array_equal(values.data, ufunc.accumulate(array, axis=dim))
        np.testing.assert_array_equal(np.take_along_axis(array, indices.data, axis=dim), values.data)
    if array.dtype.kind == "f":
        expected = np.log(np.cumsum(np.exp(array.astype(np.float64)), axis=dim))
        np.testing.assert_allclose(x.logcumsumexp(dim).data, expected, rtol=1e-5)


def test_running_extremes_point_to_the_last_of_equals() -> None:
    x = sw.tensor([1.0, 3.0, 3.0, NAN, 2.0, NAN, 5.0])
    assert x.cummax(0).indices.tolist() == [0, 1, 2, 3, 3, 5, 5]
    assert x.cummin(0).indices.tolist() == [0, 0, 0, 3, 3, 5, 5]
    assert np.isnan(x.cummax(0).values.data[3:]).all()
    assert sw.tensor([False, True, False]).cummax(0).values.tolist() == [False, True, True]
    y = tracked(1.0, 3.0, 3.0, 2.0)
    (y.cummax(0).values * sw.tensor(np.array([1.0, 2.0, 4.0, 8.0]))).sum().backward()
    assert y.grad is not None
    assert y.grad.tolist() == [1.0, 2.0, 12.0, 0.0]


def test_long_sums_keep_their_digits() -> None:
    x = sw.ones(1 << 20) * 0.1
    exact = np.float64(np.float32(0.1)) * (1 << 20)
    assert x.cumsum(0)[-1].item() == pytest.approx(exact, rel=1e-7)
    assert x.cumsum(0).dtype == np.float32


def test_running_sums_of_exponentials_at_the_edges() -> None:
    x = tracked(-INF, -INF, 1.0, 1000.0, -INF)
    out = x.logcumsumexp(0)
    assert out.tolist() == [-INF, -INF, 1.0, 1000.0, 1000.0]
    out[2:].sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.data, [0.0, 0.0, 1.0, 2.0, 0.0])
    y = tracked(1.0, INF, 2.0)
    assert y.logcumsumexp(0).tolist() == [1.0, INF, INF]
    y.logcumsumexp(0).sum().backward()
    assert y.grad is not None
    assert (y.grad.data[0], y.grad.data[2]) == (1.0, 0.0)
    assert math.isnan(sw.tensor([NAN, 1.0]).logcumsumexp(0)[1].item())


def test_differences() -> None:
    x = sw.tensor([True, False, False])
    assert (x.diff().tolist(), x.diff().dtype) == ([True, False], np.bool_)
    y = sw.tensor([[1, 4, 9]])
    assert y.diff(prepend=sw.tensor([[0]]), append=sw.tensor([[9]])).tolist() == [[1, 3, 5, 0]]
    assert y.diff(7).shape == (1, 0)
    array = np.array([[3, 1, 2], [5, 6, 9]])
    for edges in ({"prepend": 0, "axis": 0}, {"append": 0.5}, {"prepend": array[:, :1], "append": 1, "n": 2}):
        ours, theirs = np.diff(sw.tensor(array), **edges), np.diff(array, **edges)  # type: ignore[call-overload]
        assert (ours.tolist(), ours.dtype) == (theirs.tolist(), theirs.dtype)
    with pytest.raises(ShapeError, match="diff: a tensor without dims has no neighbours"):
        sw.tensor(1.0).diff()
    with pytest.raises(ArgumentError, match="diff: n=-1; wanted 0 or more"):
        y.diff(-1)


def test_areas_are_those_of_scipy() -> None:
    rng = np.random.default_rng(4)
    y, x = rng.standard_normal((3, 5)), np.sort(rng.random(5))
    ours, places = sw.tensor(y), sw.tensor(x)
    np.testing.assert_allclose(
        trapezoid(ours, dx=0.3, dim=0).data, scipy_integrate.trapezoid(y, dx=0.3, axis=0)
    )
    np.testing.assert_allclose(trapz(ours, places).data, scipy_integrate.trapezoid(y, x))
    np.testing.assert_allclose(
        cumulative_trapezoid(ours, places).data, scipy_integrate.cumulative_trapezoid(y, x), rtol=1e-12
    )
    np.testing.assert_allclose(
        cumulative_trapezoid(ours, sw.tensor(y**2), dim=0).data,
        scipy_integrate.cumulative_trapezoid(y, y**2, axis=0),
        rtol=1e-12,
    )
    assert trapezoid(sw.tensor([1.0])).item() == trapezoid(sw.zeros(0)).item() == 0.0
    assert cumulative_trapezoid(sw.tensor([1.0])).shape == (0,)
    with pytest.raises(ShapeError) as caught:
        trapezoid(ours, sw.ones(3))
    assert str(caught.value) == (
        "trapezoid: 3 places x for the 5 samples along dim 1 of shape (3, 5); there must be one for each"
    )
    with pytest.raises(ShapeError, match="cumulative_trapezoid: a tensor without dims has no neighbours"):
        cumulative_trapezoid(sw.tensor(1.0))
