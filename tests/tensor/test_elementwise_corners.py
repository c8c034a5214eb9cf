"""Gradients of elementwise ops where they are not smooth: ties, kinks, poles, NaN, infinity.

The values are PyTorch's (2.13), but for those marked as ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.tensor import grad

INF, NAN = np.inf, np.nan

ONE: list[tuple[str, float, float]] = [
    ("abs", 0.0, 0.0), ("abs", -INF, -1.0), ("relu", 0.0, 0.0), ("relu", NAN, 1.0), ("relu", INF, 1.0),
    ("sign", 0.0, 0.0), ("sqrt", 0.0, INF), ("sqrt", INF, 0.0), ("rsqrt", 0.0, -INF), ("cbrt", 0.0, INF),
    ("reciprocal", 0.0, -INF), ("log", 0.0, INF), ("log", -1.0, -1.0), ("log1p", -1.0, INF),
    ("exp", -INF, 0.0), ("expm1", -INF, 0.0), ("sigmoid", INF, 0.0), ("sigmoid", -INF, 0.0),
    ("sigmoid", -1000.0, 0.0), ("tanh", INF, 0.0), ("asin", 1.0, INF), ("acos", 1.0, -INF),
    ("acosh", 1.0, INF), ("asin", 2.0, NAN), ("atan", INF, 0.0), ("asinh", 1e300, 1e-300),
    ("atanh", 1.0, INF),
    ("logit", 0.0, INF), ("logit", 1.0, INF), ("logit", 2.0, NAN), ("erfinv", 1.0, INF), ("erf", INF, 0.0),
    ("sinc", 0.0, 0.0), ("nan_to_num", NAN, 0.0), ("nan_to_num", INF, 0.0), ("floor", 1.0, 0.0),
    ("round", 0.5, 0.0), ("frac", 1.0, 1.0), ("digamma", 0.0, INF), ("angle", -1.0, 0.0),
    ("square", 0.0, 0.0),
    ("sinc", 1e-30, -np.pi**2 / 3 * 1e-30),  # ours: PyTorch loses all digits there
]  # fmt: skip
TWO: list[tuple[str, float, float, float, float]] = [
    ("maximum", 2.0, 2.0, 0.5, 0.5), ("maximum", NAN, 1.0, 1.0, 1.0), ("minimum", 3.0, 3.0, 0.5, 0.5),
    ("maximum", INF, INF, 0.5, 0.5), ("minimum", -0.0, 0.0, 0.5, 0.5),
    ("fmax", 2.0, 2.0, 1.0, 0.0), ("fmax", NAN, 1.0, 0.0, 1.0), ("fmin", 1.0, NAN, 1.0, 0.0),
    ("pow", 0.0, 0.0, 0.0, 0.0), ("pow", 0.0, 2.0, 0.0, 0.0), ("pow", 0.0, 1.0, 1.0, 0.0),
    ("pow", 0.0, -1.0, -INF, -INF), ("pow", -2.0, 2.0, -4.0, NAN), ("pow", 0.0, 0.5, INF, 0.0),
    ("atan2", 0.0, 0.0, 0.0, 0.0), ("atan2", 1e-200, 1e-200, 5e199, -5e199),
    ("copysign", 0.0, -1.0, 0.0, 0.0),
    ("copysign", 2.0, -1.0, -1.0, 0.0), ("copysign", -2.0, -0.0, 1.0, 0.0),
    ("xlogy", 0.0, 0.0, 0.0, 0.0), ("xlogy", 0.0, 2.0, np.log(2.0), 0.0), ("xlogy", 0.0, NAN, NAN, NAN),
    ("xlogy", 1.0, 0.0, -INF, INF), ("div", 1.0, 0.0, INF, -INF), ("remainder", 5.0, -3.0, 1.0, 2.0),
    ("fmod", 5.0, 2.0, 1.0, -2.0), ("fmod", -5.0, 2.0, 1.0, 2.0), ("heaviside", 0.0, 0.5, 0.0, 1.0),
    ("logaddexp", INF, 1.0, 1.0, 0.0), ("logaddexp", -INF, 1.0, 0.0, 1.0),
    # ours, where PyTorch gives NaN: the limits, or the smallest subgradient
    ("hypot", 0.0, 0.0, 0.0, 0.0), ("logaddexp", -INF, -INF, 0.5, 0.5), ("logaddexp", INF, INF, 0.5, 0.5),
    # ours: no overflow and no underflow halfway
    ("div", 1.0, 1e200, 1e-200, 0.0), ("div", 1e200, 1e200, 1e-200, -1e-200),
    ("hypot", 3e200, 4e200, 0.6, 0.8),
]  # fmt: skip


def gradients(function: Callable[..., Any], *values: Any) -> list[Any]:
    inputs = [sw.tensor(np.array(value), requires_grad=True) for value in values]
    with np.errstate(all="ignore"):  # what NumPy says to the forward
        out = function(*inputs)
    return [g.item() for g in grad(out, inputs)]  # the backward says nothing


@pytest.mark.parametrize(("name", "value", "expected"), ONE)
def test_corners_of_one(name: str, value: float, expected: float) -> None:
    [found] = gradients(lambda x: getattr(x, name)(), value)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(("name", "a", "b", "da", "db"), TWO)
def test_corners_of_two(name: str, a: float, b: float, da: float, db: float) -> None:
    found = gradients(lambda x, y: getattr(x, name)(y), a, b)
    np.testing.assert_allclose(found, [da, db], rtol=1e-12)


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (0.0, 1.0, 2.0, (0, 1, 0)), (1.0, 1.0, 2.0, (1, 0, 0)), (2.0, 1.0, 2.0, (1, 0, 0)),
        (3.0, 1.0, 2.0, (0, 0, 1)), (1.5, 2.0, 1.0, (0, 0, 1)), (5.0, 2.0, 1.0, (0, 0, 1)),
        (NAN, 0.0, 1.0, (0, 0, 0)), (0.5, NAN, 1.0, (0, 0, 0)),
    ],
)  # fmt: skip
def test_clamp_at_and_beyond_its_bounds(
    value: float, low: float, high: float, expected: tuple[int, ...]
) -> None:
    assert tuple(gradients(lambda x, a, b: x.clamp(a, b), value, low, high)) == expected
    if not np.isnan(low):
        assert gradients(lambda x: x.clamp(low, high), value)[0] == (expected[0] if low < high else 0)


@pytest.mark.parametrize("exponent", [0, 1, 2, 0.5, -1, 3])
def test_powers_by_numbers_at_zero(exponent: float) -> None:
    expected = {0: 0.0, 1: 1.0, 2: 0.0, 0.5: INF, -1: -INF, 3: 0.0}[exponent]
    assert gradients(lambda x: x**exponent, 0.0) == [expected]


def test_second_derivatives_of_powers_at_zero() -> None:
    for exponent, expected in ((0, 0.0), (1, 0.0), (2, 2.0), (3, 0.0)):
        for given in (exponent, np.array(float(exponent))):
            x = sw.tensor(np.array(0.0), requires_grad=True)
            [first] = grad(x**given, x, create_graph=True)
            if not first.requires_grad:
                assert expected == 0.0
                continue
            [second] = grad(first, x, allow_unused=True)
            assert (0.0 if second is None else second.item()) == expected


def test_nothing_leaks_from_the_branch_that_was_not_taken() -> None:
    x = sw.tensor([np.nan, 1.0, np.inf], requires_grad=True)
    mask = x.isfinite()
    seed = np.array([np.nan, 1.0, np.inf], np.float32)
    for chosen in (
        x.where(mask, 0.0), sw.where(mask, x, 0.0), x.masked_fill(~mask, 0.0), np.where(mask, x, 0.0),
        np.where(~mask, sw.zeros(3), x),
    ):  # fmt: skip
        [found] = grad(chosen, x, seed)
        assert found.tolist() == [0.0, 1.0, 0.0]
    for name, lost in (("relu", [-1.0, 1.0, -2.0]), ("clamp_min", [-1.0, 1.0, -2.0])):
        y = sw.tensor(lost, requires_grad=True)
        out = y.relu() if name == "relu" else y.clamp_min(0.0)
        [found] = grad(out, y, seed)
        assert found.tolist() == [0.0, 1.0, 0.0], name
    a, b = (sw.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    found, _ = grad(a.maximum(b * 2.0), [a, b], np.array([INF, NAN], np.float32))
    assert found.tolist() == [0.0, 0.0]


def test_steps_have_gradients_of_zero_and_not_none() -> None:
    for name in ("floor", "ceil", "trunc", "round", "sign"):
        x = sw.tensor([0.3, -1.7], requires_grad=True)
        getattr(x, name)().sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [0.0, 0.0]
    x = sw.tensor([5.0], requires_grad=True)
    (x // 2.0).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0]


def test_answers_that_are_no_floats_have_no_gradient() -> None:
    x = sw.tensor([0.5, -1.0], requires_grad=True)
    for out in (x > 0, x == x, x.isnan(), x.signbit(), x.logical_not(), x.isclose(x), x.isposinf()):
        assert not out.requires_grad
        assert out.dtype == np.bool_


def test_gradients_keep_float32() -> None:
    x = sw.tensor([0.25, 0.5], requires_grad=True)
    y = sw.tensor([0.75, 0.5], requires_grad=True)
    names = ("pow", "atan2", "hypot", "xlogy", "xlog1py", "logaddexp", "fmod", "maximum", "ldexp", "div")
    for name in names:
        for other in (y, 0.5):
            out = getattr(x, name)(other)
            assert out.dtype == np.float32, name
            assert all(g.dtype == np.float32 for g in grad(out, [x], np.ones(2, np.float32)))
    assert (2.0**x).dtype == np.arctan2(1.0, x).dtype == np.float32


@pytest.mark.parametrize("name", ["xlogy", "xlog1py", "pow"])
def test_logarithms_are_as_exact_as_the_result(name: str) -> None:
    narrow = sw.tensor([0.3, 0.9])
    wide = sw.tensor(np.array([1.5, 2.0]), requires_grad=True)
    out = getattr(wide, name)(narrow)
    same = getattr(wide, name)(narrow.astype(np.float64))
    np.testing.assert_array_equal(out.data, same.data)
    seed = np.ones(2)
    np.testing.assert_array_equal(grad(out, wide, seed)[0].data, grad(same, wide, seed)[0].data)
