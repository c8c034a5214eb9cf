"""The in-place form of every elementwise method does what the method does, in the same memory."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import shardwise as sw
from shardwise.errors import ArgumentError, AutogradError, DTypeError, ShapeError
from shardwise.tensor import Tensor, grad

FLOAT: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys((
        "abs", "absolute", "neg", "negative", "sign", "sgn", "floor", "ceil", "trunc", "fix", "round", "frac",
        "conj_physical", "relu", "nan_to_num", "square", "sqrt", "rsqrt", "reciprocal", "exp", "exp2",
        "expm1", "log", "log2", "log10", "log1p", "sigmoid", "logit", "sin", "cos", "tan", "asin", "arcsin",
        "acos", "arccos", "atan", "arctan", "sinh", "cosh", "tanh", "asinh", "arcsinh", "atanh", "arctanh",
        "sinc", "deg2rad", "rad2deg", "erf", "erfc", "erfinv", "lgamma", "digamma", "i0", "logical_not",
    ), ()),
    **dict.fromkeys((
        "add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "floor_divide",
        "remainder", "fmod", "pow", "atan2", "arctan2", "hypot", "copysign", "heaviside", "xlogy", "ldexp",
        "clamp_min", "clamp_max", "eq", "ne", "not_equal", "lt", "less", "le", "less_equal", "gt", "greater",
        "ge", "greater_equal", "logical_and", "logical_or", "logical_xor", "float_power",
    ), ("other",)),
    "clamp": (0.2, 0.6), "clip": (None, 0.5), "lerp": ("other", 0.3), "addcmul": ("other", 2.0),
    "addcdiv": ("other", 2.0), "polygamma": (1,), "masked_fill": ("mask", 0.25),
}  # fmt: skip
INTEGER = {
    **dict.fromkeys((
        "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "gcd", "lcm",
    ), (3,)),
    "bitwise_not": (),
}  # fmt: skip


def in_place_methods() -> set[str]:
    return {name for name in dir(Tensor) if name.endswith("_") and not name.startswith("_")}


@pytest.mark.parametrize("name", [*FLOAT, *INTEGER])
def test_in_place_equals_out_of_place(name: str) -> None:
    rng = np.random.default_rng(0)
    values = rng.random((3, 4)) * 0.9 + 0.05 if name in FLOAT else rng.integers(1, 9, (3, 4))
    named = {"other": sw.tensor(rng.random(4) + 0.5), "mask": sw.tensor(rng.random(4) > 0.5)}
    arguments = [named.get(a, a) if isinstance(a, str) else a for a in FLOAT.get(name, INTEGER.get(name))]
    expected = getattr(sw.tensor(values), name)(*arguments)
    base = np.zeros((4, 6), values.dtype)
    for memory in (base[:, ::2].T, np.zeros((3, 4), values.dtype)):  # not contiguous, and contiguous
        memory[...] = values
        x = Tensor(memory)
        before = x.version.count
        assert getattr(x, f"{name}_")(*arguments) is x
        assert x.data is memory
        assert x.version.count == before + 1
        np.testing.assert_array_equal(memory, expected.data.astype(values.dtype))


def test_acosh_and_options() -> None:
    x = sw.tensor([1.5, 2.0])
    np.testing.assert_allclose(x.acosh_().data, np.arccosh([1.5, 2.0]), rtol=1e-6)
    assert sw.tensor([1.5]).arccosh_().item() == x[0].item()
    y = sw.tensor([7.0, -7.0])
    assert y.clone().div_(2, rounding_mode="floor").tolist() == [3.0, -4.0]
    assert y.clone().div_(2, rounding_mode="trunc").tolist() == [3.0, -3.0]
    assert y.clone().sub_(1, alpha=2).tolist() == [5.0, -9.0]
    assert y.clone().addcmul_(y, y, value=0.5).tolist() == [31.5, 17.5]
    assert y.clone().addcdiv_(y, y, value=3).tolist() == [10.0, -4.0]
    assert sw.tensor([0.05]).logit_(0.1).item() == pytest.approx(np.log(0.1 / 0.9))
    assert sw.tensor([np.nan, np.inf]).nan_to_num_(1.0, posinf=2.0).tolist() == [1.0, 2.0]
    assert sw.tensor([1.26]).round_(1).item() == pytest.approx(1.3)
    with pytest.raises(ArgumentError, match=r"^clamp_: give min, or max, or both$"):
        y.clamp_()


def test_operators_in_place() -> None:
    x = alias = sw.tensor([7, 12])
    x += 1
    x -= 2
    x *= 3
    x //= 2
    x %= 7
    x **= 2
    assert x is alias
    assert x.tolist() == [((7 - 1) * 3 // 2 % 7) ** 2, ((12 - 1) * 3 // 2 % 7) ** 2]
    y = sw.tensor([3.0])
    y /= 2
    assert y.tolist() == [1.5]


def test_ops_keep_what_they_save_before_it_is_overwritten() -> None:
    x = sw.tensor([0.5, 1.5], requires_grad=True)
    y = x * 1.0
    y.sin_().pow_(2.0).mul_(y)
    [found] = grad(y.sum(), x)
    s, c = np.sin([0.5, 1.5]), np.cos([0.5, 1.5])
    np.testing.assert_allclose(found.data, 4 * s**3 * c, rtol=1e-6)
    # Others that saved the values before are told, as ever.
    y = x * 1.0
    z = y.sin()
    y.sin_()
    with pytest.raises(
        AutogradError, match=r"^input 0 of Sin, of shape \(2,\), was written in place after it was saved"
    ):
        z.sum().backward()


@pytest.mark.parametrize("name", ["sin_", "square_", "log_"])
def test_ops_keep_what_they_save_under_recompute(name: str) -> None:
    def block(x: Tensor) -> Tensor:
        y = x * 1.5
        getattr(y, name)().mul_(y)
        return y.exp_()

    x = sw.tensor([0.5, 1.5], dtype=np.float64, requires_grad=True)
    [expected] = grad(block(x).sum(), x)
    [found] = grad(sw.recompute(block, x).sum(), x)
    np.testing.assert_array_equal(found.data, expected.data)


def test_leaves_and_views_are_refused() -> None:
    x = sw.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(
        AutogradError, match=r"^cannot write in place \(Exp\) into a leaf of shape \(2,\) that requires grad"
    ):
        x.exp_()
    y = x * 1.0
    part = y[:1]
    with pytest.raises(AutogradError, match=r"^cannot write in place \(Sin\) into a view of another tensor"):
        part.sin_()
    with pytest.raises(
        AutogradError, match=r"^cannot write in place \(masked_fill_\) into a tensor with views"
    ):
        y.masked_fill_(y > 1, 0.0)
    with sw.no_grad():
        x.exp_()
    np.testing.assert_allclose(x.data, np.exp([1.0, 2.0]), rtol=1e-6)


def test_dtypes_do_not_widen() -> None:
    n, x = sw.tensor([1, 2]), sw.tensor([1.0, 2.0])
    for write in (lambda: n.add_(0.5), lambda: n.div_(2), lambda: n.exp_(), lambda: n.mul_(x)):
        with pytest.raises(
            DTypeError, match=r"^cannot write float(32|64) in place \(\w+\) into int64; cast with"
        ):
            write()
    with pytest.raises(DTypeError, match=r"^cannot write int64 in place \(Add\) into bool"):
        sw.tensor([True]).add_(1)
    assert n.div_(2, rounding_mode="floor").tolist() == [0, 1]
    assert x.add_(sw.tensor(np.array([1.0, 1.0]))).dtype == np.float32  # narrower floats are, as in PyTorch
    for dtype in (np.float16, ml_dtypes.bfloat16):
        y = sw.tensor([1.0, 2.0]).astype(dtype)
        assert y.exp_().add_(1).mul_(x).dtype == dtype
        assert y.copy_(sw.tensor([1, 2])).float().tolist() == [1.0, 2.0]
        with pytest.raises(DTypeError, match="cannot write complex"):
            y.mul_(1j)
    with pytest.raises(DTypeError, match="cannot write bfloat16"):
        n.copy_(sw.tensor([1.0, 2.0]).astype(ml_dtypes.bfloat16))


def test_shapes_do_not_grow() -> None:
    x = sw.tensor([1.0, 2.0])
    with pytest.raises(ShapeError) as caught:
        x.mul_(sw.ones(3, 1))
    assert str(caught.value) == "cannot write a result of shape (3, 2) in place (Mul) into shape (2,)"
    assert sw.zeros(0, 3).exp_().shape == (0, 3)
    assert sw.tensor(2.0).square_().item() == 4.0


def test_a_tensor_may_be_written_into_itself() -> None:
    x = sw.tensor([1.0, 2.0, 3.0])
    x.add_(x.flip(0)).mul_(x)
    assert x.tolist() == [16.0, 16.0, 16.0]
    x = sw.tensor([1.0, 2.0, 3.0, 4.0])
    x[1:].add_(x[:-1])  # reads all before it writes any
    assert x.tolist() == [1.0, 3.0, 5.0, 7.0]


def test_every_in_place_method_of_an_element_has_its_twin() -> None:
    alone = {"copy_", "fill_", "zero_", "requires_grad_"}
    alone |= {name for name in in_place_methods() if getattr(Tensor, name).__module__.endswith("filling")}
    assert {name for name in in_place_methods() - alone if not hasattr(Tensor, name[:-1])} == set()
