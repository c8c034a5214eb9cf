"""Pooling and resampling: fused code against the formulas in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from shardwise.backend.kernels.window.pooling import (
    Windows,
    average_backward,
    average_forward,
    maximum_backward,
    maximum_forward,
)
from shardwise.backend.kernels.window.resampling import resample_backward, resample_forward
from tolerance import assert_close, widened

DTYPES = [np.float32, np.float64]
RNG = np.random.default_rng(9)


def sliding(n: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> tuple[range, ...]:
    count = (n + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    starts = (i * stride - padding for i in range(count))
    return tuple(
        range(
            start if start >= 0 else start % dilation, min(n, start + dilation * (kernel - 1) + 1), dilation
        )
        for start in starts
    )


def adaptive(n: int, m: int) -> tuple[range, ...]:
    return tuple(range(i * n // m, -(-(i + 1) * n // m)) for i in range(m))


WINDOWS: list[tuple[tuple[int, ...], Windows]] = [
    ((8,), (sliding(8, 2, 2, 0),)),
    ((9,), (sliding(9, 3, 2, 1),)),
    ((9,), (sliding(9, 3, 1, 1, 2),)),
    ((7,), (adaptive(7, 3),)),
    ((3,), (adaptive(3, 7),)),
    ((6, 5), (sliding(6, 3, 1, 1), adaptive(5, 2))),
    ((5, 6), (adaptive(5, 1), adaptive(6, 1))),
    ((4, 5, 3), (sliding(4, 2, 2, 1), sliding(5, 3, 2, 0), adaptive(3, 2))),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("size", "windows"), WINDOWS)
def test_averages(size: tuple[int, ...], windows: Windows, dtype: type[np.floating]) -> None:
    x = RNG.standard_normal((2, 3, *size)).astype(dtype)
    counts = tuple(tuple(len(seen) + 1 for seen in dim) for dim in windows)
    y = average_forward.fused(x, windows, counts)
    assert_close(y, average_forward.plain(x.astype(np.float64), windows, counts), x[0, 0].size)
    g = RNG.standard_normal(y.shape).astype(dtype)
    dx = average_backward.fused(g, windows, counts, size)
    assert_close(dx, average_backward.plain(g.astype(np.float64), windows, counts, size), y[0, 0].size)
    assert y.dtype == dx.dtype == dtype


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["plain", "ties", "nan"])
@pytest.mark.parametrize(("size", "windows"), WINDOWS)
def test_maxima(size: tuple[int, ...], windows: Windows, kind: str, dtype: type[np.floating]) -> None:
    x = RNG.standard_normal((2, 3, *size)).astype(dtype)
    if kind == "ties":
        x = np.round(x)
    if kind == "nan":
        x[RNG.random(x.shape) < 0.3] = np.nan
        x[RNG.random(x.shape) < 0.1] = np.inf
    y, places = maximum_forward.fused(x, windows)
    wanted, wanted_places = maximum_forward.plain(x, windows)
    np.testing.assert_array_equal(y, wanted)
    np.testing.assert_array_equal(places, wanted_places)
    picked = np.take_along_axis(x.reshape(2, 3, -1), places.reshape(2, 3, -1), 2)
    np.testing.assert_array_equal(picked.reshape(y.shape), y)
    g = RNG.standard_normal(y.shape).astype(dtype)
    dx = maximum_backward.fused(g, places, size)
    assert_close(dx, maximum_backward.plain(g.astype(np.float64), places, size), y[0, 0].size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inner", [1, 4])
@pytest.mark.parametrize("taps", [1, 3])
def test_resampling(taps: int, inner: int, dtype: type[np.floating]) -> None:
    x, g = (RNG.standard_normal((5, n, inner)).astype(dtype) for n in (6, 9))
    index, weight = RNG.integers(0, 6, (taps, 9)), RNG.standard_normal((taps, 9)).astype(dtype)
    y = resample_forward.fused(x, index, weight)
    assert_close(y, resample_forward.plain(*widened(x, index, weight)), taps)  # type: ignore[arg-type]
    dx = resample_backward.fused(g, index, weight, 6)
    assert_close(dx, resample_backward.plain(*widened(g, index, weight), 6), 9 * taps)  # type: ignore[arg-type]
    assert y.dtype == dx.dtype == dtype


@pytest.mark.parametrize("version", ["fused", "plain"])
def test_nothing_in_nothing_out(version: str) -> None:
    x, windows = np.zeros((0, 3, 4), np.float32), (sliding(4, 2, 2, 0),)
    assert getattr(average_forward, version)(x, windows, ((2, 2),)).shape == (0, 3, 2)
    y, places = getattr(maximum_forward, version)(x, windows)
    assert y.shape == places.shape == (0, 3, 2)
    assert getattr(maximum_backward, version)(y, places, (4,)).shape == (0, 3, 4)
    assert getattr(average_backward, version)(y, windows, ((2, 2),), (4,)).shape == (0, 3, 4)
    index, weight = np.zeros((1, 2), np.int64), np.ones((1, 2), np.float32)
    assert getattr(resample_forward, version)(x, index, weight[:, :2]).shape == (0, 2, 4)


def test_strided_arrays() -> None:
    x = RNG.standard_normal((5, 2, 3)).astype(np.float32).transpose(1, 2, 0)
    windows = (sliding(5, 2, 1, 0),)
    for kernel in (
        lambda a: average_forward(a, windows, ((2,) * 4,)),
        lambda a: maximum_forward(a, windows)[0],
    ):
        np.testing.assert_array_equal(kernel(x), kernel(x.copy()))
