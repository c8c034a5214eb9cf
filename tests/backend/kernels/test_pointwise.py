"""Rectifiers, sigmoids and choices: fused code against its formula in double precision, in ulp."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special as scipy_special

from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.activation import erf
from shardwise.backend.kernels.choice import fill, select, where
from shardwise.backend.kernels.kernel import Kernel
from shardwise.backend.kernels.rectifier import (
    elu_backward,
    elu_forward,
    leaky_relu_backward,
    leaky_relu_forward,
    relu_backward,
    relu_forward,
)
from shardwise.backend.kernels.sigmoid import (
    sigmoid_backward,
    sigmoid_forward,
    softplus_backward,
    softplus_tail,
    tanh_backward,
)

DTYPES = [np.float32, np.float64]
ELU = (1.3, 1.05, 1.0)  # a rate would be rounded, and so would the exponent
ONE: list[tuple[Kernel, tuple[float, ...], float]] = [  # kernel, parameters, ulp allowed
    (relu_forward, (), 0),
    (leaky_relu_forward, (0.01,), 1),
    (elu_forward, ELU, 3),
    (sigmoid_forward, (), 3),
    (softplus_tail, (), 3),
    (erf, (), 1),
]
TWO: list[tuple[Kernel, tuple[float, ...], float]] = [
    (relu_backward, (), 0),
    (leaky_relu_backward, (0.01,), 1),
    (elu_backward, ELU, 3),
    (softplus_backward, (1.0, 20.0), 4),
]
OF_RESULT = [sigmoid_backward, tanh_backward]
EDGES = [
    np.nan,
    np.inf,
    -np.inf,
    0.0,
    -0.0,
    1e-42,
    -1e-38,
    1e-20,
    -1e-20,
    3e4,
    -3e4,
    1e30,
    -1e30,
    88.0,
    -88.0,
]


def grid(dtype: type[np.floating]) -> np.ndarray:
    return np.concatenate([np.linspace(-20, 20, 20_001), np.geomspace(1e-30, 1, 500)]).astype(dtype)


def in_ulp(result: np.ndarray, exact: np.ndarray) -> float:
    unit = np.spacing(np.maximum(np.abs(exact), np.finfo(result.dtype).tiny).astype(result.dtype))
    return float(np.max(np.abs(result.astype(np.longdouble) - exact) / unit))


def wide(*arrays: np.ndarray) -> list[np.ndarray]:
    """With more precision than float64 has, where the machine can."""
    return [array.astype(np.longdouble) for array in arrays]


@pytest.mark.parametrize(("kernel", "params", "ulp"), ONE[:-1], ids=lambda v: getattr(v, "name", ""))
@pytest.mark.parametrize("dtype", DTYPES)
def test_error_of_forward(
    kernel: Kernel, params: tuple[float, ...], ulp: float, dtype: type[np.floating]
) -> None:
    x = grid(dtype)
    assert kernel.fused(x, *params).dtype == dtype
    assert in_ulp(kernel.fused(x, *params), kernel.plain(*wide(x), *params)) <= ulp


def test_error_of_erf() -> None:
    x = np.concatenate([grid(np.float32), -grid(np.float32)])
    assert in_ulp(erf.fused(x), scipy_special.erf(x.astype(np.float64))) <= 1


@pytest.mark.parametrize(("kernel", "params", "ulp"), TWO, ids=lambda v: getattr(v, "name", ""))
@pytest.mark.parametrize("dtype", DTYPES)
def test_error_of_backward(
    kernel: Kernel, params: tuple[float, ...], ulp: float, dtype: type[np.floating]
) -> None:
    x = grid(dtype)
    g = np.cos(x) + dtype(2)
    assert kernel.fused(g, x, *params).dtype == dtype
    assert in_ulp(kernel.fused(g, x, *params), kernel.plain(*wide(g, x), *params)) <= ulp


@pytest.mark.parametrize("kernel", OF_RESULT, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("dtype", DTYPES)
def test_error_of_backward_from_the_result(kernel: Kernel, dtype: type[np.floating]) -> None:
    y = np.linspace(-0.99, 0.99, 4001).astype(dtype)
    g = np.cos(y)
    assert in_ulp(kernel.fused(g, y), kernel.plain(*wide(g, y))) <= 4


@pytest.mark.parametrize(("kernel", "params", "ulp"), [*ONE, *TWO], ids=lambda v: getattr(v, "name", ""))
@pytest.mark.parametrize("dtype", DTYPES)
def test_edges(kernel: Kernel, params: tuple[float, ...], ulp: float, dtype: type[np.floating]) -> None:
    x = np.array(EDGES, dtype)
    arrays = (x,) if kernel in [one for one, _, _ in ONE] else (np.full_like(x, 2), x)
    fused, plain = (
        kernel.fused(*arrays, *params),
        kernel.plain(*[a.astype(np.float64) for a in arrays], *params),
    )
    np.testing.assert_array_equal(np.isnan(fused), np.isnan(plain))
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_allclose(fused, plain.astype(dtype), rtol=1e-6, atol=np.finfo(dtype).tiny)


def test_sigmoid_is_exact_on_both_sides() -> None:
    x = np.array([-80.0, -50.0, 50.0], np.float32)
    np.testing.assert_allclose(sigmoid_forward.fused(x), scipy_special.expit(x.astype(np.float64)), rtol=3e-7)
    assert sigmoid_forward.fused(np.array([-200.0], np.float32)) == 0
    assert sigmoid_forward(np.array([1 + 2j])).dtype == np.complex128


def test_nan_goes_through_relu_and_its_gradient() -> None:
    x = np.array([np.nan, 1.0, -1.0, 0.0], np.float32)
    np.testing.assert_array_equal(relu_forward.fused(x), [np.nan, 1, 0, 0])
    np.testing.assert_array_equal(relu_backward.fused(np.full_like(x, 7), x), [7, 7, 0, 0])
    assert relu_backward.fused(np.full(1, np.nan), np.zeros(1)) == 0  # whatever arrives


LAYOUTS: list[Callable[[np.ndarray], np.ndarray]] = [
    lambda x: x.T,
    lambda x: x[::-1, ::2],
    lambda x: x.transpose(1, 2, 0),
    lambda x: np.broadcast_to(x[:, :1], x.shape),
    lambda x: x[1:2],
    lambda x: x[:0],
    lambda x: x[0, 0, 0],
    lambda x: x[..., 0][:, ::-1],
    lambda x: np.asfortranarray(x),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("other", [lambda x: x, lambda x: np.array(x, order="C")])
def test_layouts_do_not_matter(layout: Callable, other: Callable) -> None:
    x = layout(np.random.default_rng(0).standard_normal((4, 5, 6)).astype(np.float32))
    x = np.asarray(x)
    g = other(np.cos(x))
    np.testing.assert_array_equal(relu_forward.fused(x), relu_forward.plain(x))
    np.testing.assert_array_equal(relu_backward.fused(g, x), relu_backward.plain(g, x))
    np.testing.assert_array_equal(relu_backward.fused(x, g), relu_backward.plain(x, g))
    condition = other(x > 0)
    np.testing.assert_array_equal(select.fused(x, g, condition), select.plain(x, g, condition))
    np.testing.assert_array_equal(fill.fused(x, condition, 3.0, True), fill.plain(x, condition, 3.0, True))
    assert relu_forward.fused(x).shape == x.shape


def test_results_are_laid_out_like_their_inputs() -> None:
    x = np.ones((3, 4), np.float32).T
    assert relu_forward.fused(x).strides == relu_backward.fused(x, x).strides == x.strides


def test_misaligned_arrays() -> None:
    x = np.random.default_rng(1).standard_normal((3, 5)).astype(np.float32)
    misaligned = np.frombuffer(b"\0" + x.tobytes(), np.float32, offset=1).reshape(x.shape)
    assert not misaligned.flags.aligned
    np.testing.assert_array_equal(relu_forward.fused(misaligned), relu_forward.plain(x))
    np.testing.assert_array_equal(relu_forward.fused(misaligned.T), relu_forward.plain(x).T)
    np.testing.assert_array_equal(
        relu_backward.fused(misaligned.T, misaligned.T), relu_backward.plain(x, x).T
    )


def test_gradients_of_another_shape() -> None:
    with pytest.raises(ShapeError) as caught:
        relu_backward.fused(np.ones(3, np.float32), np.ones(4, np.float32))
    assert str(caught.value) == (
        "relu_backward: the gradient has shape (3,), and the input (4,); wanted the same."
    )


# ---- choices

SHAPES = st.sampled_from(
    [((3, 4), (3, 4)), ((2, 3, 4), (3, 4)), ((2, 3, 4), (4,)), ((3, 4), (3, 1)), ((4,), (3, 4)), ((), ()),
     ((0, 3), (3,)), ((2, 3), (1, 3)), ((2, 0), (0,))]
)  # fmt: skip


@given(shapes=SHAPES, at=st.booleans(), dtype=st.sampled_from(DTYPES), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_fill_is_where(shapes: tuple, at: bool, dtype: type[np.floating], seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, condition = np.asarray(rng.standard_normal(shapes[0]), dtype), np.asarray(rng.random(shapes[1]) < 0.5)
    expected = np.where(condition, 0.5, a) if at else np.where(condition, a, 0.5)
    result = fill.fused(a, condition, 0.5, at)
    np.testing.assert_array_equal(result, expected)
    assert result.dtype == dtype


@given(shapes=SHAPES, dtype=st.sampled_from(DTYPES), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_select_is_where(shapes: tuple, dtype: type[np.floating], seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (np.asarray(rng.standard_normal(shapes[i]), dtype) for i in (0, 1))
    condition = np.asarray(rng.random(shapes[1]) < 0.5)
    np.testing.assert_array_equal(select.fused(a, b, condition), np.where(condition, a, b))


def test_what_was_not_chosen_does_not_count() -> None:
    a, b = np.array([np.nan, 1.0, -0.0], np.float32), np.array([np.inf, np.nan, 5.0], np.float32)
    condition = np.array([False, True, True])
    result = select.fused(a, b, condition)
    np.testing.assert_array_equal(result, [np.inf, 1, 0])
    assert np.signbit(result[2])
    np.testing.assert_array_equal(fill.fused(a, condition, np.inf, False), [np.inf, 1, 0])


def test_where_takes_numbers_integers_and_narrow_floats() -> None:
    condition = np.array([True, False])
    for a, b in [
        (1.0, np.array([2.0, 3.0], np.float32)),
        (np.array([2.0, 3.0]), 1.0),
        (1, np.array([2, 3])),
        (np.array([2, 3]), np.array([4.5, 5.5], np.float32)),
        (np.array([2.0, 3.0], np.float16), 1.0),
        (1.0, np.array([2.0, 3.0], np.float16)),
    ]:
        for mask in (condition, np.array([3, 0])):
            result, expected = where(mask, a, b), np.where(mask, a, b)
            np.testing.assert_array_equal(result, expected)
            assert result.dtype == expected.dtype
