"""Matrix products: NumPy's values by faster ways, complex gradients, and what does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardwise as sw
from shardwise.backend.array import Array
from shardwise.errors import ShapeError
from shardwise.tensor import grad

SHAPES = [
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)),
    ((3,), (3,)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((4, 1), (1, 5)),
    ((3, 4, 1), (1, 5)),
    ((4, 1), (1,)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
]


def draw(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed + sum(shape))
    if dtype.startswith("i"):
        return rng.integers(-9, 9, shape).astype(dtype)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if dtype.startswith("c") else values).astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "i4", "i8"])
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_values_and_dtypes_are_numpy_s(a: tuple[int, ...], b: tuple[int, ...], dtype: str) -> None:
    x, y = draw(a, dtype), draw(b, dtype, 1)
    out = sw.tensor(x) @ sw.tensor(y)
    expected = np.asarray(np.matmul(x, y))
    assert out.dtype == expected.dtype
    np.testing.assert_allclose(out.data, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kinds", ["cc", "cr", "rc"])
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_complex_gradients(a: tuple[int, ...], b: tuple[int, ...], kinds: str) -> None:
    """The real loss ``Re sum(conj(g) * (x @ y))`` is bilinear, so that one step is its derivative."""
    values = [
        draw(s, "c16" if k == "c" else "f8", i) for i, (s, k) in enumerate(zip((a, b), kinds, strict=True))
    ]
    x, y = (sw.tensor(v, requires_grad=True) for v in values)
    out = x @ y
    seed = draw(out.shape, "c16", 5)
    gradients = grad(out, [x, y], sw.tensor(seed))
    for i, gradient in enumerate(gradients):
        assert gradient.dtype == values[i].dtype
        step = draw(values[i].shape, values[i].dtype.str[1:], 9)
        moved = [step if j == i else v for j, v in enumerate(values)]
        change = np.sum(np.conj(seed) * np.matmul(*moved)).real
        np.testing.assert_allclose(np.sum(np.conj(gradient.data) * step).real, change, atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(
    dtype=st.sampled_from(["i1", "u1", "i2", "i4", "u4", "i8", "u8"]),
    top=st.integers(1, 2**62),
    seed=st.integers(0, 99),
)
def test_large_products_of_integers_are_exact(dtype: str, top: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    limit = min(top, int(np.iinfo(dtype).max))
    a = rng.integers(0, limit, (40, 30), dtype=dtype, endpoint=True)
    b = rng.integers(0, limit, (30, 50), dtype=dtype, endpoint=True)
    out = (sw.tensor(a) @ sw.tensor(b)).data
    expected = np.matmul(a, b)
    assert out.dtype == expected.dtype
    np.testing.assert_array_equal(out, expected)


def test_vectors_that_blas_does_not_take() -> None:
    a, v = draw((4, 6), "f8"), draw((6,), "f8")
    for vector in (v[::-1], np.broadcast_to(v[:1], (6,)), np.concatenate([v, v])[::2]):
        x, w = sw.tensor(a, requires_grad=True), sw.as_tensor(vector)
        out = x @ w
        np.testing.assert_allclose(out.data, a @ vector)
        out.sum().backward()
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.data, np.broadcast_to(vector, (4, 6)))


def test_a_weight_s_gradient_goes_into_its_sink_unless_it_has_to_become_real() -> None:
    for dtype in ("f8", "c16"):
        x, w = sw.tensor(draw((4, 3, 2), dtype)), sw.tensor(draw((2, 5), "f8"), requires_grad=True)
        sink = np.zeros((2, 5))
        w.grad_into(sink)
        out = x @ w
        out.backward(sw.tensor(np.ones(out.shape, dtype)))
        rows = x.data.reshape(12, 2)
        np.testing.assert_allclose(sink, (rows.conj().T @ np.ones((12, 5))).real)


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [
        (
            (2, 3),
            (4, 5),
            "the last dim of the first has size 3, and dim -2 of the second has size 4; they must be equal",
        ),
        (
            (7, 2, 3),
            (4, 5),
            "the last dim of the first has size 3, and dim -2 of the second has size 4; they must be equal",
        ),
        (
            (2, 3),
            (4,),
            "the last dim of the first has size 3, and the dim of the second has size 4; they must be equal",
        ),
        ((2, 1, 3), (3, 3, 4), "the batch dims (2,) and (3,) do not broadcast"),
    ],
)
def test_shapes_that_do_not_fit(a: tuple[int, ...], b: tuple[int, ...], why: str) -> None:
    with pytest.raises(ShapeError) as caught:
        sw.zeros(*a) @ sw.zeros(*b)
    assert str(caught.value) == f"matmul: cannot multiply shapes {a} and {b}: {why}"


@pytest.mark.parametrize(
    "operands", [(sw.ones(2, 2), 3.0), (sw.tensor(3.0), sw.ones(2)), (2.0, sw.ones(2, 2))]
)
def test_numbers_are_refused(operands: tuple[Any, Any]) -> None:
    with pytest.raises(ShapeError, match=r"matmul: input [01] has no dims, .* Multiply by a number with \*$"):
        operands[0] @ operands[1]
