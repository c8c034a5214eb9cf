"""Positions: rotations as complex numbers, wavelengths, slopes."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest

import shardwise as sw
from shardwise.errors import ArgumentError, ShapeError
from shardwise.nn.functions.attention import scaled_dot_product_attention
from shardwise.nn.functions.position import alibi_bias, apply_rotary, rotary_angles, sinusoidal_encoding
from shardwise.nn.layers.position import RotaryEmbedding, SinusoidalEncoding

RNG = np.random.default_rng(0)


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def turned(x: np.ndarray, positions: np.ndarray, dim: int, base: float, interleaved: bool) -> np.ndarray:
    """Rotate as a product of complex numbers."""
    angles = positions[..., None] * base ** (-np.arange(0, dim, 2) / dim)
    half = dim // 2
    a, b = (x[..., 0:dim:2], x[..., 1:dim:2]) if interleaved else (x[..., :half], x[..., half:dim])
    z = (a + 1j * b) * np.exp(1j * angles)
    out = x.copy()
    if interleaved:
        out[..., 0:dim:2], out[..., 1:dim:2] = z.real, z.imag
    else:
        out[..., :half], out[..., half:dim] = z.real, z.imag
    return out


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("dim", "features"), [(6, 6), (4, 7), (0, 3)])
def test_rotation(dim: int, features: int, interleaved: bool) -> None:
    x = RNG.standard_normal((2, 3, 5, features))
    layer = RotaryEmbedding(dim, base=100.0, interleaved=interleaved)
    want = turned(x, np.arange(5), dim, 100.0, interleaved)
    np.testing.assert_allclose(layer(sw.tensor(x)).data, want, rtol=1e-12, atol=1e-14)
    shifted = turned(x, np.arange(7, 12), dim, 100.0, interleaved)
    np.testing.assert_allclose(layer(sw.tensor(x), offset=7).data, shifted, rtol=1e-12, atol=1e-14)
    places = RNG.integers(0, 30, (2, 1, 5))
    by_place = turned(x, places, dim, 100.0, interleaved)
    np.testing.assert_allclose(layer(sw.tensor(x), sw.tensor(places)).data, by_place, rtol=1e-12, atol=1e-14)
    assert layer(sw.tensor(x.astype(np.float32))).dtype == np.float32


@pytest.mark.parametrize("interleaved", [False, True])
def test_products_depend_on_the_distance_alone(interleaved: bool) -> None:
    layer = RotaryEmbedding(8, interleaved=interleaved)
    q, k = (np.tile(RNG.standard_normal(8), (40, 1)) for _ in range(2))
    scores = (layer(sw.tensor(q)) @ layer(sw.tensor(k)).T).data
    for distance in (-3, 0, 5):
        diagonal = np.diagonal(scores, distance)
        np.testing.assert_allclose(diagonal, diagonal[0], rtol=1e-10)


def test_far_positions_are_exact() -> None:
    cos, sin = rotary_angles(100_001, 4)
    assert cos.dtype == np.float32
    np.testing.assert_allclose(cos.data[-1], np.cos([100_000.0, 1_000.0]), atol=1e-7)
    np.testing.assert_allclose(sin.data[-1], np.sin([100_000.0, 1_000.0]), atol=1e-7)


def test_a_layer_of_rotations_has_no_state_and_can_be_copied() -> None:
    layer = RotaryEmbedding(4)
    assert layer.state_dict() == {}
    x = sw.randn(1, 3, 4)
    first = layer(x).data
    np.testing.assert_array_equal(copy.deepcopy(layer)(x).data, first)
    assert repr(layer) == "RotaryEmbedding(4, base=10000.0, interleaved=False)"


@pytest.mark.parametrize("dim", [6, 5])
def test_sinusoids(dim: int) -> None:
    table = sinusoidal_encoding(50, dim, dtype=np.float64).data
    for i in range(dim):
        wave = np.arange(50) / 10000 ** ((i - i % 2) / dim)
        np.testing.assert_allclose(
            table[:, i], np.cos(wave) if i % 2 else np.sin(wave), rtol=1e-12, atol=1e-14
        )
    x = RNG.standard_normal((4, 3, dim))
    layer = SinusoidalEncoding(dim, dropout=0.0)
    np.testing.assert_allclose(layer(sw.tensor(x)).data, x + table[:4, None], rtol=1e-12)
    np.testing.assert_allclose(layer(sw.tensor(x[:, 0])).data, x[:, 0] + table[:4], rtol=1e-12)
    first = SinusoidalEncoding(dim, 0.9, batch_first=True).eval()
    np.testing.assert_allclose(first(sw.tensor(x)).data, x + table[:3], rtol=1e-12)
    assert (SinusoidalEncoding(dim, 0.9)(sw.tensor(x)).data == 0.0).any()


def test_slopes_of_alibi() -> None:
    slopes = -alibi_bias(8, 2, dtype=np.float64).data[:, 1, 0]
    np.testing.assert_allclose(slopes, 0.5 ** np.arange(1, 9))
    twelve = -alibi_bias(12, 2, dtype=np.float64).data[:, 1, 0]
    np.testing.assert_allclose(twelve, [*0.5 ** np.arange(1, 9), *0.5 ** (np.arange(1, 9, 2) / 2)])


def test_alibi_is_a_mask() -> None:
    bias = alibi_bias(2, 2, 4, is_causal=True)
    slopes = np.array([0.0625, 0.00390625])
    want = np.array([[-2.0, -1.0, 0.0, -np.inf], [-3.0, -2.0, -1.0, 0.0]])
    np.testing.assert_allclose(bias.data, slopes[:, None, None] * want)
    q, k = sw.randn(3, 2, 2, 4), sw.randn(3, 2, 4, 4)
    assert scaled_dot_product_attention(q, k, k, bias).shape == (3, 2, 2, 4)


def test_refused() -> None:
    x = sw.ones(3, 4)
    cos, sin = rotary_angles(3, 6)
    assert message(ShapeError, lambda: apply_rotary(x, cos, sin)) == (
        "apply_rotary needs input (..., seq, d), cos and sin (..., seq, at most d / 2) that broadcast to it; "
        "got (3, 4), (3, 3), (3, 3)"
    )
    assert message(ArgumentError, lambda: RotaryEmbedding(3)) == (
        "RotaryEmbedding: dim must be even, because features are paired; got 3"
    )
    assert message(ShapeError, lambda: RotaryEmbedding(6)(x)) == (
        "RotaryEmbedding needs an input (..., seq, d) with d at least 6, got (3, 4)"
    )
    assert message(ShapeError, lambda: SinusoidalEncoding(5)(x)) == (
        "SinusoidalEncoding needs an input (seq, batch, 5) or (seq, 5), got (3, 4)"
    )
    assert message(ArgumentError, lambda: alibi_bias(0, 3)) == (
        "alibi_bias: num_heads must be at least 1, got 0"
    )
