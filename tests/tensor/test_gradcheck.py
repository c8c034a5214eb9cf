"""gradcheck itself: complex numbers, what it finds, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.errors import AutogradError, DTypeError
from shardwise.tensor import gradcheck, gradgradcheck


def make(*values: complex) -> sw.Tensor:
    return sw.tensor(np.array(values), requires_grad=True)


class NotConjugated(sw.Function):
    """A square whose gradient is that of real numbers: wrong in the imaginary parts."""

    signature = "*"

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved
        return (2.0 * g * x,)


def test_a_missing_conjugate_is_found() -> None:
    assert gradcheck(NotConjugated.apply, [make(0.5, 2.0)])
    with pytest.raises(AutogradError) as caught:
        gradcheck(NotConjugated.apply, [make(1 + 2j)])
    assert str(caught.value) == (
        "gradcheck: the gradient of output 0, element 0 (real part), with respect to input 0, element 0 "
        "(imaginary part), is 4 by backward and -4 by differences (2 of 4 differ)"
    )


def test_complex_inputs_and_outputs() -> None:
    z, w, x = make(1 + 2j, -0.5j), make(0.3 - 1j, 2.0 + 0j), make(1.5, -2.0)
    for function, inputs in (
        (lambda a, b: a * b, (z, w)), (lambda a, b: a * b, (z, x)), (lambda a, b: b / a, (z, x)),
        (lambda a: a.abs(), (z,)), (lambda a: a.real + 1j * a.imag.exp(), (z,)),
        (lambda a: (a.conj(), a.angle()), (z,)),
        (lambda a: a.astype(np.complex128) * 1j, (x,)),
    ):  # fmt: skip
        assert gradcheck(function, inputs)
        assert gradgradcheck(function, inputs)


def test_there_must_be_something_to_check() -> None:
    with pytest.raises(AutogradError, match=r"^gradcheck needs at least one input that requires grad$"):
        gradcheck(lambda a: a, [sw.tensor(np.ones(2))])
    with pytest.raises(
        AutogradError, match=r"^gradcheck needs at least one output that requires grad, and there"
    ):
        gradcheck(lambda a: a > 0, [make(1.0)])
    for dtype in (np.float32, np.complex64):
        with pytest.raises(DTypeError) as caught:
            gradcheck(lambda a: a, [sw.tensor([1.0], requires_grad=False).astype(dtype).requires_grad_()])
        assert str(caught.value) == (
            "gradcheck needs float64 or complex128 to tell errors from rounding; input 0 is "
            f"{np.dtype(dtype)}"
        )


def test_constant_gradients_have_nothing_more_to_check() -> None:
    assert gradgradcheck(lambda a: a.floor(), [make(0.5)])
    assert gradgradcheck(lambda a: 2.0 * a, [make(0.5 + 1j)])


def test_unused_inputs_and_empty_ones() -> None:
    assert gradcheck(lambda a, b: a * 2.0, [make(1.0), make(2j)])
    assert gradgradcheck(lambda a, b: a * a, [make(1.0), make(2.0)])
    assert gradcheck(lambda a: a * 2j, [sw.tensor(np.zeros((0, 2)), requires_grad=True)])
