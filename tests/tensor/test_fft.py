"""Fourier transforms: NumPy's and SciPy's values, adjoints, dtypes, messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import ml_dtypes
import numpy as np
import pytest
import scipy.fft
from hypothesis import given, settings
from hypothesis import strategies as st

import shardwise as sw
from shardwise.backend.array import Array
from shardwise.errors import ArgumentError, DTypeError, ShapeError
from shardwise.tensor import Tensor, fft, grad
from shardwise.tensor.signature import FlopCounter

Norm = Literal["backward", "ortho", "forward"] | None
NORMS: tuple[Norm, ...] = (None, "backward", "ortho", "forward")
OF_REAL = ("rfft", "ihfft", "rfft2", "ihfft2", "rfftn", "ihfftn")


def draw(shape: tuple[int, ...], dtype: str = "c16", seed: int = 0) -> Array:
    rng = np.random.default_rng(seed + sum(shape))
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if dtype.startswith("c") else values).astype(dtype)


def close(actual: Tensor, expected: Array) -> None:
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    single = np.empty(0, actual.dtype).real.dtype == np.float32
    np.testing.assert_allclose(actual.data, expected, rtol=0, atol=1e-5 if single else 1e-13)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@settings(max_examples=25, deadline=None)
@given(
    length=st.integers(2, 7),
    n=st.one_of(st.none(), st.integers(1, 9)),
    dim=st.integers(-2, 1),
    norm=st.sampled_from(NORMS),
    dtype=st.sampled_from(["f4", "f8", "c8", "c16"]),
)
def test_one_dim(name: str, length: int, n: int | None, dim: int, norm: Norm, dtype: str) -> None:
    a = draw((length, 3) if dim in (0, -2) else (3, length), dtype)
    if name in OF_REAL:
        a = a.real
    ours, theirs = getattr(fft, name), getattr(np.fft, name)
    close(ours(sw.tensor(a), n, dim, norm), theirs(a, n, dim, norm))
    by_protocol = theirs(sw.tensor(a), n, dim, norm)
    assert isinstance(by_protocol, Tensor)
    close(by_protocol, theirs(a, n, dim, norm))


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn"])
@pytest.mark.parametrize(
    ("s", "dim"),
    [(None, None), (None, (0, 2)), (None, (2, 0)), ((4,), (-1,)), ((6, -1), (0, 1)), ((2, 3, 8), (1, 2, 0))],
)
def test_several_dims(name: str, s: tuple[int, ...] | None, dim: tuple[int, ...] | None, dtype: str) -> None:
    a = draw((3, 4, 5), dtype)
    if name in OF_REAL:
        a = a.real
    sizes = s if s is None else tuple(a.shape[d] if n == -1 else n for n, d in zip(s, dim or (), strict=True))
    if name in ("irfftn", "hfftn") and s is not None and s[-1] == -1:
        sizes = (*(sizes or ())[:-1], 2 * (a.shape[(dim or ())[-1]] - 1))
    for norm in NORMS:
        close(getattr(fft, name)(sw.tensor(a), s, dim, norm), getattr(scipy.fft, name)(a, sizes, dim, norm))


@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2"])
def test_two_dims(name: str) -> None:
    a = draw((2, 3, 4), "f8" if name in OF_REAL else "c16")
    for s in (None, (4, 4), (2, 5)):
        close(getattr(fft, name)(sw.tensor(a), s), getattr(scipy.fft, name)(a, s))


def test_sizes_without_dims_are_those_of_the_last() -> None:
    a = draw((2, 3, 4))
    close(fft.fftn(sw.tensor(a), (5, 2)), np.fft.fftn(a, (5, 2), (-2, -1)))
    close(fft.fftn(sw.tensor(a), dim=1), np.fft.fft(a, axis=1))
    close(fft.ifftn(sw.tensor(a), 6, -1), np.fft.ifft(a, 6))
    close(fft.fftn(sw.tensor(a), dim=()), a)
    close(fft.fftn(sw.tensor(a.real), dim=()), a.real + 0j)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]),
    length=st.integers(2, 8),
    n=st.one_of(st.none(), st.integers(1, 10)),
    norm=st.sampled_from(NORMS),
)
def test_gradients_are_adjoints(name: str, length: int, n: int | None, norm: Norm) -> None:
    """``Re <g, F(x)> = Re <F*(g), x>``, real numbers counting as complex ones without imaginary part."""
    x = sw.tensor(draw((length,), "f8" if name in OF_REAL else "c16"), requires_grad=True)
    out = getattr(fft, name)(x, n, norm=norm)
    g = draw(out.shape, "c16" if out.dtype.kind == "c" else "f8", 3)
    (back,) = grad(out, x, sw.tensor(g))
    assert back.dtype == x.dtype
    np.testing.assert_allclose(np.vdot(g, out.data).real, np.vdot(back.data, x.data).real, atol=1e-12)


def test_a_real_input_of_a_complex_transform_gets_a_real_gradient() -> None:
    x = sw.tensor(draw((4,), "f4"), requires_grad=True)
    fft.fft(x).real.sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == np.float32
    np.testing.assert_allclose(x.grad.data, [4.0, 0.0, 0.0, 0.0], atol=1e-6)


def test_power_is_kept() -> None:
    x = sw.tensor(draw((6,)), requires_grad=True)
    (abs(fft.fft(x, norm="ortho")) ** 2).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.data, 2 * x.data, atol=1e-13)


@pytest.mark.parametrize(("kind", "result"), [("f2", "c8"), ("i4", "c16"), ("?", "c16"), ("bfloat16", "c8")])
def test_other_dtypes(kind: str, result: str) -> None:
    a = np.array([1, 0, 1, 1]).astype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    for function in (fft.fft, fft.rfft):
        out = function(sw.tensor(a))
        assert out.dtype == np.dtype(result)
        np.testing.assert_allclose(out.data[:3], np.fft.fft(a.astype(float))[:3], atol=1e-6)


def test_empty_batches() -> None:
    x = sw.zeros(0, 4, requires_grad=True)
    out = fft.rfft(x)
    assert out.shape == (0, 3)
    (g,) = grad(abs(out).sum(), x)
    assert g.shape == (0, 4)


@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_frequencies(length: int) -> None:
    close(fft.fftfreq(length, 0.5), np.fft.fftfreq(length, 0.5).astype("f4"))
    close(fft.rfftfreq(length, 0.5, dtype=np.float64), np.fft.rfftfreq(length, 0.5))
    assert fft.fftfreq(length, requires_grad=True).requires_grad


@pytest.mark.parametrize("dim", [None, 0, -1, (0, 1)])
def test_shifts(dim: Any) -> None:
    a = draw((3, 4))
    close(fft.fftshift(sw.tensor(a), dim), np.fft.fftshift(a, dim))
    close(fft.ifftshift(sw.tensor(a), dim), np.fft.ifftshift(a, dim))
    close(np.fft.fftshift(sw.tensor(a), dim), np.fft.fftshift(a, dim))
    close(fft.ifftshift(fft.fftshift(sw.tensor(a), dim), dim), a)


def test_flops() -> None:
    with FlopCounter() as counter:
        fft.fft(sw.ones(3, 8))
        fft.rfft(sw.ones(3, 8))
    assert counter.by_op == {"Fourier": 3 * 5 * 8 * 3, "RealFourier": 3 * 5 * 8 * 3 // 2}


MESSAGES: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: fft.fft(sw.ones(3), 0), ArgumentError, "fft: wanted at least one point, got n=0"),
    (
        lambda: fft.fft(sw.ones(3), dim=1),
        ShapeError,
        "fft: there is no dim 1 among 1; wanted a number from -1 to 0",
    ),
    (lambda: fft.fft(sw.tensor(1.0)), ShapeError, "fft: wanted at least one dim, got a tensor without dims"),
    (
        lambda: fft.rfft(sw.tensor([1j])),
        DTypeError,
        "rfft takes real numbers, and got complex64; use fft",
    ),
    (lambda: fft.ihfft(sw.tensor([1j])), DTypeError, "ihfft takes real numbers, and got complex64; use ifft"),
    (
        lambda: fft.irfft(sw.ones(2, 1)),
        ShapeError,
        "irfft: wanted at least one point along dim 1, got 0 for shape (2, 1)",
    ),
    (
        lambda: fft.fft(sw.ones(0)),
        ShapeError,
        "fft: wanted at least one point along dim 0, got 0 for shape (0,)",
    ),
    (lambda: fft.fftn(sw.ones(2, 2), dim=(0, -2)), ShapeError, "fftn: a dim is named twice in (0, -2)"),
    (
        lambda: fft.fftn(sw.ones(2, 2), (1, 2, 3)),
        ShapeError,
        "fftn: got 3 sizes (1, 2, 3) for shape (2, 2); wanted at most 2",
    ),
    (
        lambda: fft.fft2(sw.ones(2, 2), (3,)),
        ArgumentError,
        "fft2: wanted as many sizes as dims, got (3,) for (-2, -1)",
    ),
    (
        lambda: fft.fft(sw.ones(2), norm="unit"),  # type: ignore[arg-type]
        ArgumentError,
        "fft: wanted norm to be 'backward', 'ortho' or 'forward', got 'unit'",
    ),
    (
        lambda: fft.rfftn(sw.ones(2), dim=()),
        ShapeError,
        "rfftn: wanted at least one dim to transform, got none for shape (2,)",
    ),
    (lambda: fft.fftfreq(0), ArgumentError, "fftfreq: wanted at least one point, got n=0"),
]


@pytest.mark.parametrize(("call", "error", "message"), MESSAGES)
def test_messages(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message
