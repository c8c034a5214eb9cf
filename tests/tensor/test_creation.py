"""New tensors: of values, of constants, of ranges, of another's kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shardwise as sw
from shardwise.errors import ArgumentError, DTypeError, ShapeError
from shardwise.tensor import gradcheck, gradgradcheck
from shardwise.tensor.complex import complex as as_complex
from shardwise.tensor.complex import polar
from shardwise.tensor.constant import empty, empty_like, full, full_like, ones_like, zeros_like
from shardwise.tensor.creation import (
    arange,
    as_tensor,
    asarray,
    eye,
    linspace,
    logspace,
    scalar_tensor,
)
from shardwise.tensor.sampling import rand, randn


def test_values() -> None:
    assert sw.tensor([[1, 2.5]]).dtype == np.float32
    assert sw.tensor([np.float64(1.0)]).dtype == np.float64
    assert sw.tensor([np.ones(2), np.zeros(2)]).tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert sw.tensor([sw.tensor(1.0, requires_grad=True), sw.tensor(2.0)]).tolist() == [1.0, 2.0]
    assert sw.tensor(((sw.tensor([1]),), (sw.tensor([2]),))).tolist() == [[[1]], [[2]]]
    assert sw.tensor(range(3)).tolist() == [0, 1, 2]
    with pytest.raises(ShapeError, match="cannot make a tensor of sequences of different lengths"):
        sw.tensor([[1, 2], [3]])
    with pytest.raises(DTypeError, match="cannot make a tensor of object values"):
        sw.tensor(None)
    with pytest.raises(DTypeError, match="tensor: 'real' is no dtype"):
        sw.tensor([1], dtype="real")


def test_memory_is_shared_where_it_can_be() -> None:
    array = np.ones(3)
    assert np.shares_memory(asarray(array).data, array)
    assert not np.shares_memory(asarray(array, copy=True).data, array)
    with pytest.raises(ArgumentError, match="asarray: copy=False, and a copy would be needed"):
        asarray(array, dtype=np.float32, copy=False)
    leaf = asarray(array, requires_grad=True)
    assert leaf.requires_grad
    cast = as_tensor(leaf, dtype=np.float32)
    cast.sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [1.0] * 3
    assert as_tensor(leaf) is leaf


@pytest.mark.parametrize("make", [sw.zeros, sw.ones, empty, rand, randn])
def test_sizes(make: Callable[..., Any]) -> None:
    for x in (make(2, 3), make((2, 3)), make([2, 3]), make(size=(2, 3)), make(np.int64(2), 3)):
        assert (x.shape, x.dtype, x.requires_grad) == ((2, 3), np.float32, False)
    assert make().shape == make(()).shape == ()
    assert make(0, 2, dtype=np.float64).dtype == np.float64
    assert make(2, dtype=None, requires_grad=True).requires_grad
    with pytest.raises(ArgumentError, match="sizes must be integers of at least 0"):
        make(2, -1)


@pytest.mark.parametrize("make", [sw.zeros, sw.ones, empty, rand, randn])
def test_nothing_is_allocated_for_shapes(make: Callable[..., Any]) -> None:
    x = make(10**6, 10**9, device="shape", dtype="bfloat16")
    assert (x.shape, x.dtype, x.device) == ((10**6, 10**9), ml_dtypes.bfloat16, "shape")


def test_constants() -> None:
    assert sw.zeros(2).tolist() == [0.0, 0.0]
    assert sw.ones(2, dtype=np.bool_).tolist() == [True, True]
    assert (full((2,), 3).dtype, full((2,), 3.0).dtype, full(2, True).dtype) == (
        np.int64,
        np.float32,
        np.bool_,
    )
    assert full((2,), fill_value=3, dtype=np.complex64).tolist() == [3.0, 3.0]
    assert (scalar_tensor(3).dtype, scalar_tensor(3, dtype=np.int8).item()) == (np.float32, 3)
    assert eye(2, 3).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert (eye(0).shape, eye(2, dtype=np.int64).dtype) == ((0, 0), np.int64)


def test_like_another() -> None:
    x = sw.ones(2, 3, dtype=np.float16)
    for y, value in ((zeros_like(x), 0.0), (ones_like(x), 1.0), (full_like(x, 7), 7.0)):
        assert (y.shape, y.dtype, y[0, 0].item()) == (x.shape, x.dtype, value)
    assert empty_like(x, dtype=np.int8).dtype == np.int8
    assert zeros_like(x, requires_grad=True).requires_grad
    assert ones_like(sw.zeros(2, device="shape")).is_meta
    assert zeros_like(x, device="shape").is_meta
    assert zeros_like(np.ones(2)).tolist() == [0.0, 0.0]  # type: ignore[arg-type]


def test_new_of_the_same_kind() -> None:
    x = sw.ones(2, dtype=np.float64, requires_grad=True)
    assert (x.new_zeros(2, 3).shape, x.new_zeros((2, 3)).dtype) == ((2, 3), np.float64)
    assert (x.new_ones(1).tolist(), x.new_full((2,), 7).tolist()) == ([1.0], [7.0, 7.0])
    assert x.new_empty(3, dtype=np.int64).dtype == np.int64
    assert (x.new_tensor([1, 2]).dtype, x.new_tensor(3.0, requires_grad=True).requires_grad) == (
        np.float64,
        True,
    )
    assert not x.new_zeros(1).requires_grad
    assert x.new_zeros(2, device="shape").is_meta
    assert sw.zeros(1, device="shape").new_ones(3).is_meta
    with pytest.raises(DTypeError, match="only floating-point and complex tensors can require grad"):
        x.new_ones(1, dtype=np.int64, requires_grad=True)


@given(st.integers(-5, 5), st.integers(-5, 5), st.sampled_from([-3, -1, 1, 2, 0.5, -0.75]))
def test_ranges_are_numpy_s(start: int, end: int, step: float) -> None:
    if (end - start) * step < 0:
        with pytest.raises(
            ArgumentError, match=f"arange: cannot go from {start} to {end} by steps of {step}"
        ):
            arange(start, end, step)
        return
    x = arange(start, end, step)
    assert x.tolist() == np.arange(start, end, step).tolist()
    assert x.dtype == (np.int64 if isinstance(step, int) else np.float32)


def test_ranges() -> None:
    assert arange(3).tolist() == arange(end=3).tolist() == arange(0, 3).tolist() == [0, 1, 2]
    assert arange(1, 2, step=0.5).tolist() == arange(start=1, end=2, step=0.5).tolist() == [1.0, 1.5]
    assert arange(3, dtype=np.float64, requires_grad=True).requires_grad
    with pytest.raises(ArgumentError, match="arange: wanted"):
        arange()
    with pytest.raises(ArgumentError, match="by steps of 0"):
        arange(0, 1, 0)
    assert linspace(0, 1, 5).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert (linspace(0, 1, 1).tolist(), linspace(0, 1, 0).shape) == ([0.0], (0,))
    assert linspace(0, 4, 5, dtype=np.int64).tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(logspace(-1, 1, 3).data, [0.1, 1.0, 10.0], rtol=1e-6)
    assert logspace(0, 3, 4, base=2).tolist() == [1.0, 2.0, 4.0, 8.0]
    with pytest.raises(ArgumentError, match="linspace: wanted steps of 0 or more, got -1"):
        linspace(0, 1, -1)


def test_complex_numbers_of_their_parts() -> None:
    real, imag = np.array([[1.0], [-2.0]]), np.array([0.5, np.inf])
    z = as_complex(sw.tensor(real), sw.tensor(imag))
    assert z.dtype == np.complex128
    np.testing.assert_array_equal(z.data.real, np.broadcast_to(real, (2, 2)))
    np.testing.assert_array_equal(z.data.imag, np.broadcast_to(imag, (2, 2)))
    assert as_complex(sw.tensor(1.0), sw.tensor(2.0)).item() == 1 + 2j
    length, angle = sw.tensor([1.0, 2.0]), sw.tensor([0.3, -2.0])
    np.testing.assert_allclose(polar(length, angle).data, length.data * np.exp(1j * angle.data), rtol=1e-6)
    with pytest.raises(DTypeError, match="complex: wanted float32 or float64, got int64"):
        as_complex(sw.tensor([1]), sw.tensor([1.0]))


def test_gradients_of_parts() -> None:
    def make(*shape: int, seed: int) -> sw.Tensor:
        return sw.tensor(np.random.default_rng(seed).standard_normal(shape), requires_grad=True)

    a, b = make(2, 1, seed=0), make(3, seed=1)
    for function in (as_complex, polar):
        assert gradcheck(function, (a, b))
        assert gradgradcheck(function, (a, b))
    assert as_complex(a.to("shape"), b.to("shape")).shape == (2, 3)
