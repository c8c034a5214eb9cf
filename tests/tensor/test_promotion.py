"""Dtypes of binary ops: NumPy 2's rules, with Python's numbers weak."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw

DTYPES = ["?", "i1", "u1", "i2", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "==": operator.eq, "<": operator.lt, "&": operator.and_,
    "<<": operator.lshift, "maximum": np.maximum, "hypot": np.hypot, "arctan2": np.arctan2, "where": None,
}  # fmt: skip
OPERATORS["where"] = lambda a, b: np.where(np.ones(2, bool), a, b)
NUMBERS: list[Any] = [True, 2, -1, 2.5, 1j]
# Floats of 16 bits are computed in float32: with integers that these hold the result is narrow again,
# where NumPy would have gone to the wider float.
NARROW_WINS = {("f2", "i2")}


def outcome(function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """The dtype and values that a call gives, or that it raises."""
    with np.errstate(all="ignore"):
        try:
            result = function(a, b)
        except (TypeError, ValueError, OverflowError):
            return "refused"
    return getattr(result, "data", result) if isinstance(result, sw.Tensor) else result


def agree(ours: Any, numpys: Any) -> None:
    if isinstance(numpys, str) or isinstance(ours, str):
        assert isinstance(ours, str) == isinstance(numpys, str), (ours, numpys)
        return
    assert ours.dtype == numpys.dtype
    np.testing.assert_allclose(ours, numpys, rtol=2e-3 if numpys.dtype == np.float16 else 1e-5)


@pytest.mark.parametrize("symbol", OPERATORS)
@pytest.mark.parametrize("first", DTYPES)
def test_pairs_of_dtypes(symbol: str, first: str) -> None:
    function = OPERATORS[symbol]
    for second in DTYPES:
        if (first, second) in NARROW_WINS or (second, first) in NARROW_WINS:
            continue
        a, b = np.array([1, 3]).astype(first), np.array([2, 1]).astype(second)
        expected = outcome(function, a, b)
        agree(outcome(function, sw.tensor(a), sw.tensor(b)), expected)
        agree(outcome(function, sw.tensor(a), b), expected)


@pytest.mark.parametrize("symbol", OPERATORS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_are_weak(symbol: str, dtype: str) -> None:
    function = OPERATORS[symbol]
    a = np.array([1, 3]).astype(dtype)
    for number in NUMBERS:
        agree(outcome(function, sw.tensor(a), number), outcome(function, a, number))
        if symbol != "where":
            agree(outcome(function, number, sw.tensor(a)), outcome(function, number, a))


def test_dims_do_not_matter() -> None:
    zero_dimensional = sw.tensor(np.array(2.0))
    assert (sw.tensor([1.0]) + zero_dimensional).dtype == np.float64
    assert (sw.tensor([1]) * 2.5).dtype == np.float64
    assert (sw.tensor([1.0]) * 2).dtype == np.float32


def test_division_of_integers_gives_float64() -> None:
    # PyTorch gives its default dtype, float32, which cannot hold every int32.
    assert (sw.tensor([1]) / sw.tensor([2])).dtype == np.float64
    assert (sw.tensor([True]) / 2).dtype == np.float64


@pytest.mark.parametrize("first", ["f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("second", ["f2", "f4", "f8", "c8", "c16"])
def test_gradients_have_the_dtype_of_their_input(first: str, second: str) -> None:
    for function in (operator.add, operator.mul, operator.truediv, operator.pow):
        a = sw.tensor(np.array([1.5, 2.0]).astype(first), requires_grad=True)
        b = sw.tensor(np.array([0.5, 2.0]).astype(second), requires_grad=True)
        out = function(a, b)
        (out.abs() if out.dtype.kind == "c" else out).sum().backward()
        assert a.grad is not None
        assert b.grad is not None
        assert (a.grad.dtype, b.grad.dtype) == (a.dtype, b.dtype)


def test_operands_of_any_kind() -> None:
    x = sw.tensor([1.0, 2.0])
    for other in (np.array([1.0, 2.0], np.float32), np.float32(2.0), sw.tensor(2.0), [1.0, 2.0]):
        assert isinstance(x * other, sw.Tensor)
        assert isinstance(np.multiply(other, x), sw.Tensor)
    for left in (np.array([1.0, 2.0]), np.float64(2.0), 3, 2.5):
        for function in (
            operator.add,
            operator.sub,
            operator.mul,
            operator.truediv,
            operator.pow,
            operator.mod,
        ):
            result = function(left, x)
            assert isinstance(result, sw.Tensor)
            np.testing.assert_allclose(result.data, function(left, x.data), rtol=1e-6)
