"""Complex numbers: PyTorch's convention for their gradients, real numbers among them, their parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.errors import DTypeError
from shardwise.tensor import grad

Z = np.array([1 + 2j, -0.5 - 1j, 3.0 + 0j, -2j])


def tensor(values: Any) -> sw.Tensor:
    return sw.tensor(values, requires_grad=True)


def test_the_gradient_points_uphill() -> None:
    """The gradient of a real loss is dL/dRe + i dL/dIm: a step against it makes the loss smaller."""
    z = tensor(Z)
    loss = (z - (1 - 1j)).abs().square().sum()
    loss.backward()
    assert z.grad is not None
    np.testing.assert_allclose(z.grad.data, 2.0 * (Z - (1 - 1j)))
    with sw.no_grad():
        z -= 0.5 * z.grad
    np.testing.assert_allclose(z.data, np.full(4, 1 - 1j))


def test_holomorphic_functions_give_the_conjugate_of_their_derivative() -> None:
    seed = np.array([1.0, 1j, 2 - 1j, 0.5 + 0j])
    for function, derivative in (
        (lambda z: z * z, 2 * Z), (lambda z: z.exp(), np.exp(Z)), (lambda z: 1.0 / z, -1 / Z**2),
        (lambda z: z**3, 3 * Z**2), (lambda z: z.log(), 1 / Z), (lambda z: z.sin(), np.cos(Z)),
        (lambda z: (2 + 1j) * z, np.full(4, 2 + 1j)), (lambda z: z.sqrt(), 0.5 / np.sqrt(Z)),
    ):  # fmt: skip
        z = tensor(Z)
        [found] = grad(function(z), z, seed)
        np.testing.assert_allclose(found.data, seed * np.conj(derivative), rtol=1e-12)


def test_conjugates_and_parts() -> None:
    z, seed = tensor(Z), np.array([1.0, 2.0, 3.0, 4.0])
    assert grad(z.conj(), z, seed * 1j)[0].tolist() == list(seed * -1j)
    assert grad(z.real, z, seed)[0].tolist() == list(seed + 0j)
    assert grad(z.imag, z, seed)[0].tolist() == list(seed * 1j)
    np.testing.assert_allclose(grad(z.angle(), z, seed)[0].data, seed * 1j * Z / np.abs(Z) ** 2)
    np.testing.assert_allclose(grad(z.abs(), z, seed)[0].data, seed * Z / np.abs(Z))


def test_zero_has_no_direction() -> None:
    for name in ("abs", "sgn", "angle"):
        z = tensor(np.array([0j]))
        out = getattr(z, name)()
        assert out.item() == 0
        (out * (1 + 1j)).real.sum().backward()
        assert z.grad is not None
        assert z.grad.tolist() == [0j]


def test_real_numbers_among_complex_ones_get_real_gradients() -> None:
    x, z = tensor(np.array([2.0, 3.0, 1.0, -1.0])), tensor(Z)
    for out, expected in ((x * z, Z), (x + z, np.ones(4)), (x / z, 1 / Z), (z - x, -np.ones(4))):
        [found] = grad(out.real, x, np.ones(4))
        assert found.dtype == np.float64
        np.testing.assert_allclose(found.data, expected.real)
    [found] = grad((x * 1j).imag, x, np.ones(4))
    assert found.tolist() == [1.0] * 4
    [found] = grad(x.astype(np.complex128), x, np.full(4, 2 + 5j))
    assert found.tolist() == [2.0] * 4


def test_parts_share_the_memory() -> None:
    z = sw.tensor(Z)
    z.real.zero_()
    z.imag.mul_(2.0)
    np.testing.assert_array_equal(z.data, 2j * Z.imag)
    x = sw.tensor([1.0, 2.0])
    assert x.real is x
    assert x.conj() is x
    assert x.imag.tolist() == [0.0, 0.0]
    assert np.conjugate(sw.tensor(Z)).tolist() == list(np.conj(Z))


def test_values_of_functions_of_complex_numbers() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((3, 4)) + 1j * rng.standard_normal((3, 4))
    for dtype, rtol in ((np.complex128, 1e-12), (np.complex64, 1e-5)):
        z = a.astype(dtype)
        for name in (
            "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "square", "reciprocal", "sin",
            "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh",
            "arctanh", "sinc", "abs", "angle", "isnan", "isinf", "isfinite", "sign", "negative",
        ):  # fmt: skip
            result, expected = getattr(sw.tensor(z), name)(), getattr(np, name)(z)
            assert result.dtype == expected.dtype, name
            np.testing.assert_allclose(result.data, expected, rtol=rtol, err_msg=name)
        np.testing.assert_allclose(sw.tensor(z).sigmoid().data, 1 / (1 + np.exp(-z)), rtol=rtol)
        np.testing.assert_allclose(sw.tensor(z).rsqrt().data, 1 / np.sqrt(z), rtol=rtol)
    assert sw.tensor(np.array([1 + 0j, 1j])).isreal().tolist() == [True, False]
    assert sw.tensor(np.array([1 + 0j, 1j])).equal(sw.tensor(np.array([1 + 0j, 1j])))


def test_gradients_on_the_cuts_are_of_the_side_that_the_value_is_of() -> None:
    cuts = {"arcsin": [2.0, -3.0], "arccos": [2.0, -3.0], "arccosh": [-2.0, 0.5], "arctanh": [2.0, -3.0]}
    cuts |= {"arcsinh": [2j, -3j], "arctan": [2j, -3j], "sqrt": [-2.0], "log": [-2.0]}
    for name, points in cuts.items():
        for point in points:
            for zero in (0.0, -0.0):
                on = complex(zero, point.imag) if isinstance(point, complex) else complex(point, zero)
                step = 1e-6 * point / abs(point)  # along the cut, where the function is smooth
                function = getattr(np, name)
                moved = (
                    complex(zero, (on + step).imag)
                    if isinstance(point, complex)
                    else complex((on + step).real, zero)
                )
                slope = (function(moved) - function(on)) / step
                z = tensor(np.array(on))
                [found] = grad(function(z), z, np.array(1.0 + 0j))
                np.testing.assert_allclose(found.item(), np.conj(slope), rtol=1e-4, err_msg=f"{name} {on}")


def test_complex_results_do_not_go_into_floats() -> None:
    x = sw.tensor([1.0, 2.0])
    with pytest.raises(DTypeError) as caught:
        x += sw.tensor(np.array([1j, 2j], np.complex64))
    assert str(caught.value) == (
        "cannot write complex64 in place (Add) into float32; cast with astype() first, or use the "
        "out-of-place form"
    )
    with pytest.raises(DTypeError, match=r"cannot write complex128 in place \(copy_\) into float32"):
        x.fill_(1j)
    z = sw.tensor(Z)
    z.copy_(x[:1])
    assert z.tolist() == [1 + 0j] * 4
