"""Pooling against loops over windows, and what it does with ties, NaN, padding and odd sizes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardwise as sw
from shardwise import nn
from shardwise.backend import plain_formulas
from shardwise.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from shardwise.nn import functional as F
from shardwise.tensor import grad
from tolerance import assert_near

RNG = np.random.default_rng(0)
MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVERAGE = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
ADAPTIVE = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
ADAPTIVE_MAX = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def count(n: int, k: int, s: int, p: int, d: int, ceil: bool) -> int:
    """How many windows there are: those that start in front of the end of input and front padding."""
    if ceil:
        return len(
            [o for o in range(n + 2 * p) if o * s < n + p and o * s <= n + 2 * p - d * (k - 1) - 1 + s - 1]
        )
    return (n + 2 * p - d * (k - 1) - 1) // s + 1


def windows(
    x: np.ndarray, k: tuple[int, ...], s: tuple[int, ...], p: tuple[int, ...], d: tuple[int, ...], ceil: bool
) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]], int]]:
    """Each output place with the input places it sees, and how many it would with the padding."""
    size = x.shape[2:]
    counts = [count(*each, ceil) for each in zip(size, k, s, p, d, strict=True)]
    for place in np.ndindex(*counts):
        dims = [
            [o * step - pad + tap * gap for tap in range(taps)]
            for o, step, pad, gap, taps in zip(place, s, p, d, k, strict=True)
        ]
        padded = math.prod(sum(at < n + pad for at in dim) for dim, n, pad in zip(dims, size, p, strict=True))
        seen = [
            at for at in itertools.product(*dims) if all(0 <= i < n for i, n in zip(at, size, strict=True))
        ]
        yield place, seen, padded


CONFIGURATIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 8), (2,), {}),
    ((1, 2, 7), (3,), {"stride": 2, "padding": 1}),
    ((1, 2, 7), (3,), {"stride": 2, "ceil_mode": True}),
    ((2, 1, 6), (2,), {"stride": 3, "ceil_mode": True, "padding": 1}),
    ((2, 2, 6, 5), (2, 2), {}),
    ((1, 2, 6, 7), (3, 2), {"stride": (1, 2), "padding": (1, 0), "ceil_mode": True}),
    ((1, 1, 5, 5), (5, 5), {"stride": 1, "padding": 2}),
    ((1, 2, 4, 5, 3), (2, 3, 1), {"stride": (1, 2, 2), "padding": (1, 1, 0), "ceil_mode": True}),
    ((0, 2, 4, 4), (2, 2), {}),
]


def whole(kernel: tuple[int, ...], options: dict[str, Any]) -> tuple[Any, ...]:
    ndim = len(kernel)
    values = [options.get("stride", kernel), options.get("padding", 0), options.get("dilation", 1)]
    return (*((v,) * ndim if isinstance(v, int) else v for v in values), options.get("ceil_mode", False))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize(
    ("shape", "kernel", "options"),
    [
        *CONFIGURATIONS,
        ((1, 2, 8), (2,), {"dilation": 3}),
        ((1, 1, 7, 6), (2, 3), {"dilation": 2, "stride": 1}),
    ],
)
def test_max_pool(
    shape: tuple[int, ...], kernel: tuple[int, ...], options: dict[str, Any], dtype: type[np.generic]
) -> None:
    x = np.round(RNG.standard_normal(shape) * 3).astype(dtype)  # with ties
    s, p, d, ceil = whole(kernel, options)
    for formulas in ("fused", "plain"):
        if formulas == "plain":
            with plain_formulas():
                out, places = MAX[len(kernel)](sw.tensor(x), kernel, return_indices=True, **options)
        else:
            out, places = MAX[len(kernel)](sw.tensor(x), kernel, return_indices=True, **options)
        assert (out.dtype, places.dtype, out.shape) == (dtype, np.int64, places.shape)
        for place, seen, _ in windows(x, kernel, s, p, d, ceil):
            key = (slice(None), slice(None), *place)
            values = np.stack([x[(slice(None), slice(None), *at)] for at in seen])
            np.testing.assert_array_equal(out.numpy()[key], values.max(0))
            flat = np.array([np.ravel_multi_index(at, shape[2:]) for at in seen])
            np.testing.assert_array_equal(places.numpy()[key], flat[values.argmax(0)])
    alone = MAX[len(kernel)](sw.tensor(x), kernel, **options)
    np.testing.assert_array_equal(alone.numpy(), out.numpy())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize(("shape", "kernel", "options"), CONFIGURATIONS)
def test_avg_pool(
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    options: dict[str, Any],
    counted: bool,
    dtype: type[np.floating],
) -> None:
    x = RNG.standard_normal(shape).astype(dtype)
    s, p, d, ceil = whole(kernel, options)
    pool = AVERAGE[len(kernel)]
    out = pool(sw.tensor(x), kernel, count_include_pad=counted, **options)
    with plain_formulas():
        assert_near(
            pool(sw.tensor(x), kernel, count_include_pad=counted, **options),
            out.numpy().astype(np.float64),
            9,
        )
    want = np.zeros(out.shape)
    for place, seen, padded in windows(x, kernel, s, p, d, ceil):
        values = sum(x[(slice(None), slice(None), *at)].astype(np.float64) for at in seen)
        want[(slice(None), slice(None), *place)] = values / (padded if counted else len(seen))
    assert_near(out, want, math.prod(kernel))
    assert out.dtype == dtype


def test_the_divisor_can_be_chosen() -> None:
    x = RNG.standard_normal((2, 4, 4))
    sums = F.avg_pool2d(sw.tensor(x), 2, divisor_override=1)
    assert_near(sums, x.reshape(2, 2, 2, 2, 2).sum((2, 4)), 4)
    assert_near(nn.AvgPool2d(2, divisor_override=-2)(sw.tensor(x)), -sums.numpy() / 2, 4)
    assert message(ArgumentError, lambda: F.avg_pool2d(sw.tensor(x), 2, divisor_override=0)) == (
        "avg_pool2d: divisor_override must not be 0; leave it out to divide by the counts"
    )


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_adaptive_pooling(data: st.DataObject) -> None:
    ndim = data.draw(st.integers(1, 3))
    sizes = tuple(data.draw(st.integers(1, 7)) for _ in range(ndim))
    outs = tuple(data.draw(st.none() | st.integers(1, 8)) for _ in range(ndim))
    x = RNG.standard_normal((2, 1, *sizes))
    mean = ADAPTIVE[ndim](sw.tensor(x), outs).numpy()
    largest, places = ADAPTIVE_MAX[ndim](sw.tensor(x), outs, return_indices=True)
    shape = tuple(n if m is None else m for n, m in zip(sizes, outs, strict=True))
    assert mean.shape == largest.shape == (2, 1, *shape)
    for place in np.ndindex(*shape):
        window = tuple(
            slice(math.floor(o * n / m), math.ceil((o + 1) * n / m))
            for o, n, m in zip(place, sizes, shape, strict=True)
        )
        part = x[(slice(None), slice(None), *window)].reshape(2, -1)
        np.testing.assert_allclose(mean[(slice(None), 0, *place)], part.mean(1), rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(largest.numpy()[(slice(None), 0, *place)], part.max(1))
    flat = np.take_along_axis(x.reshape(2, 1, -1), places.numpy().reshape(2, 1, -1), 2)
    np.testing.assert_array_equal(flat.reshape(largest.shape), largest.numpy())


def test_of_equals_the_first_gets_the_gradient() -> None:
    x = sw.tensor([[[1.0, 3.0, 3.0, 2.0]]], requires_grad=True)
    F.max_pool1d(x, 2, 1).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[[0.0, 2.0, 1.0, 0.0]]]
    image = sw.tensor([[[[0.0, 1.0], [1.0, 0.0]]]], requires_grad=True)
    F.max_pool2d(image, 2).sum().backward()
    assert image.grad is not None
    assert image.grad.tolist() == [[[[0.0, 1.0], [0.0, 0.0]]]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_is_larger_than_all_else(dtype: type[np.floating]) -> None:
    x = np.array([[[1.0, np.nan, np.inf, 0.0, np.nan, np.nan], [-np.inf] * 6]], dtype)
    for formulas in ("fused", "plain"):
        if formulas == "plain":
            with plain_formulas():
                out, places = F.max_pool1d(sw.tensor(x), 2, return_indices=True)
        else:
            out, places = F.max_pool1d(sw.tensor(x), 2, return_indices=True)
        np.testing.assert_array_equal(out.numpy()[0, 0], [np.nan, np.inf, np.nan])
        assert places.tolist() == [[[1, 2, 4], [0, 2, 4]]]
        np.testing.assert_array_equal(out.numpy()[0, 1], -np.inf)
    assert np.isnan(F.avg_pool1d(sw.tensor(x[:, :1]), 2).numpy()[0, 0, [0, 2]]).all()


def test_gradients_of_overlapping_windows_add_up() -> None:
    x = sw.ones(1, 1, 4, 4, dtype=np.float64, requires_grad=True)
    (dx,) = grad([F.avg_pool2d(x, 3, 1, 1)], [x], [sw.ones(1, 1, 4, 4, dtype=np.float64)])
    per_dim = np.array([2, 3, 3, 2]) / 3
    assert_near(dx, np.multiply.outer(per_dim, per_dim)[None, None], 9)


def test_power_means() -> None:
    x = np.abs(RNG.standard_normal((2, 3, 7)))
    assert_near(F.lp_pool1d(sw.tensor(x), 3, 2), ((x[..., 0:6:2] ** 3 + x[..., 1:7:2] ** 3) ** (1 / 3)), 2)
    short = F.lp_pool1d(sw.tensor(x), 2, 2, ceil_mode=True).numpy()[..., -1]
    np.testing.assert_allclose(short, np.sqrt(2) * x[..., -1], rtol=1e-12)  # by its mean
    zeros = sw.zeros(1, 1, 2, 2, requires_grad=True)
    F.lp_pool2d(zeros, 2, 2).sum().backward()
    assert zeros.grad is not None
    assert zeros.grad.tolist() == [[[[0.0, 0.0], [0.0, 0.0]]]]
    volume = np.abs(RNG.standard_normal((1, 2, 2, 2)))
    assert_near(nn.LPPool3d(1, 2)(sw.tensor(volume)), volume.sum((1, 2, 3), keepdims=True), 8)
    assert nn.LPPool2d(2, 3, stride=2)(sw.ones(1, 7, 7)).shape == (1, 3, 3)
    assert message(ArgumentError, lambda: F.lp_pool1d(sw.ones(1, 4), 0, 2)) == (
        "lp_pool1d: norm_type must not be 0, got 0"
    )


def test_unpooling_puts_maxima_back() -> None:
    x = RNG.standard_normal((2, 3, 5, 6))
    pool, unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)
    values, places = pool(sw.tensor(x))
    back = unpool(values, places, output_size=(5, 6)).numpy()
    assert back.shape == x.shape
    hit = back != 0
    np.testing.assert_array_equal(back[hit], x[hit])
    assert hit.sum() == values.numel()
    assert unpool(values, places).shape == (2, 3, 4, 6)
    line, at = F.max_pool1d(sw.tensor([[1.0, 5.0, 2.0]]), 2, 1, return_indices=True)
    assert F.max_unpool1d(line, at, 2, 1).tolist() == [[0.0, 5.0, 0.0]]  # not twice 5
    cube, at = F.max_pool3d(sw.tensor(x), 1, return_indices=True)
    assert_near(nn.MaxUnpool3d(1)(cube, at), x)
    assert message(ShapeError, lambda: unpool(values, places, output_size=(6, 6))) == (
        "max_unpool2d: output_size must be (4, 6), give or take less than the stride (2, 2); got (6, 6)"
    )
    assert message(DTypeError, lambda: unpool(values, values)) == (
        "max_unpool2d: indices must be integers of the input's shape (2, 3, 2, 3), got float64 of shape "
        "(2, 3, 2, 3)"
    )
    with pytest.raises(IndexRangeError, match="out of range"):
        F.max_unpool1d(sw.ones(1, 2), sw.tensor([[0, 9]]), 2)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats(dtype: type[np.generic]) -> None:
    x = RNG.standard_normal((1, 2, 6, 6)).astype(dtype)
    largest = F.max_pool2d(sw.tensor(x), 2)
    assert largest.dtype == dtype
    blocks = x.reshape(1, 2, 3, 2, 3, 2).astype(np.float64)
    np.testing.assert_array_equal(largest.numpy().astype(np.float64), blocks.max((3, 5)))
    mean = F.adaptive_avg_pool2d(sw.tensor(x), 1)
    assert mean.dtype == dtype
    assert_near(mean, x.astype(np.float64).mean((2, 3), keepdims=True))


def test_without_a_batch_and_in_any_layout() -> None:
    x = RNG.standard_normal((4, 6, 3))
    turned = sw.tensor(x).permute(2, 0, 1)
    copy = sw.tensor(x.transpose(2, 0, 1).copy())
    for pool in (nn.MaxPool2d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(3), nn.AdaptiveMaxPool2d((2, None))):
        assert_near(pool(turned), pool(copy).numpy())
        np.testing.assert_array_equal(pool(copy).numpy(), pool(copy.unsqueeze(0)).numpy()[0])
    assert nn.MaxPool1d(2)(sw.ones(3, 4)).shape == nn.AvgPool1d(2)(sw.ones(3, 4)).shape == (3, 2)
    assert nn.MaxPool3d(2)(sw.ones(3, 4, 4, 4)).shape == nn.AvgPool3d(2)(sw.ones(3, 4, 4, 4)).shape
    assert nn.AdaptiveAvgPool1d(2)(sw.ones(3, 5)).shape == nn.AdaptiveMaxPool1d(2)(sw.ones(3, 5)).shape
    assert (
        nn.AdaptiveAvgPool3d(1)(sw.ones(3, 2, 2, 2)).shape
        == nn.AdaptiveMaxPool3d(1)(sw.ones(3, 2, 2, 2)).shape
    )
    values, places = nn.AdaptiveMaxPool2d(2, return_indices=True)(copy)
    assert values.shape == places.shape == (3, 2, 2)


def test_how_layers_are_shown() -> None:
    assert repr(nn.MaxPool2d(3, 2, 1)) == (
        "MaxPool2d(kernel_size=3, stride=2, padding=1, dilation=1, ceil_mode=False)"
    )
    assert repr(nn.AvgPool2d((2, 1))) == "AvgPool2d(kernel_size=(2, 1), stride=(2, 1), padding=0)"
    assert repr(nn.AdaptiveAvgPool2d((2, None))) == "AdaptiveAvgPool2d(output_size=(2, None))"
    assert repr(nn.MaxUnpool2d(2)) == "MaxUnpool2d(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0))"
    assert repr(nn.LPPool1d(2, 3)) == "LPPool1d(norm_type=2, kernel_size=3, stride=None, ceil_mode=False)"


@pytest.mark.parametrize(
    ("kind", "call", "text"),
    [
        (
            ArgumentError,
            lambda: F.max_pool2d(sw.ones(1, 4, 4), 2, padding=2),
            "max_pool2d: padding must be at most half of the kernel (2, 2), got (2, 2)",
        ),
        (
            ShapeError,
            lambda: F.max_pool1d(sw.ones(1, 2), 3),
            "max_pool1d: windows of (3,) with dilation (1,) do not fit into an input of (2,) with padding "
            "(0,)",
        ),
        (
            ShapeError,
            lambda: F.max_pool1d(sw.ones(1, 2), 2, padding=1, dilation=3),
            "max_pool1d: a window of (2,) with dilation (3,) sees nothing of an input of (2,) with padding "
            "(1,); "
            "give less padding or dilation",
        ),
        (
            DTypeError,
            lambda: F.max_pool1d(sw.ones(1, 2, dtype=np.complex64), 2),
            "max_pool1d: complex numbers have no order, got complex64; take abs() first",
        ),
        (
            DTypeError,
            lambda: F.avg_pool1d(sw.ones(1, 2, dtype=np.int64), 2),
            "avg_pool1d: wanted floating tensors of one dtype, got input int64; cast the data with "
            "astype(), or the "
            "module with to()",
        ),
        (
            ShapeError,
            lambda: F.avg_pool3d(sw.ones(4, 4), 2),
            "avg_pool3d: input must have shape (batch, channels, depth, height, width) or (channels, depth, "
            "height, "
            "width), got (4, 4)",
        ),
        (
            ArgumentError,
            lambda: F.adaptive_avg_pool2d(sw.ones(1, 4, 4), (2, 2, 2)),
            "adaptive_avg_pool2d: output_size must be 2 sizes or one, None keeps one; got (2, 2, 2)",
        ),
        (
            ShapeError,
            lambda: F.adaptive_max_pool1d(sw.ones(1, 2, 0), 2),
            "adaptive_max_pool1d: only the batch may be empty, got an input of shape (1, 2, 0)",
        ),
    ],
)
def test_refusals(kind: type[Exception], call: Callable[[], object], text: str) -> None:
    assert message(kind, call) == text
