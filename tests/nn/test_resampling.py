"""Images of other sizes: against loops, NumPy's interpolation, and what must come out unchanged."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

import shardwise as sw
from shardwise import nn
from shardwise.backend import plain_formulas
from shardwise.errors import ArgumentError, ShapeError
from shardwise.nn import functional as F
from shardwise.tensor import grad
from tolerance import assert_near

RNG = np.random.default_rng(0)


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 12), st.booleans())
def test_linear_is_numpy_s(n: int, m: int, align: bool) -> None:
    x = RNG.standard_normal(n)
    out = F.interpolate(sw.tensor(x[None, None]), m, mode="linear", align_corners=align)
    if align:
        at = np.linspace(0, n - 1, m)
    else:
        at = (np.arange(m) + 0.5) * n / m - 0.5
    assert_near(out[0, 0], np.interp(at, np.arange(n), x), 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize(("n", "m"), [((4,), (9,)), ((5, 3), (2, 3)), ((2, 3, 4), (4, 2, 5))])
def test_nearest(n: tuple[int, ...], m: tuple[int, ...], mode: Any, dtype: type[np.floating]) -> None:
    x = RNG.standard_normal((2, 2, *n)).astype(dtype)
    shift = 0.5 if mode == "nearest-exact" else 0.0
    index = [np.floor((np.arange(b) + shift) * a / b + 1e-9).astype(int) for a, b in zip(n, m, strict=True)]
    want = x[(slice(None), slice(None), *np.ix_(*index))]
    for formulas in ("fused", "plain"):
        if formulas == "plain":
            with plain_formulas():
                out = F.interpolate(sw.tensor(x), m, mode=mode)
        else:
            out = F.interpolate(sw.tensor(x), m, mode=mode)
        assert out.dtype == dtype
        np.testing.assert_array_equal(out.numpy(), want)


def test_nearest_takes_integers() -> None:
    x = sw.arange(4).reshape(1, 1, 4)
    assert F.interpolate(x, scale_factor=2).tolist() == [[[0, 0, 1, 1, 2, 2, 3, 3]]]
    assert F.interpolate(x, scale_factor=2).dtype == np.int64


def keys(x: float, slope: float) -> float:
    """Cubic convolution (Keys 1981)."""
    x = abs(x)
    if x <= 1:
        return (slope + 2) * x**3 - (slope + 3) * x**2 + 1
    return slope * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize(("n", "m"), [(5, 8), (6, 3), (3, 3), (1, 4)])
def test_bicubic(n: int, m: int, align: bool) -> None:
    x = RNG.standard_normal((1, 1, n, 4))
    out = F.interpolate(sw.tensor(x), (m, 4), mode="bicubic", align_corners=align)
    want = np.zeros((1, 1, m, 4))
    for o in range(m):
        at = o * (n - 1) / max(m - 1, 1) if align else (o + 0.5) * n / m - 0.5
        for tap in range(math.floor(at) - 1, math.floor(at) + 3):
            want[:, :, o] += keys(at - tap, -0.75) * x[:, :, min(max(tap, 0), n - 1)]
    assert_near(out, want, 4)
    with plain_formulas():
        assert_near(F.interpolate(sw.tensor(x), (m, 4), mode="bicubic", align_corners=align), want, 4)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize(("n", "m"), [(8, 3), (9, 2), (4, 7)])
def test_antialiasing_weighs_all_that_is_skipped(mode: Any, n: int, m: int) -> None:
    x = RNG.standard_normal((1, 2, n, 3))
    out = F.interpolate(sw.tensor(x), (m, 3), mode=mode, antialias=True)
    step, want = n / m, np.zeros((1, 2, m, 3))
    for o in range(m):
        middle = (o + 0.5) * step - 0.5
        offsets = (np.arange(n) - middle) / max(step, 1.0)
        if mode == "bilinear":
            weights = np.maximum(1 - np.abs(offsets), 0)
        else:
            weights = np.array([keys(offset, -0.5) for offset in offsets])
        want[:, :, o] = np.einsum("bcnk,n->bck", x, weights / weights.sum())
    assert_near(out, want, n)


@pytest.mark.parametrize(
    ("mode", "shape", "options"),
    [
        ("linear", (1, 1, 5), {}),
        ("bilinear", (1, 2, 3, 5), {"align_corners": True}),
        ("bicubic", (1, 1, 4, 4), {}),
        ("bilinear", (1, 1, 7, 6), {"antialias": True}),
        ("trilinear", (1, 1, 2, 3, 4), {}),
        ("nearest", (1, 1, 4, 3), {}),
    ],
)
def test_constants_stay_and_gradients_are_adjoint(
    mode: Any, shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    size = tuple(range(2, len(shape)))
    flat = F.interpolate(sw.full(shape, 3.0, dtype=np.float64), size, mode=mode, **options)
    assert_near(flat, np.full((*shape[:2], *size), 3.0), 4)
    x = sw.tensor(RNG.standard_normal(shape), requires_grad=True)
    out = F.interpolate(x, size, mode=mode, **options)
    g = RNG.standard_normal(out.shape)
    total = float((out.detach().numpy() * g).sum())
    (dx,) = grad([out], [x], [sw.tensor(g)], retain_graph=True)
    np.testing.assert_allclose(float((dx * x).sum().item()), total, rtol=1e-10, atol=1e-12)
    with plain_formulas():
        (again,) = grad([out], [x], [sw.tensor(g)])
    assert_near(again, dx.numpy(), 4)


def test_factors_and_sizes() -> None:
    x = sw.tensor(RNG.standard_normal((1, 1, 5, 6)))
    assert F.interpolate(x, scale_factor=1.5).shape == (1, 1, 7, 9)
    assert F.interpolate(x, scale_factor=(2, 0.5)).shape == (1, 1, 10, 3)
    assert F.interpolate(x, 4).shape == (1, 1, 4, 4)
    assert_near(F.interpolate(x, (2, 3), mode="area"), F.adaptive_avg_pool2d(x, (2, 3)).numpy())
    given_factor = F.interpolate(x, scale_factor=1.5, mode="bilinear")
    of_sizes = F.interpolate(x, scale_factor=1.5, mode="bilinear", recompute_scale_factor=True)
    assert_near(of_sizes, F.interpolate(x, (7, 9), mode="bilinear").numpy())
    at = (np.arange(7) + 0.5) / 1.5 - 0.5  # by the factor, not by 5 / 7
    column = x.numpy()[0, 0, :, 0]
    assert_near(given_factor[0, 0, :, 0], np.interp(at, np.arange(5), column), 4)
    assert_near(F.upsample(x, scale_factor=2.0), F.interpolate(x, scale_factor=2.0).numpy())
    assert nn.Upsample(scale_factor=2, mode="bilinear")(x).shape == (1, 1, 10, 12)
    assert_near(
        nn.UpsamplingBilinear2d((3, 3))(x), F.interpolate(x, 3, mode="bilinear", align_corners=True).numpy()
    )
    assert nn.UpsamplingNearest2d(scale_factor=2)(x).shape == (1, 1, 10, 12)
    assert repr(nn.Upsample(scale_factor=2)) == "Upsample(scale_factor=2.0, mode='nearest')"
    assert repr(nn.UpsamplingNearest2d(3)) == "UpsamplingNearest2d(size=3, mode='nearest')"


def test_pixels_and_channels() -> None:
    x = RNG.standard_normal((2, 3, 8, 2, 4))
    out = F.pixel_shuffle(sw.tensor(x), 2).numpy()
    assert out.shape == (2, 3, 2, 4, 8)
    for c, i, j, h, w in np.ndindex(2, 2, 2, 2, 4):
        np.testing.assert_array_equal(out[:, :, c, 2 * h + i, 2 * w + j], x[:, :, 4 * c + 2 * i + j, h, w])
    np.testing.assert_array_equal(nn.PixelUnshuffle(2)(nn.PixelShuffle(2)(sw.tensor(x))).numpy(), x)
    order = nn.ChannelShuffle(2)(sw.arange(6).reshape(1, 6, 1)).reshape(-1)
    assert order.tolist() == [0, 3, 1, 4, 2, 5]


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("size", [(4, 5), (2, 3, 4)])
def test_the_identity_samples_every_place(size: tuple[int, ...], align: bool) -> None:
    ndim = len(size)
    x = RNG.standard_normal((2, 3, *size))
    theta = sw.tensor(np.broadcast_to(np.eye(ndim, ndim + 1), (2, ndim, ndim + 1)).copy())
    grid = F.affine_grid(theta, x.shape, align)
    assert grid.shape == (2, *size, ndim)
    for mode in ("bilinear", "nearest", "bicubic")[: 3 if ndim == 2 else 2]:
        assert_near(F.grid_sample(sw.tensor(x), grid, mode, align_corners=align), x, 8)  # type: ignore[arg-type]


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample_is_scipy_s(padding: Any) -> None:
    x, grid = RNG.standard_normal((1, 1, 5, 6)), RNG.uniform(-1.6, 1.6, (1, 4, 7, 2))
    out = F.grid_sample(sw.tensor(x), sw.tensor(grid), padding_mode=padding, align_corners=True)
    at = [(grid[0, ..., 1] + 1) / 2 * 4, (grid[0, ..., 0] + 1) / 2 * 5]
    mode = {"zeros": "constant", "border": "nearest", "reflection": "mirror"}[padding]
    if padding == "zeros":  # SciPy does not fade out over the last half place
        want = ndimage.map_coordinates(np.pad(x[0, 0], 5), [a + 5 for a in at], order=1)
    else:
        want = ndimage.map_coordinates(x[0, 0], at, order=1, mode=mode)
    assert_near(out[0, 0], want, 16)


def test_places_that_are_no_numbers_are_outside() -> None:
    x, nowhere = sw.ones(1, 1, 3, 3), sw.tensor(np.full((1, 1, 2, 2), np.nan, np.float32))
    assert np.isnan(F.grid_sample(x, nowhere).numpy()).all()
    assert (F.grid_sample(x, nowhere, "nearest").numpy() == 0).all()


@pytest.mark.parametrize(
    ("kind", "call", "text"),
    [
        (
            ArgumentError,
            lambda: F.interpolate(sw.ones(1, 1, 3)),
            "interpolate: give size or scale_factor, one of them",
        ),
        (
            ShapeError,
            lambda: F.interpolate(sw.ones(1, 1, 3), 4, mode="bilinear"),
            "interpolate: mode 'bilinear' does not fit 1 spatial dims; wanted nearest, nearest-exact, "
            "linear, area",
        ),
        (
            ArgumentError,
            lambda: F.interpolate(sw.ones(1, 1, 3), 4, mode="cubic"),  # type: ignore[arg-type]
            "interpolate: mode must be one of nearest, nearest-exact, linear, bilinear, trilinear, bicubic, "
            "area; got "
            "'cubic'",
        ),
        (
            ArgumentError,
            lambda: F.interpolate(sw.ones(1, 1, 3), 4, align_corners=False),
            "interpolate: align_corners is for linear and cubic modes, not for 'nearest'",
        ),
        (
            ArgumentError,
            lambda: F.interpolate(sw.ones(1, 1, 3), 4, mode="linear", antialias=True),
            "interpolate: antialias is for 'bilinear' and 'bicubic', not for 'linear'",
        ),
        (
            ShapeError,
            lambda: F.interpolate(sw.ones(1, 1, 1), scale_factor=0.5),
            "interpolate: an input of shape (1, 1, 1) cannot come out with spatial sizes (0,); only the "
            "batch may be "
            "empty",
        ),
        (
            ArgumentError,
            lambda: F.interpolate(sw.ones(1, 1, 3, 3), scale_factor=(2, -1)),
            "interpolate: scale_factor must be a positive number or 2 of them, got (2, -1)",
        ),
        (
            ShapeError,
            lambda: F.interpolate(sw.ones(3, 3), 4),
            "interpolate: input must have shape (batch, channels, places, ...) with one to three spatial "
            "dims, got "
            "(3, 3)",
        ),
        (
            ShapeError,
            lambda: F.pixel_shuffle(sw.ones(6, 2, 2), 2),
            "pixel_shuffle: 2 * 2 must divide the 6 channels of an input of shape (6, 2, 2)",
        ),
        (
            ShapeError,
            lambda: F.grid_sample(sw.ones(1, 1, 3, 3), sw.ones(1, 2, 2, 3)),
            "grid_sample: wanted input (batch, channels, height, width) and grid (batch, height, width, 2), "
            "or one "
            "spatial dim more; got (1, 1, 3, 3) and (1, 2, 2, 3)",
        ),
        (
            ArgumentError,
            lambda: F.grid_sample(sw.ones(1, 1, 2, 2, 2), sw.ones(1, 1, 1, 1, 3), "bicubic"),
            "grid_sample: mode must be 'bilinear', 'nearest' or, for images, 'bicubic'; got 'bicubic'",
        ),
    ],
)
def test_refusals(kind: type[Exception], call: Callable[[], object], text: str) -> None:
    assert message(kind, call) == text
