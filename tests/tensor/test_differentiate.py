"""Functions of plain arrays, differentiated: values against closed forms and finite differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import shardwise as sw
from shardwise.backend.shape import ShapeArray
from shardwise.errors import ArgumentError, AutogradError, DTypeError, ShapeError
from shardwise.tensor.differentiate import grad, jvp, value_and_grad, vjp
from shardwise.tensor.jacobian import hessian, jacobian
from shardwise.tensor.tensor import Tensor
from shardwise.tensor.tree import tree_map

W = np.arange(12.0).reshape(4, 3) / 10.0
X = np.array([0.3, -0.7, 1.1])


def layer(w: Any, x: Any) -> Any:
    return np.tanh(w @ x)


def slope(w: Any, x: Any) -> Any:
    """The derivative of `layer` with respect to `x`, by hand."""
    return (1.0 - np.tanh(w @ x) ** 2)[:, None] * w


# ---- value_and_grad and grad


def test_arrays_in_arrays_out() -> None:
    value, gradient = value_and_grad(lambda x: layer(W, x).sum())(X)
    assert type(value) is type(gradient) is np.ndarray
    assert value.shape == ()
    assert value == np.tanh(W @ X).sum()
    np.testing.assert_allclose(gradient, slope(W, X).sum(0), rtol=1e-13)
    assert gradient.dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_dtypes_stay(dtype: Any) -> None:
    gradient = grad(lambda x: (x * x).sum())(np.array([1.0, 2.0], dtype))
    assert gradient.dtype == dtype
    assert gradient.tolist() == [2.0, 4.0]


def test_python_numbers_are_float32_without_dims() -> None:
    gradient = grad(lambda x: x**3)(2.0)
    assert (gradient.dtype, gradient.shape, float(gradient)) == (np.float32, (), 12.0)
    assert f"{gradient:.1f}" == "12.0"
    assert grad(lambda x: x**3)(np.float64(2.0)).dtype == np.float64


class Layer(NamedTuple):
    w: Any
    b: Any


@dataclass
class Model:
    layers: list[Layer]
    name: str
    depth: int
    extra: Any = None


def test_trees_of_every_kind() -> None:
    model = Model([Layer(W, np.ones(4)), Layer(np.ones(4), 0.5)], "small", 2)

    def loss(model: Model, x: Any) -> Any:
        assert (model.name, model.depth, model.extra) == ("small", 2, None)
        for w, b in model.layers:
            x = np.tanh(w @ x + b)
        return x * model.depth

    value, gradient = value_and_grad(loss)(model, X)
    assert isinstance(gradient, Model)
    assert (gradient.name, gradient.depth, gradient.extra) == (None, None, None)
    assert isinstance(gradient.layers[0], Layer)
    hidden = np.tanh(W @ X + 1.0)
    last = 2.0 * (1.0 - np.tanh(hidden.sum() + 0.5) ** 2)
    np.testing.assert_allclose(value, 2.0 * np.tanh(hidden.sum() + 0.5), rtol=1e-7)
    np.testing.assert_allclose(gradient.layers[1].w, last * hidden, rtol=1e-7)
    np.testing.assert_allclose(gradient.layers[1].b, last, rtol=1e-7)
    np.testing.assert_allclose(gradient.layers[0].w, np.outer(last * (1.0 - hidden**2), X), rtol=1e-7)
    stepped = tree_map(lambda p, g: p if g is None else p - 0.1 * g, model, gradient)
    assert loss(stepped, X) < value


def test_which_arguments() -> None:
    def product(a: Any, b: Any, *, scale: Any = 1.0) -> Any:
        return (a * b).sum() * scale

    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    assert grad(product)(a, b).tolist() == [3.0, 4.0]
    assert grad(product, 1)(a, b).tolist() == grad(product, -1)(a, b).tolist() == [1.0, 2.0]
    assert [g.tolist() for g in grad(product, (1, 0))(a, b)] == [[1.0, 2.0], [3.0, 4.0]]
    assert isinstance(grad(product, [0])(a, b), tuple)
    assert grad(product)(a, b, scale=np.array(2.0)).tolist() == [6.0, 8.0]
    for argnums, count in ((2, 2), (-3, 2), ((0, 0), 2), ((0, -2), 2), ((), 2)):
        with pytest.raises(
            ArgumentError, match=f"must name different positional arguments.*called with {count}"
        ):
            grad(product, argnums)(a, b)


def test_auxiliary_results() -> None:
    def loss(x: Any) -> Any:
        y = x * x
        return y.sum(), {"y": y, "n": 3}

    (value, aux), gradient = value_and_grad(loss, has_aux=True)(np.array([1.0, 2.0]))
    assert (float(value), aux["y"].tolist(), aux["n"], gradient.tolist()) == (5.0, [1.0, 4.0], 3, [2.0, 4.0])
    assert type(aux["y"]) is np.ndarray
    gradient, aux = grad(loss, has_aux=True)(np.array([1.0, 2.0]))
    assert (gradient.tolist(), aux["n"]) == ([2.0, 4.0], 3)
    with pytest.raises(ArgumentError, match="must return a pair"):
        grad(lambda x: x.sum(), has_aux=True)(X)


def test_unused_arguments_have_zero_gradients() -> None:
    a, b = grad(lambda a, b: a.sum(), (0, 1))(X, W)
    assert a.tolist() == [1.0] * 3
    assert (b.shape, b.any()) == (W.shape, False)
    assert grad(lambda x: 1.5)(X).tolist() == [0.0] * 3
    assert value_and_grad(lambda x: np.sum(W))(X)[0] == W.sum()


def test_gradients_can_be_written_into() -> None:
    x, y = np.ones(3), np.ones(3)
    a, b = grad(lambda x, y: (x + y).sum(), (0, 1))(x, y)
    a *= 2.0
    assert (a.tolist(), b.tolist()) == ([2.0] * 3, [1.0] * 3)
    cotangent = np.ones(3)
    (c,) = vjp(lambda x: x * 1.0 if False else x, x)[1](cotangent)
    c += 5.0
    assert (cotangent.tolist(), x.tolist()) == ([1.0] * 3, [1.0] * 3)
    tangent = np.ones(3)
    _, pushed = jvp(lambda x: x, (x,), (tangent,))
    pushed += 5.0
    assert tangent.tolist() == [1.0] * 3


def test_the_function_sees_no_grad_outside_and_heeds_it_inside() -> None:
    with sw.no_grad():
        assert grad(lambda x: (x * x).sum())(np.array([3.0])).tolist() == [6.0]

    def part(x: Any) -> Any:
        with sw.no_grad():
            constant = x * x
        return (constant * x).sum()

    assert grad(part)(np.array([3.0])).tolist() == [9.0]


def test_calls_nest() -> None:
    third = grad(grad(grad(lambda x: np.sin(x) * x**2)))
    x = 0.7
    exact = -(x**2) * np.cos(x) - 6.0 * x * np.sin(x) + 6.0 * np.cos(x)
    np.testing.assert_allclose(third(np.array(x)), exact, rtol=1e-12)


def test_an_inner_call_does_not_take_the_outer_one_s_variable() -> None:
    assert grad(lambda x: x * grad(lambda y: x + y)(1.0))(1.0) == 1.0
    assert grad(lambda x: x * grad(lambda y: x * y)(2.0))(3.0) == 6.0
    assert grad(lambda x: grad(lambda y: x * y * y)(x))(3.0) == 12.0


def test_tensors_in_tensors_out() -> None:
    x = sw.tensor([1.0, 2.0])
    gradient = grad(lambda x: (x**3).sum())(x)
    assert isinstance(gradient, Tensor)
    assert (gradient.requires_grad, gradient.tolist(), x.requires_grad) == (False, [3.0, 12.0], False)
    leaf = sw.tensor([1.0, 2.0], requires_grad=True)
    gradient = grad(lambda x: (x**3).sum())(leaf)
    assert leaf.grad is None
    gradient.sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [6.0, 12.0]
    with sw.no_grad():
        assert not grad(lambda x: (x**3).sum())(leaf).requires_grad


def test_a_gradient_penalty_reaches_other_parameters() -> None:
    weight = sw.tensor([2.0, 3.0], requires_grad=True)
    gradient = grad(lambda x: (weight * x * x).sum())(sw.tensor([1.0, 1.0]))
    (gradient**2).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [16.0, 24.0]
    plain = grad(lambda x: (weight * x * x).sum())(np.ones(2))
    assert type(plain) is np.ndarray


def test_the_other_grad() -> None:
    x = sw.tensor([1.0, 2.0], requires_grad=True)
    (first,) = grad((x**3).sum(), x, create_graph=True)
    (second,) = grad(first.sum(), [x])
    assert (first.tolist(), second.tolist()) == ([3.0, 12.0], [6.0, 12.0])


def test_what_cannot_be_differentiated_is_named() -> None:
    with pytest.raises(DTypeError) as caught:
        grad(lambda x: x)(3)
    assert str(caught.value) == (
        "grad: argument 0 has nothing to differentiate: wanted floating-point or complex arrays or numbers, "
        "got int; write 3.0 for 3, or cast with astype()"
    )
    with pytest.raises(DTypeError, match=r"value_and_grad: argument 1 .* got int64, str"):
        value_and_grad(lambda a, b: a, 1)(1.0, [np.arange(3), "a"])
    with pytest.raises(ShapeError, match=r"it returned shape \(3,\); reduce it with sum\(\) or mean\(\)"):
        grad(lambda x: x)(X)
    with pytest.raises(DTypeError, match=r"it returned complex128; take its \.real part"):
        grad(lambda x: (x * 1j).sum())(X)
    with pytest.raises(DTypeError, match="it returned int64"):
        grad(lambda x: np.argmax(x))(X)
    with pytest.raises(AutogradError, match=r"it returned tuple; return a tensor, or use has_aux=True"):
        grad(lambda x: (x.sum(), 1))(X)


def test_arrays_without_data_give_gradients_without_data() -> None:
    gradient = grad(lambda w: layer(w, ShapeArray((3,), np.float64)).sum())(ShapeArray((4, 3), np.float64))
    assert (type(gradient), gradient.shape, gradient.dtype) == (ShapeArray, (4, 3), np.float64)


def test_a_module_is_a_function() -> None:
    sw.manual_seed(0)
    model = sw.nn.Linear(3, 1)
    gradient = grad(model)(np.ones(3, np.float32))
    np.testing.assert_allclose(gradient, model.weight.data[0], rtol=1e-6)
    assert model.weight.grad is None
    assert grad(np.sin)(0.0) == 1.0


# ---- vjp and jvp


def test_vector_times_jacobian() -> None:
    value, vjp_fn = vjp(layer, W, X)
    np.testing.assert_array_equal(value, np.tanh(W @ X))
    cotangent = np.array([1.0, -2.0, 0.5, 3.0])
    for _ in range(2):
        w, x = vjp_fn(cotangent)
        np.testing.assert_allclose(x, cotangent @ slope(W, X), rtol=1e-13)
        np.testing.assert_allclose(w, np.outer(cotangent * (1.0 - np.tanh(W @ X) ** 2), X), rtol=1e-13)


def test_jacobian_times_vector() -> None:
    v = np.array([0.2, 0.4, -1.0])
    value, derivative = jvp(lambda x: layer(W, x), (X,), (v,))
    np.testing.assert_array_equal(value, np.tanh(W @ X))
    np.testing.assert_allclose(derivative, slope(W, X) @ v, rtol=1e-13)
    np.testing.assert_allclose(jvp(np.exp, (0.5,), (2.0,))[1], 2.0 * np.exp(0.5), rtol=1e-6)


def test_products_of_trees() -> None:
    def both(p: dict[str, Any]) -> dict[str, Any]:
        return {
            "product": p["a"] * p["b"],
            "constant": 7,
            "half": 0.5,
            "index": np.argmax(p["a"]),
            "a": p["a"],
        }

    p = {"a": np.array([1.0, 2.0]), "b": np.array(3.0), "n": 4}
    value, vjp_fn, aux = vjp(lambda p: (both(p), p["a"] * 2.0), p, has_aux=True)
    assert (value["product"].tolist(), value["constant"], value["index"].item()) == ([3.0, 6.0], 7, 1)
    assert aux.tolist() == [2.0, 4.0]
    (g,) = vjp_fn(
        {"product": np.ones(2), "constant": None, "half": 1.0, "index": None, "a": np.array([10.0, 20.0])}
    )
    assert (g["a"].tolist(), g["b"].item(), g["n"]) == ([13.0, 23.0], 3.0, None)
    direction = {"a": np.array([1.0, 1.0]), "b": np.array(10.0), "n": None}
    value, d, aux = jvp(lambda p: (both(p), 5), (p,), (direction,), has_aux=True)
    assert (d["product"].tolist(), d["constant"], d["index"], d["half"], aux) == (
        [13.0, 23.0],
        None,
        None,
        0.0,
        5,
    )
    assert d["a"].tolist() == [1.0, 1.0]


def test_the_two_products_are_adjoint() -> None:
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal(4), (rng.standard_normal((4, 3)), rng.standard_normal(3))
    _, pushed = jvp(layer, (W, X), v)
    pulled = vjp(layer, W, X)[1](u)
    np.testing.assert_allclose(
        u @ pushed, sum((a * b).sum() for a, b in zip(pulled, v, strict=True)), rtol=1e-13
    )


def test_products_inside_of_gradients() -> None:
    def pulled(x: Any) -> Any:
        value, vjp_fn = vjp(lambda y: y**3, x)
        return vjp_fn(value)[0].sum()  # 3 y^5

    def pushed(x: Any) -> Any:
        return jvp(lambda y: y**3, (x,), (x * x,))[1].sum()  # 3 x^4

    np.testing.assert_allclose(grad(pulled)(X), 15.0 * X**4, rtol=1e-12)
    np.testing.assert_allclose(grad(pushed)(X), 12.0 * X**3, rtol=1e-12)


def test_cotangents_and_tangents_that_do_not_fit() -> None:
    _, vjp_fn = vjp(lambda x: {"y": x}, X)
    with pytest.raises(ShapeError) as caught:
        vjp_fn({"y": np.ones(4)})
    assert str(caught.value) == "vjp: the cotangent of a value of shape (3,) must have that shape, got (4,)"
    with pytest.raises(ArgumentError, match=r"wanted dict with \['y'\], got ndarray"):
        vjp_fn(np.ones(3))
    with pytest.raises(
        ArgumentError, match=r"vjp: the cotangent of a value of shape \(3,\) is None; pass zeros"
    ):
        vjp_fn({"y": None})
    with pytest.raises(ArgumentError, match="jvp: got 1 primals and 2 tangents"):
        jvp(np.sin, (X,), (X, X))
    with pytest.raises(ShapeError, match="jvp: the tangent of a value"):
        jvp(np.sin, (X,), (1.0,))


# ---- complex numbers, in PyTorch's convention

Z = np.array([1.0 + 2.0j, -0.5 + 0.3j])


def test_complex_gradients_point_uphill() -> None:
    np.testing.assert_allclose(grad(lambda z: np.real(z * np.conjugate(z)).sum())(Z), 2.0 * Z, rtol=1e-14)
    np.testing.assert_allclose(grad(lambda z: np.real(z * z * z).sum())(Z), np.conj(3.0 * Z**2), rtol=1e-14)
    one = grad(lambda z: np.imag(z * z))(1 + 2j)
    assert (one.dtype, one.shape, complex(one)) == (np.complex64, (), np.conj(-1j * 2.0 * (1 + 2j)).item())


def test_products_of_holomorphic_functions() -> None:
    t = np.array([0.3 - 1.0j, 2.0j])
    value, derivative = jvp(lambda z: z * z * z, (Z,), (t,))
    np.testing.assert_allclose(value, Z**3, rtol=1e-14)
    np.testing.assert_allclose(derivative, 3.0 * Z**2 * t, rtol=1e-14)
    (gradient,) = vjp(lambda z: z * z * z, Z)[1](t)
    np.testing.assert_allclose(gradient, np.conj(3.0 * Z**2) * t, rtol=1e-14)


# ---- jacobian and hessian


def test_jacobians_by_hand() -> None:
    np.testing.assert_allclose(jacobian(layer, 1)(W, X), slope(W, X), rtol=1e-13)
    by_w, by_x = jacobian(layer, (0, 1))(W, X)
    assert by_w.shape == (4, 4, 3)
    expected = np.einsum("i,ij,k->ijk", 1.0 - np.tanh(W @ X) ** 2, np.eye(4), X)
    np.testing.assert_allclose(by_w, expected, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(by_x, slope(W, X), rtol=1e-13)
    tree = jacobian(lambda p: {"sum": p["x"].sum(), "twice": 2.0 * p["x"], "one": 1.0})({"x": X})
    assert tree["sum"]["x"].tolist() == [1.0] * 3
    assert tree["twice"]["x"].tolist() == (2.0 * np.eye(3)).tolist()
    assert tree["one"]["x"].tolist() == [0.0] * 3
    assert jacobian(np.sin)(np.zeros((0,))).shape == (0, 0)
    assert jacobian(np.sum)(np.zeros((0, 2))).shape == (0, 2)


def test_hessians_by_hand() -> None:
    def energy(x: Any) -> Any:
        return (np.exp(x[0]) * x[1] ** 2 + x[2] * x[0]).sum()

    e, y = np.exp(X[0]), X[1]
    expected = [[e * y**2, 2.0 * e * y, 1.0], [2.0 * e * y, 2.0 * e, 0.0], [1.0, 0.0, 0.0]]
    np.testing.assert_allclose(hessian(energy)(X), expected, rtol=1e-13)
    mixed = hessian(lambda a, b: (a * a * b).sum(), (0, 1))(X, X + 1.0)
    np.testing.assert_allclose(mixed[0][0], np.diag(2.0 * (X + 1.0)), rtol=1e-13)
    np.testing.assert_allclose(mixed[0][1], np.diag(2.0 * X), rtol=1e-13)
    assert not np.any(mixed[1][1])
    np.testing.assert_allclose(jvp(grad(energy), (X,), (X,))[1], np.array(expected) @ X, rtol=1e-12)
    np.testing.assert_allclose(hessian(np.sin)(np.array([0.3]))[0, 0], [-np.sin(0.3)], rtol=1e-13)


def test_a_jacobian_of_complex_results_is_refused() -> None:
    with pytest.raises(DTypeError, match=r"output 0 is complex128; return its \.real and \.imag parts"):
        jacobian(lambda x: x * 1j)(X)
