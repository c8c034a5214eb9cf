"""Sums, products, extremes and questions: values, dtypes, ties, empty dims, errors."""

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
from shardwise.errors import ArgumentError, DTypeError, ShapeError
from shardwise.tensor import Tensor

shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


def tracked(*values: Any, dtype: Any = np.float64) -> Tensor:
    return sw.tensor(np.array(values, dtype), requires_grad=True)


def gradient(x: Tensor) -> list[Any]:
    assert x.grad is not None
    return x.grad.tolist()  # type: ignore[no-any-return]


@settings(max_examples=60, deadline=None)
@given(shape=shapes, keepdim=st.booleans(), data=st.data())
def test_values_are_those_of_numpy(shape: tuple[int, ...], keepdim: bool, data: st.DataObject) -> None:
    array = (
        np.random.default_rng(7).integers(-3, 4, shape).astype(data.draw(st.sampled_from(["f4", "f8", "c8"])))
    )
    count = data.draw(st.integers(1, max(len(shape), 1)))
    dims = data.draw(st.permutations(range(len(shape))))[:count]
    axis: Any = (
        None
        if data.draw(st.booleans())
        else tuple(d - data.draw(st.sampled_from([0, len(shape)])) for d in dims)
    )
    x = sw.tensor(array)
    dim = None if axis == () else axis
    for name in ("sum", "prod", "any", "all"):
        expected = getattr(np, name)(array, axis=dim, keepdims=keepdim)
        actual = getattr(x, name)(dim, keepdim).data
        np.testing.assert_allclose(actual, expected, rtol=1e-5)
        assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(x.count_nonzero(dim).data, np.count_nonzero(array, axis=dim))
    reduced = math.prod(shape) if dim is None else math.prod(shape[d] for d in dim)
    mean = x.mean(dim, keepdim)
    if not reduced:
        assert np.isnan(mean.data).all()
        return
    np.testing.assert_allclose(mean.data, array.mean(axis=dim, keepdims=keepdim), rtol=1e-5)
    if array.dtype.kind == "f":
        for name in ("amax", "amin"):
            expected = getattr(np, name)(array, axis=dim, keepdims=keepdim)
            np.testing.assert_array_equal(getattr(x, name)(dim, keepdim).data, expected)


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "i4", "i8"])
def test_integers_add_up_in_int64(dtype: str) -> None:
    x = sw.tensor(np.ones((2, 3), dtype))
    for result in (x.sum(), x.sum(0), x.prod(1), x.cumsum(0), x.cumprod(1), x.nansum(), x.count_nonzero()):
        assert result.dtype == np.int64
    assert x.sum().item() == 6
    assert x.mean().dtype == np.float64  # as in NumPy
    assert x.sum(dtype=np.float32).dtype == x.mean(dtype=np.float32).dtype == np.float32
    assert x.argmax(0).dtype == np.int64
    assert x.any().dtype == x.all(1).dtype == np.bool_


def test_dtypes_are_kept() -> None:
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64):
        x = sw.tensor(np.ones((2, 3)).astype(dtype))
        for result in (x.sum(), x.mean(0), x.prod(1), x.nansum(), x.nanmean(0), x.cumsum(1), x.cumprod(0)):
            assert result.dtype == dtype
    assert sw.tensor(np.ones(4097, np.float16)).sum().item() == 4096  # the nearest of 4097 in float16
    assert sw.tensor(np.full(5000, 0.1, np.float16)).mean().item() == pytest.approx(0.1, rel=1e-3)
    many = sw.tensor(np.ones(3001).astype(ml_dtypes.bfloat16))
    assert many.mean().item() == many.nanmean().item() == 1.0


def test_reductions_of_nothing() -> None:
    x = sw.zeros(3, 0)
    assert x.sum(1).tolist() == [0.0] * 3
    assert x.prod(1).tolist() == [1.0] * 3
    assert np.isnan(x.mean(1).data).all()
    assert np.isnan(x.nanmean(1).data).all()
    assert x.all(1).tolist() == [True] * 3
    assert x.any(1).tolist() == [False] * 3
    assert x.amax(0).shape == x.max(0).indices.shape == (0,)
    for name in ("amax", "amin", "max", "min", "argmax", "argmin"):
        with pytest.raises(ShapeError) as caught:
            getattr(x, name)(1)
        assert str(caught.value) == (
            f"{name}: dim 1 of shape (3, 0) has no element to choose; reduce other dims, or leave empty "
            "tensors out"
        )
    with pytest.raises(ShapeError, match=r"amax: dim 0 of shape \(0,\) has no element"):
        sw.zeros(0).max()


def test_no_dims_at_all() -> None:
    x = tracked(2.0).reshape(())
    for name in ("sum", "mean", "prod", "amax", "amin", "any", "all", "argmax", "nansum", "nanmean"):
        for dim in (0, -1, None):
            assert getattr(x, name)(dim).shape == ()
            assert getattr(x, name)(dim, keepdim=True).shape == ()
    assert tuple(part.item() for part in x.max(0)) == (2.0, 0)
    assert tuple(part.item() for part in x.min(-1)) == (2.0, 0)
    y = tracked([1.0, 2.0])
    assert y.sum(()).item() == y.amax(()).item() + 1.0 == 3.0  # PyTorch: () is all dims
    assert np.sum(y, axis=()).shape == (1, 2)  # NumPy: () is none


def test_wrong_dims() -> None:
    x = sw.ones(2, 3)
    for name in ("sum", "mean", "prod", "amax", "any", "var", "logsumexp", "norm"):
        call = (lambda d, n=name: x.norm(dim=d)) if name == "norm" else (lambda d, n=name: getattr(x, n)(d))
        with pytest.raises(
            ShapeError, match=rf"^{name}: there is no dim 2 among 2; wanted a number from -2 to 1$"
        ):
            call(2)
        with pytest.raises(
            ShapeError, match=rf"^{name}: a dim is named twice in \(0, -2\), of 2 dims; name each"
        ):
            call((0, -2))
    with pytest.raises(ShapeError, match=r"max takes one dim, got \(0, 1\); amax takes several"):
        x.max((0, 1))  # type: ignore[call-overload]
    with pytest.raises(ShapeError, match=r"argmin: there is no dim -3 among 2"):
        x.argmin(-3)
    z = sw.tensor([1j])
    for name in ("max", "amin", "argmax", "median", "sort", "cummax"):
        with pytest.raises(
            DTypeError, match=r"complex numbers have no order, got complex64; take abs\(\) or"
        ):
            z.cummax(0) if name == "cummax" else getattr(z, name)()
    with pytest.raises(ShapeError, match=r"trace: wanted a matrix, got the shape \(1,\)"):
        z.trace()


def test_the_largest_in_all_its_forms() -> None:
    x = tracked([1.0, 3.0, 3.0], [2.0, 0.0, 2.0])
    assert x.max().item() == 3.0
    values, indices = x.max(1)
    assert (values.tolist(), indices.tolist()) == ([3.0, 2.0], [1, 0])
    named = x.min(dim=-1, keepdim=True)
    assert (named.values.shape, named.indices.tolist()) == ((2, 1), [[0], [1]])
    other = tracked([2.0, 2.0, 4.0])
    assert x.max(other).tolist() == x.max(other=other).tolist() == [[2.0, 3.0, 4.0], [2.0, 2.0, 4.0]]
    assert x.min(other).tolist() == [[1.0, 2.0, 3.0], [2.0, 0.0, 2.0]]
    low, high = x.aminmax(dim=0)
    assert (low.tolist(), high.tolist()) == ([1.0, 0.0, 2.0], [2.0, 3.0, 3.0])
    assert x.aminmax().max.item() == 3.0
    assert (x.argmax().item(), x.argmax(keepdim=True).tolist()) == (1, [[1]])
    assert x.argmin(1, keepdim=True).tolist() == [[0], [1]]
    assert x.ptp(1).tolist() == [2.0, 2.0]


def test_whom_ties_give_the_gradient() -> None:
    for call, expected in {
        "amax": (lambda x: x.amax(1), [[0.0, 0.5, 0.5]]),
        "max of all": (lambda x: x.max(), [[0.0, 0.5, 0.5]]),
        "max": (lambda x: x.max(1).values, [[0.0, 1.0, 0.0]]),
        "max of two": (lambda x: x.max(x.detach()), [[0.5, 0.5, 0.5]]),
        "cummax": (lambda x: x.cummax(1).values, [[1.0, 1.0, 1.0]]),
        "sort": (lambda x: x.sort(1, descending=True).values[:, 0], [[0.0, 1.0, 0.0]]),
        "topk": (lambda x: x.topk(1).values, [[0.0, 1.0, 0.0]]),
        "kthvalue": (lambda x: x.kthvalue(3).values, [[0.0, 1.0, 0.0]]),
        "median": (lambda x: x.median(), [[0.0, 0.5, 0.5]]),
        "median along": (lambda x: x.median(1).values, [[0.0, 1.0, 0.0]]),
        "norm": (lambda x: x.norm(math.inf), [[0.0, 0.5, 0.5]]),
    }.values():
        x = tracked([1.0, 3.0, 3.0])
        call(x).sum().backward()
        assert gradient(x) == expected
    x = tracked(math.nan, 2.0, math.nan)
    x.max().backward()
    assert gradient(x) == [0.5, 0.0, 0.5]


@pytest.mark.parametrize("zeros", [(), (1,), (0, 3), (0, 1, 2, 3)])
def test_products_with_zeros(zeros: tuple[int, ...]) -> None:
    values = np.array([2.0, -3.0, 0.5, 4.0])
    values[list(zeros)] = 0.0
    x = tracked(*values)
    x.prod().backward()
    others = [float(np.prod(np.delete(values, i))) for i in range(4)]
    assert gradient(x) == pytest.approx(others, rel=1e-14)
    x = tracked(*values)
    x.cumprod(0).sum().backward()
    running = [sum(float(np.prod(np.delete(values[:j], i))) for j in range(i + 1, 5)) for i in range(4)]
    assert gradient(x) == pytest.approx(running, rel=1e-14)
    # The Hessian of a product: the product of the others but two.
    x = tracked(*values)
    (first,) = sw.tensor.grad(x.prod(), [x], create_graph=True)
    (second,) = sw.tensor.grad(first[0], [x])
    assert second.tolist() == pytest.approx(
        [0.0] + [float(np.prod(np.delete(values, [0, j]))) for j in (1, 2, 3)]
    )


def test_products_neither_overflow_nor_vanish_in_their_gradient() -> None:
    x = tracked(1e150, 1e150, 1e-150)
    x.prod().backward()
    assert gradient(x) == pytest.approx([1.0, 1.0, 1e300])
    tiny = tracked(1e-200, 1e-200, 1e-200)
    tiny.cumprod(0)[2].backward()
    assert gradient(tiny) == [0.0, 0.0, 0.0]


def test_nan_is_left_out_where_asked() -> None:
    x = tracked([1.0, math.nan, 4.0], [math.nan] * 3)
    assert x.nansum().item() == 5.0
    means = x.nanmean(1)
    assert means[0].item() == 2.5
    assert math.isnan(means[1].item())
    (x.nansum() + means[0]).backward()
    assert gradient(x) == [[1.5, 0.0, 1.5], [0.0] * 3]
    assert sw.tensor([1, 2]).nanmean().item() == 1.5


def test_gradients_of_large_sums_are_views() -> None:
    class Seen(sw.Function):
        signature = "*"

        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a * 1.0

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            strides.append(g.strides)
            return (g,)

    strides: list[tuple[int, ...]] = []
    Seen.apply(sw.ones(128, 64, requires_grad=True)).sum().backward()
    Seen.apply(sw.ones(128, 64, requires_grad=True)).mean(1).sum().backward()
    assert strides == [(0, 0), (4, 0)]


NUMPY: dict[str, Any] = {
    "sum": lambda a: np.sum(a, axis=1, keepdims=True),
    "sum dtype": lambda a: np.sum(a, dtype=np.float64),
    "mean": lambda a: np.mean(a, (0, 1)),
    "prod": lambda a: np.prod(a, axis=(0, 1)),
    "max": lambda a: np.max(a, axis=0),
    "min": lambda a: np.min(a, keepdims=True),
    "argmax": lambda a: np.argmax(a, axis=1, keepdims=True),
    "argmin": lambda a: np.argmin(a),
    "all": lambda a: np.all(a > 0, axis=0),
    "any": lambda a: np.any(a, 1, keepdims=True),
    "count_nonzero": lambda a: np.count_nonzero(a, axis=1, keepdims=True),
    "nansum": lambda a: np.nansum(a, axis=0),
    "nanmean": lambda a: np.nanmean(a, axis=0, keepdims=True),
    "ptp": lambda a: np.ptp(a, axis=0),
    "var": lambda a: np.var(a, axis=0, ddof=1),
    "std": lambda a: np.std(a, keepdims=True),
    "median": lambda a: np.median(a, axis=1, keepdims=True),
    "nanmedian": lambda a: np.nanmedian(a, axis=0),
    "quantile": lambda a: np.quantile(a, 0.3, axis=1),
    "quantiles": lambda a: np.quantile(a, [0.2, 0.9], axis=0, keepdims=True),
    "percentile": lambda a: np.percentile(a, 30, method="lower"),
    "nanquantile": lambda a: np.nanquantile(a, 0.3, axis=1),
    "cumsum": lambda a: np.cumsum(a),
    "cumprod": lambda a: np.cumprod(a, axis=1, dtype=np.float64),
    "diff": lambda a: np.diff(a, 2, axis=1),
    "sort": lambda a: np.sort(a, axis=0),
    "sort all": lambda a: np.sort(a, axis=None),
    "argsort": lambda a: np.argsort(a, axis=1, kind="stable"),
    "nonzero": lambda a: np.nonzero(a > 0),
    "argwhere": lambda a: np.argwhere(a > 0),
    "flatnonzero": lambda a: np.flatnonzero(a > 0),
    "unique": lambda a: np.unique(a > 0, return_index=True, return_inverse=True, return_counts=True),
    "unique axis": lambda a: np.unique(a, axis=1),
    "searchsorted": lambda a: np.searchsorted(np.sort(a[0]), a, side="right"),
    "isin": lambda a: np.isin(a, a[0], invert=True),
    "histogram": lambda a: np.histogram(a, bins=5),
    "histogram density": lambda a: np.histogram(a, bins=5, range=(-1.0, 1.0), density=True),
    "trace": lambda a: np.trace(a, 1),
    "cov": lambda a: np.cov(a),
    "cov of two": lambda a: np.cov(a[0], a[1], ddof=0),
    "cov of columns": lambda a: np.cov(a, rowvar=False, bias=True),
    "corrcoef": lambda a: np.corrcoef(a),
    "trapezoid": lambda a: np.trapezoid(a, dx=0.5, axis=0),
}


WIDER = ("quantiles", "histogram density", "cov", "cov of two", "cov of columns", "corrcoef")
"""What NumPy computes of float32 in float64."""


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_s_functions_on_tensors(name: str, dtype: Any) -> None:
    array = np.random.default_rng(3).standard_normal((3, 4)).astype(dtype)
    results, expected = NUMPY[name](sw.tensor(array)), NUMPY[name](array)
    several = isinstance(expected, tuple)
    for result, reference in zip(
        results if several else [results], expected if several else [expected], strict=True
    ):
        assert isinstance(result, Tensor)
        assert result.shape == reference.shape
        assert result.dtype == reference.dtype or name in WIDER
        np.testing.assert_allclose(result.data, reference, rtol=2e-5 if dtype == np.float32 else 1e-12)


def test_what_numpy_has_and_tensors_have_not_is_refused_by_name() -> None:
    x = sw.ones(3)
    for name, option in (("sum", "where"), ("max", "initial"), ("mean", "where"), ("var", "where")):
        with pytest.raises(ArgumentError, match=rf"np\.{name} of a tensor takes no '{option}'; choose with"):
            getattr(np, name)(x, **{option: np.array([True, False, True]) if option == "where" else 1.0})
    with pytest.raises(ArgumentError, match=r"np\.sum of a tensor takes no 'out'"):
        np.sum(x, out=np.empty(()))  # type: ignore[call-overload]
    assert np.sum(x, None, None, None).item() == 3.0
    for name, call in (
        ("concatenate", lambda out: np.concatenate([x, x], out=out)),
        ("cumsum", lambda out: np.cumsum(x, out=out)),
        ("compress", lambda out: np.compress([True, False, True], x, out=out)),
        ("fft.fft", lambda out: np.fft.fft(x, out=out)),
    ):
        with pytest.raises(ArgumentError) as caught:
            call(np.zeros(6))
        assert str(caught.value) == (
            f"np.{name} of a tensor takes no 'out'; use the result, or put it into a tensor with copy_()"
        )
        assert call(None).shape[0] in (2, 3, 6)


def test_trace_and_its_gradient_on_any_diagonal() -> None:
    array = np.arange(24.0).reshape(2, 3, 4)
    x = sw.tensor(array, requires_grad=True)
    result = np.trace(x, offset=-1, axis1=2, axis2=1)
    np.testing.assert_array_equal(result.data, np.trace(array, -1, 2, 1))
    result.sum().backward()
    expected = np.zeros((2, 3, 4))
    for i in range(3):
        expected[:, i, i + 1] = 1.0
    np.testing.assert_array_equal(gradient(x), expected)
