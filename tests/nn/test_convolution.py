"""Convolutions against loops over output places, SciPy's correlation, and their own adjoints."""

from __future__ import annotations

import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

import shardwise as sw
from shardwise import nn
from shardwise.backend import ShapeArray, correlation, plain_formulas
from shardwise.nn import functional as F
from shardwise.tensor import Tensor, grad
from shardwise.tensor.signature import FlopCounter
from tolerance import assert_near, tolerance

RNG = np.random.default_rng(0)
CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def definition(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> np.ndarray:
    """The sum over channels and kernel, output place by output place."""
    x, weight = x.astype(np.float64), weight.astype(np.float64)
    padded = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    kernel = weight.shape[2:]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    size = [(n - r) // s + 1 for n, r, s in zip(padded.shape[2:], reach, stride, strict=True)]
    outputs, inputs = weight.shape[0] // groups, weight.shape[1]
    out = np.zeros((x.shape[0], weight.shape[0], *size))
    for place in np.ndindex(*size):
        window = tuple(
            slice(o * s, o * s + r, d) for o, s, r, d in zip(place, stride, reach, dilation, strict=True)
        )
        seen = padded[(slice(None), slice(None), *window)]
        for k in range(weight.shape[0]):
            first = k // outputs * inputs
            part = seen[:, first : first + inputs] * weight[k]
            out[(slice(None), k, *place)] = part.sum(tuple(range(1, part.ndim)))
    return out if bias is None else out + bias.reshape(-1, *(1,) * len(size)).astype(np.float64)


CONFIGURATIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    # input, weight, options
    ((2, 3, 9), (4, 3, 3), {}),
    ((2, 3, 9), (4, 3, 4), {"stride": 2, "padding": 3, "dilation": 2}),
    ((1, 4, 8), (8, 1, 3), {"groups": 4, "padding": 1}),  # depthwise, two outputs per channel
    ((2, 2, 7), (2, 1, 3), {"groups": 2, "stride": 3, "dilation": 2, "padding": 2}),
    ((3, 2, 6, 5), (4, 2, 3, 2), {"padding": 1}),
    ((1, 6, 7, 7), (6, 2, 3, 3), {"groups": 3, "stride": (2, 1), "padding": (0, 2)}),
    ((2, 3, 5, 6), (5, 3, 1, 1), {}),
    ((2, 3, 5, 6), (5, 3, 1, 1), {"stride": 2}),
    ((1, 3, 6, 6), (3, 1, 5, 3), {"groups": 3, "padding": (4, 1), "dilation": (2, 1)}),
    ((1, 1, 4, 4), (20, 1, 2, 2), {}),  # many outputs of one channel: no longer depthwise
    ((2, 2, 4, 3, 5), (3, 2, 2, 3, 2), {"padding": (1, 1, 0), "stride": (1, 2, 2)}),
    ((1, 4, 3, 4, 4), (4, 1, 2, 2, 3), {"groups": 4, "padding": 1, "stride": 2}),
    ((2, 2, 3), (3, 2, 3), {"padding": 5}),  # windows that see nothing
    ((0, 2, 5), (3, 2, 3), {}),
]


def whole(options: dict[str, Any], ndim: int) -> dict[str, Any]:
    """All options, one number per dim."""
    full = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, **options}
    return {k: v if k == "groups" or isinstance(v, tuple) else (v,) * ndim for k, v in full.items()}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "kernel", "options"), CONFIGURATIONS)
def test_convolution(
    shape: tuple[int, ...], kernel: tuple[int, ...], options: dict[str, Any], dtype: type[np.floating]
) -> None:
    x, w = RNG.standard_normal(shape).astype(dtype), RNG.standard_normal(kernel).astype(dtype)
    bias = RNG.standard_normal(kernel[0]).astype(dtype)
    conv, ndim = CONV[len(shape) - 2], len(shape) - 2
    length = math.prod(kernel[1:])
    for b in (bias, None):
        want = definition(x, w, b, **whole(options, ndim))
        out = conv(sw.tensor(x), sw.tensor(w), None if b is None else sw.tensor(b), **options)
        assert out.dtype == dtype
        assert_near(out, want, length)
    with plain_formulas():
        assert_near(conv(sw.tensor(x), sw.tensor(w), **options), want, length)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "kernel", "options"), CONFIGURATIONS)
def test_gradients_are_adjoints(
    shape: tuple[int, ...], kernel: tuple[int, ...], options: dict[str, Any], dtype: type[np.floating]
) -> None:
    """``<g, conv(x, w)>`` is linear in both, so its gradients at any point give it back."""
    conv = CONV[len(shape) - 2]
    x = sw.tensor(RNG.standard_normal(shape).astype(dtype), requires_grad=True)
    w = sw.tensor(RNG.standard_normal(kernel).astype(dtype), requires_grad=True)
    b = sw.tensor(RNG.standard_normal(kernel[0]).astype(dtype), requires_grad=True)
    out = conv(x, w, b, **options)
    g = RNG.standard_normal(out.shape).astype(dtype)
    for formulas in ("fused", "plain"):
        if formulas == "plain":
            with plain_formulas():
                dx, dw, db = grad([out], [x, w, b], [sw.tensor(g)], retain_graph=True)
        else:
            dx, dw, db = grad([out], [x, w, b], [sw.tensor(g)], retain_graph=True)
        total = float((g * out.detach().numpy()).sum(dtype=np.float64))
        shift = float((db.numpy() * b.detach().numpy()).sum(dtype=np.float64))
        room = tolerance(dtype, out.numel() * math.prod(kernel[1:])) * max(1, np.abs(g).sum())
        np.testing.assert_allclose(float((dx * x).sum().item()) + shift, total, rtol=0, atol=room)
        np.testing.assert_allclose(float((dw * w).sum().item()) + shift, total, rtol=0, atol=room)
        assert_near(db, g.astype(np.float64).sum((0, *range(2, g.ndim))), g.size)


def test_against_scipy() -> None:
    x, w = RNG.standard_normal((2, 9, 11)), RNG.standard_normal((3, 2, 4, 3))
    for padding, mode in (("valid", "valid"), ((3, 2), "full")):
        out = F.conv2d(sw.tensor(x), sw.tensor(w), padding=padding)  # type: ignore[arg-type]
        want = [sum(signal.correlate(x[c], w[k, c], mode) for c in range(2)) for k in range(3)]
        assert_near(out, np.array(want), 24)
    line, taps = RNG.standard_normal(50_000), RNG.standard_normal(63)
    out = F.conv1d(sw.tensor(line[None]), sw.tensor(taps[None, None]), padding="same")
    assert_near(out[0], signal.correlate(line, taps, "same"), 63)


@pytest.mark.parametrize(("shape", "kernel", "options"), CONFIGURATIONS[:-1])
def test_transposed_is_the_adjoint(
    shape: tuple[int, ...], kernel: tuple[int, ...], options: dict[str, Any]
) -> None:
    ndim = len(shape) - 2
    x, w = RNG.standard_normal(shape), RNG.standard_normal(kernel)
    out = CONV[ndim](sw.tensor(x), sw.tensor(w), **options)
    y = RNG.standard_normal(out.shape)
    o = whole(options, ndim)
    terms = zip(shape[2:], out.shape[2:], kernel[2:], o["stride"], o["padding"], o["dilation"], strict=True)
    extra = tuple(n - ((m - 1) * s - 2 * p + d * (k - 1) + 1) for n, m, k, s, p, d in terms)
    back = TRANSPOSED[ndim](sw.tensor(y), sw.tensor(w), output_padding=extra, **options)
    assert back.shape == shape
    np.testing.assert_allclose((out.numpy() * y).sum(), (x * back.numpy()).sum(), rtol=1e-9, atol=1e-9)
    bias = RNG.standard_normal(shape[1])
    shifted = TRANSPOSED[ndim](sw.tensor(y), sw.tensor(w), sw.tensor(bias), output_padding=extra, **options)
    assert_near(shifted, back.numpy() + bias.reshape(-1, *(1,) * ndim), 8)


def test_transposed_spreads_its_kernel() -> None:
    x = np.array([[[2.0, 3.0]]])
    out = F.conv_transpose1d(sw.tensor(x), sw.tensor([[[1.0, 10.0, 100.0]]], dtype=np.float64), stride=2)
    np.testing.assert_array_equal(out.numpy(), [[[2, 20, 203, 30, 300]]])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_sizes(data: st.DataObject) -> None:
    ndim = data.draw(st.integers(1, 2))
    small = st.integers(1, 3)
    groups, inputs, outputs, batch = (data.draw(small) for _ in range(4))
    kernel, stride, dilation = (tuple(data.draw(small) for _ in range(ndim)) for _ in range(3))
    padding = tuple(data.draw(st.integers(0, 3)) for _ in range(ndim))
    size = tuple(
        max(1, d * (k - 1) + 1 - 2 * p) + data.draw(st.integers(0, 4))
        for k, d, p in zip(kernel, dilation, padding, strict=True)
    )
    x = RNG.standard_normal((batch, inputs * groups, *size))
    w = RNG.standard_normal((outputs * groups, inputs, *kernel))
    want = definition(x, w, None, stride, padding, dilation, groups)
    options: Any = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    assert_near(CONV[ndim](sw.tensor(x), sw.tensor(w), **options), want, w[0].size)


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    x = sw.tensor(RNG.standard_normal((5, 3, 12, 7)), requires_grad=True)
    w = sw.tensor(RNG.standard_normal((4, 3, 3, 3)), requires_grad=True)
    g = sw.tensor(RNG.standard_normal((5, 4, 6, 4)))

    def run() -> list[np.ndarray]:
        out = F.conv2d(x, w, stride=2, padding=1)
        return [t.detach().numpy() for t in (out, *grad([out], [x, w], [g]))]

    usual = run()
    for size in (1, 2_000, 20_000, 1 << 30):
        monkeypatch.setattr(correlation, "_BLOCK_BYTES", {"cpu": size})
        for a, b in zip(run(), usual, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_layouts_of_the_input_do_not_matter() -> None:
    x, w = RNG.standard_normal((2, 6, 5, 3)), RNG.standard_normal((4, 3, 3, 3))
    last = sw.tensor(x).permute(0, 3, 1, 2)
    assert_near(
        F.conv2d(last, sw.tensor(w)),
        F.conv2d(sw.tensor(x.transpose(0, 3, 1, 2).copy()), sw.tensor(w)).numpy(),
    )
    flipped = w[::-1, :, ::-1].copy()
    view = Tensor(w[::-1, :, ::-1])
    assert_near(F.conv2d(last, view), F.conv2d(last, sw.tensor(flipped)).numpy())
    once = Tensor(np.broadcast_to(x[:1, :1, :1, :1], (2, 3, 4, 4)))
    assert_near(F.conv2d(once, sw.tensor(w)), F.conv2d(once.contiguous(), sw.tensor(w)).numpy(), 27)


def test_without_a_batch() -> None:
    for ndim, size in ((1, (5,)), (2, (5, 4)), (3, (3, 4, 3))):
        x, w = RNG.standard_normal((2, *size)), RNG.standard_normal((4, 2, *(2,) * ndim))
        alone = CONV[ndim](sw.tensor(x), sw.tensor(w))
        assert_near(alone, CONV[ndim](sw.tensor(x[None]), sw.tensor(w)).numpy()[0])
        back = TRANSPOSED[ndim](alone, sw.tensor(w))
        assert back.shape == x.shape


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_added_up_in_float32(dtype: type[np.generic]) -> None:
    x, w = RNG.standard_normal((1, 64, 6, 6)).astype(dtype), RNG.standard_normal((3, 64, 3, 3)).astype(dtype)
    out = F.conv2d(sw.tensor(x), sw.tensor(w))
    assert out.dtype == dtype
    want = definition(x.astype(np.float64), w.astype(np.float64), None, (1, 1), (0, 0), (1, 1), 1)
    assert_near(out, want)


def test_complex_numbers() -> None:
    x = RNG.standard_normal((2, 2, 5)) + 1j * RNG.standard_normal((2, 2, 5))
    w = RNG.standard_normal((3, 2, 3)) + 1j * RNG.standard_normal((3, 2, 3))
    parts = [
        definition(a, b, None, (1,), (0,), (1,), 1)
        for a, b in itertools.product((x.real, x.imag), (w.real, w.imag))
    ]
    want = parts[0] - parts[3] + 1j * (parts[1] + parts[2])
    np.testing.assert_allclose(F.conv1d(sw.tensor(x), sw.tensor(w)).numpy(), want, rtol=1e-12)


def test_infinities_and_nan_stay_in_their_windows() -> None:
    x = np.zeros((1, 1, 6, 6))
    x[0, 0, 0, 0], x[0, 0, 5, 5] = np.inf, np.nan
    out = F.conv2d(sw.tensor(x), sw.ones(1, 1, 2, 2, dtype=np.float64)).numpy()[0, 0]
    assert np.isposinf(out[0, 0])
    assert np.isnan(out[4, 4])
    assert (np.delete(out.ravel(), [0, 24]) == 0).all()


def test_flops_and_dry_runs() -> None:
    x, w = (
        Tensor(ShapeArray((1000, 64, 512, 512), np.float32)),
        Tensor(ShapeArray((128, 32, 3, 3), np.float32)),
    )  # type: ignore[arg-type]
    with FlopCounter() as counter:
        out = F.conv2d(x, w, padding=1, stride=2, groups=2)
        F.conv_transpose2d(out, w, padding=1, stride=2, groups=2)
    assert out.shape == (1000, 128, 256, 256)
    once = 2 * 1000 * 128 * 32 * 9 * 256 * 256
    assert counter.by_op == {"Convolution": once, "ConvolutionTransposed": once}


def test_windows_as_columns() -> None:
    x, w = RNG.standard_normal((2, 3, 7, 6)), RNG.standard_normal((4, 3, 3, 2))
    options: dict[str, Any] = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}
    columns = F.unfold(sw.tensor(x), (3, 2), **options)
    out = F.conv2d(sw.tensor(x), sw.tensor(w), **options)
    np.testing.assert_allclose(
        (w.reshape(4, -1) @ columns.numpy()).reshape(out.shape), out.numpy(), rtol=1e-10, atol=1e-12
    )
    ones = F.fold(F.unfold(sw.ones(1, 1, 4, 4), 3), 4, 3)
    np.testing.assert_array_equal(
        ones.numpy()[0, 0], [[1, 2, 2, 1], [2, 4, 4, 2], [2, 4, 4, 2], [1, 2, 2, 1]]
    )
    assert_near(nn.Unfold((3, 2), **options)(sw.tensor(x)), columns.numpy())
    assert_near(
        nn.Fold((7, 6), (3, 2), **options)(columns), F.fold(columns, (7, 6), (3, 2), **options).numpy()
    )
