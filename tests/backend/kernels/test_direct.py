"""Convolutions straight from images to sums: fused code against the formulas in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from shardwise.backend import correlation
from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.kernel import plain_formulas
from shardwise.backend.kernels.window.direct import direct_forward, direct_weight, fits_direct
from tolerance import assert_close, widened

DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])

# batch, channels, outputs, input, kernel, padding in front, places of the result
GEOMETRIES: list[tuple[int, int, int, Shape, Shape, Shape, Shape]] = [
    (2, 3, 5, (9, 40), (3, 5), (1, 2), (9, 40)),
    (1, 4, 9, (6, 33), (2, 2), (0, 0), (5, 32)),
    (1, 1, 1, (1, 1), (3, 3), (1, 1), (1, 1)),
    (2, 2, 3, (4, 30), (1, 7), (0, 6), (4, 36)),
    (3, 2, 8, (5, 31), (5, 4), (3, 0), (7, 28)),
    (1, 2, 3, (4, 40), (3, 3), (1, 1), (3, 20)),  # the input goes on behind what is seen
    (1, 2, 3, (4, 20), (2, 2), (0, 30), (6, 60)),  # zeros alone at either end
    (2, 8, 4, (3, 64), (1, 1), (0, 0), (3, 64)),
]
SHAPES = pytest.mark.parametrize(("n", "c", "k", "size", "kernel", "padding", "out"), GEOMETRIES)


def normal(dtype: type[np.floating], *shape: int) -> Array:
    return np.random.default_rng(3).standard_normal(shape).astype(dtype)


@DTYPES
@SHAPES
def test_sums(
    n: int, c: int, k: int, size: Shape, kernel: Shape, padding: Shape, out: Shape, dtype: type[np.floating]
) -> None:
    x, weight, g = normal(dtype, n, c, *size), normal(dtype, k, c, *kernel), normal(dtype, n, k, *out)
    found = direct_forward.fused(x, weight, out, padding)
    expected = direct_forward.plain(*widened(x, weight), out, padding)
    assert (found.dtype, found.shape) == (dtype, (n, k, *out))
    assert_close(found, expected, c * kernel[0] * kernel[1])
    slopes = direct_weight.fused(x, g, kernel, padding)
    assert (slopes.dtype, slopes.shape) == (dtype, weight.shape)
    assert_close(slopes, direct_weight.plain(*widened(x, g), kernel, padding), n * out[0] * out[1])


@DTYPES
@SHAPES
def test_what_is_not_finite_stays_where_it_is_seen(
    n: int, c: int, k: int, size: Shape, kernel: Shape, padding: Shape, out: Shape, dtype: type[np.floating]
) -> None:
    x, weight, g = normal(dtype, n, c, *size), normal(dtype, k, c, *kernel), normal(dtype, n, k, *out)
    x[0, 0, 0, -1] = np.nan
    with np.errstate(invalid="ignore"):
        for found, expected in (
            (direct_forward.fused(x, weight, out, padding), direct_forward.plain(x, weight, out, padding)),
            (direct_weight.fused(x, g, kernel, padding), direct_weight.plain(x, g, kernel, padding)),
        ):
            np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))


def test_shapes_that_do_not_fit() -> None:
    x = np.ones((1, 2, 4, 32), np.float32)
    with pytest.raises(ShapeError) as caught:
        direct_forward.fused(x, np.ones((3, 4, 3, 3), np.float32), (4, 32), (1, 1))
    assert str(caught.value) == (
        "direct_forward: the input has shape (1, 2, 4, 32), and the weight (3, 4, 3, 3); wanted as many "
        "channels in both."
    )
    with pytest.raises(ShapeError) as caught:
        direct_weight.fused(x, np.ones((2, 3, 4, 32), np.float32), (3, 3), (1, 1))
    assert str(caught.value) == (
        "direct_weight: the input has shape (1, 2, 4, 32), and the gradient (2, 3, 4, 32); wanted as many "
        "images in both."
    )


def test_empty_arrays() -> None:
    x, weight = np.ones((0, 2, 4, 32), np.float32), np.ones((3, 2, 3, 3), np.float32)
    assert direct_forward.fused(x, weight, (4, 32), (1, 1)).shape == (0, 3, 4, 32)
    assert not direct_weight.fused(x, np.ones((0, 3, 4, 32), np.float32), (3, 3), (1, 1)).any()
    none = np.ones((2, 0, 4, 32), np.float32)
    assert not direct_forward.fused(none, np.ones((3, 0, 3, 3), np.float32), (4, 32), (1, 1)).any()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    answers: list[bool] = []

    def ask(*args: object) -> bool:
        answers.append(fits_direct(*args))  # type: ignore[arg-type]
        return answers[-1]

    monkeypatch.setattr(correlation, "fits_direct", ask)
    return answers


@pytest.mark.parametrize("padding", [(0, 0), (1, 1), (2, 2), (1, 2)])
def test_a_convolution_and_its_gradients_take_it(padding: Shape, asked: list[bool]) -> None:
    x, weight = normal(np.float64, 2, 3, 6, 32), normal(np.float64, 4, 3, 3, 3)
    size = (6 + 2 * padding[0] - 2, 30 + 2 * padding[1])
    g = normal(np.float64, 2, 4, *size)
    geometry = ((1, 1), padding, (1, 1), 1)
    calls = (
        lambda: correlation.correlate(x, weight, size, *geometry),
        lambda: correlation.correlate_input(g, weight, (6, 32), *geometry),
        lambda: correlation.correlate_weight(x, g, (3, 3), *geometry),
    )
    for call in calls:
        found = call()
        with plain_formulas():
            np.testing.assert_allclose(found, call(), rtol=1e-12, atol=1e-12)
    # 34 places would leave the half of a tile empty.
    fits = size[1] <= 32
    assert asked[::2] == [fits, True, fits]


def test_others_do_not() -> None:
    x, weight = np.ones((1, 3, 4, 32), np.float32), np.ones((4, 3, 3, 3), np.float32)
    ones, places = (1, 1), (4, 32)
    assert fits_direct(x, weight, 4, 27, places, ones, ones, ones, 1)
    assert not fits_direct(x, weight, 4, 321, places, ones, ones, ones, 1)
    assert not fits_direct(x, weight, 256, 288, places, ones, ones, ones, 1)
    assert not fits_direct(x, weight, 4, 27, places, (1, 2), ones, ones, 1)
    assert not fits_direct(x, weight, 4, 27, places, ones, ones, (2, 1), 1)
    assert not fits_direct(x, weight, 4, 27, places, ones, (0, -1), ones, 1)
    assert not fits_direct(x, weight, 4, 27, places, ones, ones, ones, 3)
    assert not fits_direct(x, weight, 4, 27, (4, 33), ones, ones, ones, 1)
    assert not fits_direct(x, weight.astype(np.float64), 4, 27, places, ones, ones, ones, 1)
    assert not fits_direct(
        x.astype(np.float16), weight.astype(np.float16), 4, 27, places, ones, ones, ones, 1
    )
    assert not fits_direct(x[0], weight, 4, 27, (32,), (1,), (1,), (1,), 1)
