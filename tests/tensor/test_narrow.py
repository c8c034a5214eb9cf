"""Floats of 16 bits: computed in float32, stored rounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import shardwise as sw
from shardwise.nn import functional as F
from shardwise.tensor import grad

NARROW = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]

OPS: dict[str, Callable[..., sw.Tensor]] = {
    "add a number": lambda a, b: a + 1.5,
    "number minus": lambda a, b: 2.0 - a,
    "add": lambda a, b: a + b,
    "divide": lambda a, b: a / (b * b + 1.0),
    "power": lambda a, b: a**2,
    "exp": lambda a, b: a.exp(),
    "tanh": lambda a, b: a.tanh(),
    "matmul": lambda a, b: a @ b.T,
    "sum": lambda a, b: (a + b).sum(0),
    "mean": lambda a, b: a.mean(),
    "softmax": lambda a, b: a.softmax(-1),
    "gelu": lambda a, b: F.gelu(a),
    "layer_norm": lambda a, b: F.layer_norm(a, 6),
    "linear": lambda a, b: F.linear(a, b),
    "attention": lambda a, b: F.scaled_dot_product_attention(a, b, b, is_causal=True),
    "slice": lambda a, b: a[1:, ::2],
    "cat": lambda a, b: sw.cat([a, b], 1),
    "index": lambda a, b: a[np.array([0, 0, 2])],
}


def values(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", OPS)
def test_an_op_is_that_of_float32_rounded(name: str, dtype: np.dtype[Any]) -> None:
    a, b = (sw.tensor(values(4, 6, seed=i).astype(dtype), requires_grad=True) for i in (0, 1))
    wide = [sw.tensor(t.data.astype(np.float32), requires_grad=True) for t in (a, b)]
    out, wanted = OPS[name](a, b), OPS[name](*wide)
    assert out.dtype == dtype
    eps = float(ml_dtypes.finfo(dtype).eps)
    scale = float(np.abs(wanted.data).max()) + 1.0
    np.testing.assert_allclose(out.data.astype(np.float32), wanted.data, rtol=0, atol=3 * eps * scale)
    g = values(*out.shape, seed=2).astype(dtype)
    out.backward(sw.tensor(g))
    wanted.backward(sw.tensor(g.astype(np.float32)))
    for narrow, full in zip((a, b), wide, strict=True):
        if full.grad is None:
            assert narrow.grad is None
            continue
        assert narrow.grad is not None
        assert narrow.grad.dtype == dtype
        scale = float(np.abs(full.grad.data).max()) + 1.0
        np.testing.assert_allclose(
            narrow.grad.data.astype(np.float32), full.grad.data, rtol=0, atol=8 * eps * scale
        )


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_a_sum_is_made_in_float32(dtype: np.dtype[Any]) -> None:
    x = sw.tensor(np.full(4096, 1.0, dtype))  # eleven bits cannot count to 4096 by ones
    assert x.sum().item() == 4096.0
    assert x.mean().item() == 1.0


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_float32_among_the_inputs_wins(dtype: np.dtype[Any]) -> None:
    x, y = sw.tensor(np.ones(3, dtype), requires_grad=True), sw.tensor(values(3), requires_grad=True)
    out = x * y
    assert out.dtype == np.float32
    out.sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    assert (x.grad.dtype, y.grad.dtype) == (dtype, np.float32)


def test_two_narrow_dtypes_give_float32() -> None:
    a, b = (sw.tensor(np.ones(3, dtype)) for dtype in NARROW)
    assert (a + b).dtype == np.float32


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_an_explicit_dtype_is_kept(dtype: np.dtype[Any]) -> None:
    x = sw.tensor(np.ones(3, dtype), requires_grad=True)
    total = x.sum(dtype=np.float32)
    assert total.dtype == np.float32
    total.backward()
    assert x.grad is not None
    assert x.grad.dtype == dtype
    assert x.astype(np.float64).dtype == np.float64


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_what_is_saved_is_narrow(dtype: np.dtype[Any]) -> None:
    x = sw.tensor(values(5).astype(dtype), requires_grad=True)
    for out in (x.exp(), x.sin(), x * x):
        assert out.node is not None
        assert {array.dtype for array in out.node.saved} == {dtype}


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_views_share_memory(dtype: np.dtype[Any]) -> None:
    x = sw.tensor(values(2, 3).astype(dtype))
    assert np.shares_memory(x.T.data, x.data)
    assert np.shares_memory(x[0].data, x.data)


def test_beyond_the_range_lies_infinity() -> None:
    x = sw.tensor(np.array([60000.0], np.float16), requires_grad=True)
    y = x * 2.0
    assert y.item() == np.inf
    (x.astype(np.float32) * 1e6).backward()  # so does the gradient
    assert x.grad is not None
    assert x.grad.item() == np.inf


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_gradients_of_gradients(dtype: np.dtype[Any]) -> None:
    x = sw.tensor(np.array([0.5, 1.5], dtype), requires_grad=True)
    (g,) = grad((x**3).sum(), x, create_graph=True)
    assert g.dtype == dtype
    g.sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == dtype
    np.testing.assert_allclose(x.grad.data.astype(np.float32), [3.0, 9.0], rtol=0.02)


def test_narrow_integers_stay_integers() -> None:
    x = sw.tensor(np.array([1, 2], np.int16))
    assert (x + 1).dtype == np.int16
    assert (x * x).tolist() == [1, 4]
