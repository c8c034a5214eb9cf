"""Elementwise methods and NumPy's functions on tensors: values and dtypes against NumPy and SciPy."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import special

import shardwise as sw
from shardwise.backend import ShapeArray
from shardwise.errors import ArgumentError, DTypeError

CORNERS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.5, 3.7, 40.0, -40.0, np.inf, -np.inf, np.nan, 1e-30, 1e30]

UNARY: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "square", "reciprocal",
        "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh",
        "arctanh", "deg2rad", "rad2deg", "sinc", "floor", "ceil", "trunc", "round", "sign", "abs", "negative",
        "isnan", "isinf", "isfinite", "isposinf", "isneginf", "isreal", "signbit", "logical_not",
        "nan_to_num", "angle",
    )},
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "neg": np.negative, "absolute": np.abs, "sgn": np.sign, "fix": np.trunc,
    "rsqrt": lambda x: 1.0 / np.sqrt(x), "frac": lambda x: x - np.trunc(x),
    "relu": lambda x: np.maximum(x, 0), "sigmoid": special.expit, "logit": special.logit,
    "erf": special.erf, "erfc": special.erfc,
    "erfinv": special.erfinv, "lgamma": special.gammaln, "digamma": special.digamma,
    "i0": special.i0, "i0e": special.i0e, "i1": special.i1, "i1e": special.i1e,
    "positive": lambda x: x, "conj": np.conjugate,
}  # fmt: skip
BINARY: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in (
        "add", "subtract", "multiply", "true_divide", "floor_divide", "remainder", "fmod", "float_power",
        "hypot", "copysign", "heaviside", "logaddexp", "logaddexp2", "maximum", "minimum", "fmax", "fmin",
        "logical_and", "logical_or", "logical_xor", "greater", "greater_equal", "less", "less_equal",
        "not_equal", "isclose", "arctan2",
    )},
    "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "divide": np.true_divide, "pow": np.power,
    "atan2": np.arctan2, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "xlogy": special.xlogy, "xlog1py": special.xlog1py,
    "ldexp": lambda x, y: x * np.exp2(y),
}  # fmt: skip
# Not NumPy's own, or defined where NumPy's formula breaks down: these say nothing about infinite results.
SILENT = {
    "rsqrt", "frac", "relu", "sigmoid", "logit", "erf", "erfc", "erfinv", "lgamma", "digamma", "i0", "i0e",
    "i1", "i1e", "angle", "nan_to_num", "isreal", "isposinf", "xlogy", "xlog1py", "isclose",
    "maximum", "fmax",
}  # fmt: skip
CLOSE = {np.float64: 2e-13, np.float32: 3e-6}


def agree(ours: Any, expected: Any, dtype: Any) -> None:
    assert ours.dtype == np.asarray(expected).dtype
    if ours.dtype == np.bool_:
        np.testing.assert_array_equal(ours.data, expected)
    else:
        np.testing.assert_allclose(ours.data, expected, rtol=CLOSE[dtype], atol=1e-37)


def quietly(name: str, function: Callable[[], Any]) -> Any:
    """Call with NumPy's warnings off, unless the function promises to give none."""
    with warnings.catch_warnings():
        if name not in SILENT:
            warnings.simplefilter("ignore")
        return function()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_element(name: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([CORNERS, 3.0 * rng.standard_normal(30), rng.random(10)]).astype(dtype)
    x = x[~((x == -np.inf) & (name == "lgamma"))]  # SciPy gives -inf there, C and PyTorch inf
    if name in ("i0", "i1"):
        x = x[~np.isinf(x)]  # NaN in SciPy
    if name == "angle":
        x = x[~(np.signbit(x) & (x == 0))]  # NumPy gives pi for -0.0, PyTorch 0
    with np.errstate(all="ignore"):
        expected = UNARY[name](x)
    agree(quietly(name, getattr(sw.tensor(x), name)), expected, dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_elements(name: str, dtype: Any) -> None:
    x, y = (grid.ravel().astype(dtype) for grid in np.meshgrid(CORNERS, CORNERS))
    with np.errstate(all="ignore"):
        expected = BINARY[name](x, y)
    tensor, other = sw.tensor(x), sw.tensor(y)
    agree(quietly(name, lambda: getattr(tensor, name)(other)), expected, dtype)


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_all_layouts_of_memory(name: str) -> None:
    function = UNARY.get(name) or BINARY[name]
    rng = np.random.default_rng(1)
    shift = 1.0 if name in ("acosh", "arccosh") else 0.0
    base = rng.random((4, 6)) * 0.8 + 0.1 + shift
    second = [] if name in UNARY else [rng.random(3) + 0.2]
    for x in (base.T[::-2, 1], base[1::2, ::-1].T[:, :1], base[:, 0, None], np.zeros((0, 3))):
        others = [y[: x.shape[-1]] if x.shape[-1] <= 3 else y[:1] for y in second]
        expected = function(x, *others)
        result = getattr(sw.tensor(x), name)(*map(sw.as_tensor, others))
        assert result.shape == expected.shape
        np.testing.assert_allclose(result.data, expected, rtol=1e-12)
    number = getattr(sw.tensor(0.5 + shift), name)(*[0.25] * len(second))
    assert number.shape == ()
    expected = function(np.float32(0.5 + shift), *[0.25] * len(second))
    np.testing.assert_allclose(number.item(), expected, rtol=1e-5)


UFUNCS = [
    "add", "subtract", "multiply", "true_divide", "floor_divide", "remainder", "fmod", "power", "float_power",
    "negative", "positive", "absolute", "fabs", "sign", "reciprocal", "square", "conjugate", "exp", "exp2",
    "expm1", "log", "log2", "log10", "log1p", "logaddexp", "logaddexp2", "sqrt", "cbrt", "sin", "cos", "tan",
    "arcsin", "arccos", "arctan", "arctan2", "hypot", "sinh", "cosh", "tanh", "arcsinh", "arctanh", "deg2rad",
    "rad2deg", "degrees", "radians", "maximum", "minimum", "fmax", "fmin", "floor", "ceil", "trunc", "rint",
    "copysign", "heaviside", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    "logical_and", "logical_or", "logical_xor", "logical_not", "isnan", "isinf", "isfinite", "signbit",
    "divmod",
]  # fmt: skip


@pytest.mark.parametrize("name", UFUNCS)
def test_numpys_ufuncs_take_tensors(name: str) -> None:
    ufunc = getattr(np, name)
    rng = np.random.default_rng(2)
    arrays = [rng.random((2, 3)) * 0.9 + 0.05, rng.random(3) + 0.5][: ufunc.nin]
    results, expected = ufunc(*map(sw.tensor, arrays)), ufunc(*arrays)
    pairs = zip(results, expected, strict=True) if ufunc.nout > 1 else [(results, expected)]
    for ours, reference in pairs:
        assert isinstance(ours, sw.Tensor)
        assert ours.dtype == reference.dtype
        np.testing.assert_allclose(ours.data, reference, rtol=1e-12)
    if ufunc.nin == 2 and ufunc.nout == 1:  # a plain array or number on either side
        for left, right in ((arrays[0], sw.tensor(arrays[1])), (sw.tensor(arrays[0]), arrays[1])):
            mixed = ufunc(left, right)
            assert isinstance(mixed, sw.Tensor)
            np.testing.assert_allclose(mixed.data, expected, rtol=1e-12)
        np.testing.assert_allclose(ufunc(sw.tensor(arrays[0]), 0.5).data, ufunc(arrays[0], 0.5), rtol=1e-12)


def test_numpys_ufuncs_write_into_tensors() -> None:
    x, out = sw.tensor([1.0, 4.0]), sw.zeros(2)
    assert np.sqrt(x, out=out) is out
    assert out.tolist() == [1.0, 2.0]


def test_numpys_other_functions() -> None:
    a = np.array([[-1.26, 0.5, np.nan], [np.inf, -np.inf, 2.0]])
    x = sw.tensor(a)
    calls: list[Callable[[Any], Any]] = [
        np.sinc, np.fix, np.real, np.imag, np.isposinf, np.isneginf, np.isreal, np.iscomplex,
        lambda v: np.round(v, 1), lambda v: np.around(v, decimals=-1), lambda v: np.clip(v, -1, 0.7),
        lambda v: np.clip(v, min=0), lambda v: np.clip(v, None, 1.0), lambda v: np.clip(v, a_min=-1, a_max=1),
        lambda v: np.nan_to_num(v), lambda v: np.nan_to_num(v, nan=1.0, posinf=2.0, neginf=-3.0),
        lambda v: np.where(v > 0, v, -1.0), lambda v: np.isclose(v, v + 1e-9, equal_nan=True),
        lambda v: np.angle(v[1]), lambda v: np.angle(v[1], deg=True),
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        for call in calls:
            result, expected = call(x), call(a)
            assert isinstance(result, sw.Tensor)
            np.testing.assert_array_equal(result.data, expected)
    np.testing.assert_allclose(np.i0(sw.tensor([0.5, 9.0])).data, np.i0([0.5, 9.0]), rtol=1e-6)
    assert not np.iscomplexobj(x)
    assert np.isrealobj(x)
    assert np.array_equal(x, a, equal_nan=True)
    assert not np.array_equal(x, a)
    assert not np.array_equal(x, a[0])
    assert np.allclose(x[:1, :2], a[:1, :2] + 1e-9)
    np.nan_to_num(x, copy=False)
    assert np.isfinite(x.data).all()


def test_equality_of_whole_tensors() -> None:
    a, b = sw.tensor([1.0, np.nan, np.inf]), sw.tensor([1.0 + 1e-7, np.nan, np.inf])
    assert a.isclose(b).tolist() == [True, False, True]
    assert not a.allclose(b)
    assert a.allclose(b, equal_nan=True)
    assert not a.allclose(b, rtol=0.0, atol=0.0, equal_nan=True)
    assert a[:1].equal(a[:1])
    assert not a.equal(a)  # NaN
    assert not a[:1].equal(a[:1].reshape(1, 1))
    assert sw.tensor([0, 255]).astype(np.uint8).isclose(sw.tensor([255, 0]).astype(np.uint8)).tolist() == [
        False,
        False,
    ]


@pytest.mark.parametrize("value", [2, 2.5, True, np.float32(2.5), np.int64(3)])
def test_comparisons_with_numbers(value: Any) -> None:
    a = np.array([1, 2, 3])
    x = sw.tensor(a)
    for symbol in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
        result = getattr(x, symbol)(value)
        assert result.dtype == np.bool_
        np.testing.assert_array_equal(result.data, getattr(a, symbol)(value))
    assert (value > x).tolist() == (value > a).tolist()


def test_division_in_all_its_forms() -> None:
    a, b = np.array([7, -7, 7, -7, 0]), np.array([2, 2, -2, -2, 3])
    for x, y in ((a, b), (a * 1.0, b * 1.0), (a.astype(np.int8), b.astype(np.int8))):
        s, t = sw.tensor(x), sw.tensor(y)
        np.testing.assert_array_equal(s.div(t, rounding_mode="floor").data, x // y)
        np.testing.assert_array_equal(s.div(t, rounding_mode="trunc").data, np.trunc(x / y))
        assert s.div(t, rounding_mode="trunc").dtype == x.dtype
        assert (s / t).dtype == (x / y).dtype
        quotient, rest = divmod(s, t)
        np.testing.assert_array_equal((quotient * t + rest).data, x)
        np.testing.assert_array_equal(rest.data, x % y)
        np.testing.assert_array_equal(s.fmod(t).data, np.fmod(x, y))
    assert [part.tolist() for part in divmod(7, sw.tensor([2, -2]))] == [[3, -4], [1, -1]]
    big = 2**62 + 1
    assert sw.tensor([-big]).div(sw.tensor([2]), rounding_mode="trunc").tolist() == [-(big // 2)]
    assert (7 // sw.tensor([2]), 7 % sw.tensor([4]), 2 ** sw.tensor([3]))[2].tolist() == [8]
    with pytest.raises(ArgumentError) as caught:
        sw.tensor([1]).div(2, rounding_mode="up")  # type: ignore[arg-type]
    assert str(caught.value) == "div: rounding_mode must be None, 'trunc' or 'floor', got 'up'"


def test_integers_stay_integers_when_rounded() -> None:
    x = sw.tensor([1, -2])
    for name in ("floor", "ceil", "trunc", "round", "frac", "abs", "sign", "neg", "square"):
        assert getattr(x, name)().dtype == np.int64, name
    assert x.frac().tolist() == [0, 0]
    assert sw.tensor([155, 26]).round(decimals=-1).tolist() == [160, 30]
    assert sw.tensor([True]).floor().dtype == np.bool_
    assert x.reciprocal().tolist() == [1.0, -0.5]
    assert x.sigmoid().dtype == x.exp().dtype == x.lgamma().dtype == np.float64


def test_alpha_value_and_weight() -> None:
    a, b, c = (sw.tensor(np.array(v)) for v in ([1.0, 2.0], [3.0, 5.0], [4.0, 8.0]))
    assert a.add(b, alpha=2).tolist() == [7.0, 12.0]
    assert a.sub(b, alpha=0.5).tolist() == [-0.5, -0.5]
    assert a.addcmul(b, c, value=0.5).tolist() == [7.0, 22.0]
    assert a.addcdiv(b, c, value=4).tolist() == [4.0, 4.5]
    assert a.lerp(b, 0.25).tolist() == [1.5, 2.75]
    assert a.lerp(b, sw.tensor(1.0)).tolist() == b.tolist()
    assert (sw.tensor([0.1]).lerp(sw.tensor([0.7]), 1.0) == sw.tensor([0.7])).item()
    halved = sw.tensor([1.0, 3.0]).ldexp(sw.tensor([-1, 4]))
    assert (halved.dtype, halved.tolist()) == (np.float32, [0.5, 48.0])
    assert a.float().addcmul(b.float(), 2.0, value=3).dtype == np.float32


def test_clamp_by_numbers_and_tensors() -> None:
    a = sw.tensor([-2.0, 0.5, 3.0, np.nan])
    np.testing.assert_array_equal(a.clamp(-1, 1).data, np.array([-1.0, 0.5, 1.0, np.nan], np.float32))
    np.testing.assert_array_equal(a.clamp(max=0).data, np.array([-2.0, 0.0, 0.0, np.nan], np.float32))
    low, high = sw.tensor([[0.0], [1.0]]), sw.tensor([2.0, 0.0, 2.0, 2.0])
    expected = np.minimum(np.maximum(a.data, low.data), high.data)
    np.testing.assert_array_equal(a.clamp(low, high).data, expected)
    np.testing.assert_array_equal(a.clip(min=low).data, np.maximum(a.data, low.data))
    np.testing.assert_array_equal(a.clamp_max(high).data, a.clamp(None, high).data)
    assert sw.tensor([1, 5]).clamp(2, 4).dtype == np.int64
    with pytest.raises(ArgumentError, match=r"^clamp: give min, or max, or both$"):
        a.clamp()


def test_where_of_two_numbers_has_the_default_dtypes() -> None:
    mask = sw.tensor([True, False])
    for a, b, dtype in (
        (1.0, 0, np.float32),
        (2, 3, np.int64),
        (True, False, np.bool_),
        (1j, 0, np.complex64),
    ):
        result = sw.where(mask, a, b)
        assert result.dtype == dtype
        assert result.tolist() == [a, b]
    assert np.where(mask, 1.0, 0.0).dtype == np.float64  # NumPy's name, NumPy's rule


def test_where_and_masked_fill_keep_dtypes() -> None:
    x = sw.tensor([1.0, 2.0])
    mask = sw.tensor([True, False])
    assert x.where(mask, 0).dtype == np.float32
    assert x.where(mask, 0).tolist() == [1.0, 0.0]
    assert x.masked_fill(mask, sw.tensor(np.float64(3.0))).dtype == np.float32
    assert x.masked_fill(mask[0], 5).tolist() == [5.0, 5.0]
    assert mask.masked_fill(mask, 0).tolist() == [False, False]
    for dtype in (np.float16, np.float64, np.complex64, np.int8):
        assert x.astype(dtype).masked_fill(mask, 3).dtype == dtype
    with pytest.raises(DTypeError) as caught:
        x.masked_fill(sw.tensor([1, 0]), 0.0)
    assert str(caught.value) == "masked_fill takes a mask of booleans, not int64; compare first, as in x != 0"
    with pytest.raises(DTypeError) as caught:
        sw.tensor([1, 2]).masked_fill(mask, 0.5)
    assert str(caught.value) == "masked_fill cannot put float64 into int64; cast one of both with astype()"


def test_nan_to_num_knows_the_dtype() -> None:
    for dtype in (np.float16, np.float32, np.float64):
        x = sw.tensor(np.array([np.nan, np.inf, -np.inf, 1.0], dtype))
        most = np.finfo(dtype).max
        assert x.nan_to_num().dtype == dtype
        assert x.nan_to_num().tolist() == [0.0, most, -most, 1.0]
        assert x.nan_to_num(1.0, posinf=2.0, neginf=3.0).tolist() == [1.0, 2.0, 3.0, 1.0]
    assert sw.tensor([1, 2]).nan_to_num().tolist() == [1, 2]
    z = sw.tensor(np.array([complex(np.nan, np.inf)]))
    assert z.nan_to_num(posinf=7.0).tolist() == [7j]


def test_exact_where_the_plain_formula_is_not() -> None:
    x = np.linspace(-40, 40, 101)
    np.testing.assert_allclose(sw.tensor(x).sigmoid().data, special.expit(x), rtol=1e-14)
    p = np.array([1e-300, 1e-20, 0.3, 0.5 + 1e-9, 0.74, 0.999999])
    np.testing.assert_allclose(sw.tensor(p).logit().data, special.logit(p), rtol=1e-14)
    np.testing.assert_allclose(
        sw.tensor(np.array([9.0, 26.0])).erfc().data, special.erfc([9.0, 26.0]), rtol=1e-13
    )
    assert sw.tensor(np.array([1e200])).hypot(1e200).item() == pytest.approx(np.sqrt(2.0) * 1e200)
    assert sw.tensor(np.array([1e-20])).log1p().item() == 1e-20


def test_zeta_and_its_kin() -> None:
    x = np.array([0.2, 1.0, 3.3, -0.7, -2.4, 25.0])
    for n in range(5):
        np.testing.assert_allclose(sw.tensor(x).polygamma(n).data, special.polygamma(n, x), rtol=1e-12)
    with pytest.raises(ArgumentError, match=r"^polygamma: the order must be at least 0, got -1\.$"):
        sw.tensor(x).polygamma(-1)
    with pytest.raises(DTypeError, match=r"^lgamma takes real numbers, and got an array of complex128\."):
        sw.tensor(x * 1j).lgamma()


@given(
    shapes=hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3, min_side=0),
    name=st.sampled_from(["addcmul", "addcdiv", "lerp", "clamp", "where"]),
)
@settings(max_examples=40, deadline=None)
def test_three_operands_broadcast(shapes: Any, name: str) -> None:
    rng = np.random.default_rng(3)
    a, b, c = (rng.random(shape) + 0.5 for shape in shapes.input_shapes)
    if name == "where":
        result, expected = sw.tensor(a).where(sw.tensor(b > 1), sw.tensor(c)), np.where(b > 1, a, c)
    else:
        formula: dict[str, Callable[..., Any]] = {
            "addcmul": lambda: a + b * c, "addcdiv": lambda: a + b / c, "lerp": lambda: a + c * (b - a),
            "clamp": lambda: np.minimum(np.maximum(a, b), c),
        }  # fmt: skip
        result, expected = getattr(sw.tensor(a), name)(sw.tensor(b), sw.tensor(c)), formula[name]()
    assert result.shape == shapes.result_shape
    np.testing.assert_allclose(result.data, expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32, np.bool_])
def test_shapes_without_data_and_narrow_floats(dtype: Any) -> None:
    x = np.ones((2, 1), dtype)
    for name in [*UNARY, *BINARY]:
        arguments = [] if name in UNARY else [np.ones(3, dtype)]
        with np.errstate(all="ignore"):
            try:
                result = getattr(sw.tensor(x), name)(*map(sw.tensor, arguments))
            except TypeError:  # NumPy has no difference of booleans, say
                continue
        hollow = [sw.Tensor(ShapeArray(a.shape, a.dtype)) for a in (x, *arguments)]  # type: ignore[arg-type]
        dry = getattr(hollow[0], name)(*hollow[1:])
        assert (dry.shape, dry.dtype) == (result.shape, result.dtype), name
        if dtype == np.float16:
            assert result.dtype in (np.float16, np.bool_) or name == "float_power", name


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("exponent", [3, 3.0, 4, 5, 7, -2, -3, 2, -1, 0, 0.5, 1e30])
def test_powers_of_large_arrays_of_any_sign(exponent: float, dtype: type[np.floating]) -> None:
    values = np.linspace(-2.0, 2.0, 5000)
    values[:4] = [-0.0, np.inf, -np.inf, np.nan]
    x = sw.tensor(values.astype(dtype), requires_grad=True)
    with np.errstate(all="ignore"):
        y = x**exponent
        expected = np.power(x.data.astype(np.float64), exponent).astype(dtype)
        slope = exponent * np.power(x.data.astype(np.float64), exponent - 1)
    assert y.dtype == dtype
    np.testing.assert_allclose(y.data, expected, rtol=1e-6 if dtype is np.float32 else 1e-14)
    if exponent not in (0, 1e30):
        y.sum().backward()
        np.testing.assert_allclose(x.grad.data[4:], slope[4:], rtol=2e-6 if dtype is np.float32 else 1e-13)
