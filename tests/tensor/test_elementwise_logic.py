"""Bits of integers, logic of booleans, divisors: values, mixing, and what is refused."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.errors import DTypeError

INTEGERS = ["i1", "u1", "i4", "i8"]
OPERATORS: dict[str, Any] = {
    "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
    "bitwise_left_shift": operator.lshift, "bitwise_right_shift": operator.rshift,
}  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", OPERATORS)
def test_bits_of_integers(name: str, dtype: str) -> None:
    a, b = np.array([0, 1, 6, 101]).astype(dtype), np.array([3, 1, 2, 5]).astype(dtype)
    function = OPERATORS[name]
    expected = function(a, b)
    for result in (getattr(sw.tensor(a), name)(sw.tensor(b)), function(sw.tensor(a), b)):
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result.data, expected)
    np.testing.assert_array_equal(function(sw.tensor(a), 2).data, function(a, 2))
    np.testing.assert_array_equal(function(6, sw.tensor(b)).data, function(6, b))
    x = sw.tensor(a)
    x = getattr(operator, f"i{function.__name__.strip('_')}")(x, sw.tensor(b))
    np.testing.assert_array_equal(x.data, expected)
    np.testing.assert_array_equal((~sw.tensor(a)).data, ~a)
    np.testing.assert_array_equal(sw.tensor(a).bitwise_not().data, ~a)


def test_bits_of_booleans_are_logic() -> None:
    a, b = sw.tensor([True, True, False, False]), sw.tensor([True, False, True, False])
    assert (a & b).tolist() == a.logical_and(b).tolist() == [True, False, False, False]
    assert (a | b).tolist() == a.logical_or(b).tolist() == [True, True, True, False]
    assert (a ^ b).tolist() == a.logical_xor(b).tolist() == [False, True, True, False]
    assert (~a).tolist() == a.logical_not().tolist() == [False, False, True, True]
    assert (True & a).dtype == (a ^ True).dtype == np.bool_
    assert (a & 1).dtype == np.int64
    assert (a << 1).tolist() == [2, 2, 0, 0]  # of integers, as in NumPy


def test_logic_takes_all_numbers() -> None:
    x, y = sw.tensor([0.0, 0.5, np.nan]), sw.tensor([1, 0, 2])
    assert x.logical_and(y).tolist() == [False, False, True]
    assert x.logical_or(y).tolist() == [True, True, True]
    assert x.logical_xor(y).tolist() == [True, True, False]
    assert x.logical_not().tolist() == [True, False, False]
    assert (x * 1j).logical_not().tolist() == [True, False, False]


def test_divisors() -> None:
    a, b = sw.tensor([12, -18, 0]), sw.tensor([18, 12, 5])
    assert a.gcd(b).tolist() == np.gcd(a, b).tolist() == [6, 6, 5]
    assert a.lcm(b).tolist() == np.lcm(a, b).tolist() == [36, 36, 0]


def test_floats_have_no_bits() -> None:
    x, n = sw.tensor([1.0]), sw.tensor([1])
    with pytest.raises(DTypeError) as caught:
        _ = n & x
    assert str(caught.value) == (
        "& takes integers, bit by bit, or booleans, not float32; compare first, as in x != 0, or cast with "
        "astype()"
    )
    with pytest.raises(DTypeError) as caught:
        n.gcd(x)
    assert str(caught.value) == "gcd takes integers, not float32; cast with astype()"
    with pytest.raises(DTypeError, match=r"^\^ takes integers, bit by bit, or booleans, not complex;"):
        _ = n ^ 1j
    with pytest.raises(DTypeError, match=r"^>> takes integers, not float;"):
        _ = n >> 1.0
    with pytest.raises(DTypeError, match=r"^& .* not float32;"):
        n &= x
