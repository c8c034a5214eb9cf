"""Windows of convolutions, and depthwise convolutions: fused code against the formulas in double "
"precision."""

from __future__ import annotations

import numpy as np
import pytest

from shardwise.backend.array import Shape
from shardwise.backend.kernels.window.convolution import add_windows_, overlaps, take_windows_
from shardwise.backend.kernels.window.depthwise import depthwise_forward, depthwise_input, depthwise_weight
from tolerance import assert_close, widened

DTYPES = [np.float32, np.float64]
RNG = np.random.default_rng(8)

# size, kernel, outputs, stride, padding, dilation
GEOMETRIES: list[tuple[Shape, Shape, Shape, Shape, Shape, Shape]] = [
    ((7,), (3,), (7,), (1,), (1,), (1,)),
    ((9,), (4,), (5,), (3,), (3,), (2,)),
    ((5,), (3,), (9,), (1,), (-2,), (1,)),  # from the third place on, and beyond the end
    ((4,), (3,), (11,), (1,), (8,), (1,)),  # many windows see nothing
    ((6, 5), (3, 3), (6, 5), (1, 1), (1, 1), (1, 1)),
    ((6, 5), (2, 3), (3, 4), (2, 1), (0, 2), (1, 2)),
    ((4, 4), (1, 1), (2, 2), (2, 2), (0, 0), (1, 1)),
    ((3, 1), (3, 2), (3, 2), (1, 1), (1, 1), (1, 1)),
    ((3, 4, 5), (2, 2, 3), (3, 2, 5), (1, 2, 1), (1, 0, 1), (1, 1, 1)),
    ((5000,), (3,), (4999,), (1,), (1,), (2,)),  # longer than a piece
]


def test_overlaps_name_each_pair_once() -> None:
    for size, kernel, out, stride, padding, dilation in GEOMETRIES[:-1]:
        seen = {
            (place, output, places)
            for place, outputs, inputs in overlaps(size, kernel, out, stride, padding, dilation)
            for output, places in zip(
                zip(*(x.ravel() for x in np.indices(out)[(slice(None), *outputs[1:])]), strict=True),
                zip(*(x.ravel() for x in np.indices(size)[(slice(None), *inputs[1:])]), strict=True),
                strict=True,
            )
        }
        wanted = set()
        for place in np.ndindex(*kernel):
            for output in np.ndindex(*out):
                at = tuple(
                    o * s + k * d - p
                    for o, s, k, d, p in zip(output, stride, place, dilation, padding, strict=True)
                )
                if all(0 <= i < n for i, n in zip(at, size, strict=True)):
                    wanted.add((place, output, at))
        assert {tuple(tuple(map(int, t)) for t in entry) for entry in seen} == wanted


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("size", "kernel", "out", "stride", "padding", "dilation"), GEOMETRIES)
def test_windows(
    size: Shape,
    kernel: Shape,
    out: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    dtype: type[np.floating],
) -> None:
    x = RNG.standard_normal((2, 3, *size)).astype(dtype)
    columns = np.full((3, *kernel, 2, *out), np.nan, dtype)
    take_windows_.fused(columns, x, stride, padding, dilation)
    plain = np.full_like(columns, np.nan)
    take_windows_.plain(plain, x, stride, padding, dilation)
    np.testing.assert_array_equal(columns, plain)
    total, wanted = np.ones_like(x), np.ones(x.shape)
    g = RNG.standard_normal(columns.shape).astype(dtype)
    add_windows_.plain(wanted, g.astype(np.float64), stride, padding, dilation)
    add_windows_.fused(total, g, stride, padding, dilation)
    assert_close(total, wanted, int(np.prod(kernel)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("many", [1, 3])
@pytest.mark.parametrize(("size", "kernel", "out", "stride", "padding", "dilation"), GEOMETRIES)
def test_depthwise(
    size: Shape,
    kernel: Shape,
    out: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    many: int,
    dtype: type[np.floating],
) -> None:
    x = RNG.standard_normal((2, 3, *size)).astype(dtype)
    w = RNG.standard_normal((3 * many, 1, *kernel)).astype(dtype)
    g = RNG.standard_normal((2, 3 * many, *out)).astype(dtype)
    geometry, taps = (stride, padding, dilation), int(np.prod(kernel))
    y = depthwise_forward.fused(x, w, out, *geometry)
    assert_close(y, depthwise_forward.plain(*widened(x, w), out, *geometry), taps)
    dx = depthwise_input.fused(g, w, 3, size, *geometry)
    assert_close(dx, depthwise_input.plain(*widened(g, w), 3, size, *geometry), taps * many)
    dw = depthwise_weight.fused(x, g, kernel, *geometry)
    assert_close(dw, depthwise_weight.plain(*widened(x, g), kernel, *geometry), g.size)
    assert y.dtype == dx.dtype == dw.dtype == dtype


@pytest.mark.parametrize("version", ["fused", "plain"])
def test_nothing_in_nothing_out(version: str) -> None:
    x, w = np.zeros((0, 3, 5), np.float32), np.ones((3, 1, 2), np.float32)
    geometry = ((1,), (0,), (1,))
    forward = getattr(depthwise_forward, version)
    assert forward(x, w, (4,), *geometry).shape == (0, 3, 4)
    g = np.zeros((0, 3, 4), np.float32)
    assert getattr(depthwise_input, version)(g, w, 3, (5,), *geometry).shape == (0, 3, 5)
    np.testing.assert_array_equal(
        getattr(depthwise_weight, version)(x, g, (2,), *geometry), np.zeros((3, 1, 2))
    )


def test_strided_arrays() -> None:
    x = RNG.standard_normal((5, 2, 3)).astype(np.float32).transpose(1, 2, 0)
    w = RNG.standard_normal((3, 1, 2)).astype(np.float32)[::-1]
    geometry = ((4,), (1,), (0,), (1,))
    np.testing.assert_array_equal(
        depthwise_forward(x, w, *geometry), depthwise_forward(x.copy(), w.copy(), *geometry)
    )
    columns = np.empty((3, 2, 2, 4), np.float32)
    take_windows_(columns, x, (1,), (0,), (1,))
    np.testing.assert_array_equal(columns[:, 0], x.transpose(1, 0, 2)[..., :4])


def test_what_is_not_finite_goes_where_it_is_seen() -> None:
    x = np.zeros((1, 1, 6), np.float32)
    x[0, 0, 2], x[0, 0, 5] = np.inf, np.nan
    y = depthwise_forward(x, np.ones((1, 1, 2), np.float32), (5,), (1,), (0,), (1,))
    np.testing.assert_array_equal(y[0, 0], [0, np.inf, np.inf, 0, np.nan])
