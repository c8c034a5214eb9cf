"""Activations against NumPy and SciPy, at kinks, at infinity, in place, and as layers."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from scipy import special

import shardwise as sw
from shardwise import nn
from shardwise.errors import ArgumentError, AutogradError, DTypeError, ShapeError
from shardwise.nn import functional as F
from shardwise.tensor import row_window
from tolerance import assert_close, tolerance

DTYPES = [np.float32, np.float64]
Array = np.ndarray


def expit(x: Array) -> Array:
    return special.expit(x)


# Name, options, the value, its slope; in float64. At kinks the slope is PyTorch's.
DEFINITIONS: list[tuple[str, dict[str, float], Callable[[Array], Array], Callable[[Array], Array]]] = [
    ("relu", {}, lambda x: np.maximum(x, 0), lambda x: np.where(x > 0, 1, 0)),
    ("relu6", {}, lambda x: np.clip(x, 0, 6), lambda x: np.where((x > 0) & (x < 6), 1, 0)),
    ("hardtanh", {}, lambda x: np.clip(x, -1, 1), lambda x: np.where(abs(x) < 1, 1, 0)),
    (
        "hardtanh",
        {"min_val": -3.0, "max_val": 0.5},
        lambda x: np.clip(x, -3, 0.5),
        lambda x: np.where((x > -3) & (x < 0.5), 1, 0),
    ),
    ("leaky_relu", {}, lambda x: np.where(x > 0, x, 0.01 * x), lambda x: np.where(x > 0, 1, 0.01)),
    (
        "leaky_relu",
        {"negative_slope": 0.3},
        lambda x: np.where(x > 0, x, 0.3 * x),
        lambda x: np.where(x > 0, 1, 0.3),
    ),
    ("rrelu", {}, lambda x: np.where(x > 0, x, 11 / 48 * x), lambda x: np.where(x > 0, 1, 11 / 48)),
    (
        "threshold",
        {"threshold": 1.0, "value": -7.0},
        lambda x: np.where(x > 1, x, -7),
        lambda x: np.where(x > 1, 1, 0),
    ),
    (
        "elu",
        {"alpha": 0.7},
        lambda x: np.where(x > 0, x, 0.7 * np.expm1(np.minimum(x, 0))),
        lambda x: np.where(x > 0, 1, 0.7 * np.exp(np.minimum(x, 0))),
    ),
    (
        "celu",
        {"alpha": 2.0},
        lambda x: np.where(x > 0, x, 2 * np.expm1(np.minimum(x, 0) / 2)),
        lambda x: np.where(x > 0, 1, np.exp(np.minimum(x, 0) / 2)),
    ),
    (
        "selu",
        {},
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))),
        lambda x: np.where(x > 0, 1.0507009873554805, 1.7580993408473766 * np.exp(np.minimum(x, 0))),
    ),
    ("sigmoid", {}, expit, lambda x: expit(x) * expit(-x)),
    ("tanh", {}, np.tanh, lambda x: 1 / np.cosh(np.clip(x, -300, 300)) ** 2),
    ("silu", {}, lambda x: x * expit(x), lambda x: expit(x) * (1 + x * expit(-x))),
    (
        "mish",
        {},
        lambda x: x * np.tanh(np.logaddexp(0, x)),
        lambda x: (
            np.tanh(np.logaddexp(0, x))
            + x * expit(x) / np.cosh(np.clip(np.logaddexp(0, x), 0, 300)) ** 2
        ),
    ),
    (
        "softplus",
        {},
        lambda x: np.where(x > 20, x, np.logaddexp(0, x)),
        lambda x: np.where(x > 20, 1, expit(x)),
    ),
    (
        "softplus",
        {"beta": 2.0, "threshold": 4.0},
        lambda x: np.where(2 * x > 4, x, np.logaddexp(0, 2 * x) / 2),
        lambda x: np.where(2 * x > 4, 1, expit(2 * x)),
    ),
    ("logsigmoid", {}, special.log_expit, lambda x: expit(-x)),
    ("softsign", {}, lambda x: x / (1 + abs(x)), lambda x: 1 / (1 + abs(x)) / (1 + abs(x))),
    ("tanhshrink", {}, lambda x: x - np.tanh(x), lambda x: np.tanh(x) ** 2),
    (
        "softshrink",
        {},
        lambda x: np.sign(x) * np.maximum(abs(x) - 0.5, 0),
        lambda x: np.where(abs(x) > 0.5, 1, 0),
    ),
    (
        "hardshrink",
        {"lambd": 1.0},
        lambda x: np.where(abs(x) > 1, x, 0),
        lambda x: np.where(abs(x) > 1, 1, 0),
    ),
    (
        "hardsigmoid",
        {},
        lambda x: np.clip(x / 6 + 0.5, 0, 1),
        lambda x: np.where(abs(x) < 3, 1 / 6, 0),
    ),
    (
        "hardswish",
        {},
        lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
        lambda x: np.where(x <= -3, 0, np.where(x >= 3, 1, x / 3 + 0.5)),
    ),
]  # fmt: skip

KINKS = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 6.0, -6.0, 20.0, 2.0]
HUGE = [88.0, -88.0, 745.0, -745.0, 1e4, -1e4, 1e30, -1e30, 1e-30, -1e-30]


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "options", "value", "slope"), DEFINITIONS, ids=lambda d: str(d)[:20])
def test_value_and_slope(
    name: str,
    options: dict[str, float],
    value: Callable[[Array], Array],
    slope: Callable[[Array], Array],
    dtype: type,
) -> None:
    values = [*np.linspace(-12, 12, 301), *KINKS, *HUGE]
    x = sw.tensor(np.array(values, dtype), requires_grad=True)
    out = getattr(F, name)(x, **options)
    weight = np.linspace(0.5, 1.5, x.numel()).astype(dtype)
    out.backward(weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the definitions' own overflow
        wide = x.data.astype(np.float64)
        expected, steepness = value(wide), slope(wide)
    assert out.dtype == x.grad.dtype == dtype
    room = 4 * tolerance(dtype) * np.maximum(1.0, np.abs(expected))
    assert (np.abs(out.data - expected) <= room).all()
    np.testing.assert_allclose(x.grad.data, weight * steepness, rtol=0, atol=4 * tolerance(dtype))


LIMITS = {  # at -inf and inf: value and slope
    "relu": (0, 0, np.inf, 1), "relu6": (0, 0, 6, 0), "hardtanh": (-1, 0, 1, 0),
    "leaky_relu": (-np.inf, 0.01, np.inf, 1), "elu": (-1, 0, np.inf, 1), "celu": (-1, 0, np.inf, 1),
    "silu": (0, 0, np.inf, 1), "mish": (0, 0, np.inf, 1), "softplus": (0, 0, np.inf, 1),
    "logsigmoid": (-np.inf, 1, 0, 0), "softsign": (-1, 0, 1, 0), "tanhshrink": (-np.inf, 1, np.inf, 1),
    "softshrink": (-np.inf, 1, np.inf, 1), "hardshrink": (-np.inf, 1, np.inf, 1), "sigmoid": (0, 0, 1, 0),
    "hardsigmoid": (0, 0, 1, 0), "hardswish": (0, 0, np.inf, 1), "tanh": (-1, 0, 1, 0),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", LIMITS)
def test_limits_without_warnings(name: str, dtype: type) -> None:
    x = sw.tensor(np.array([-np.inf, np.inf, np.nan], dtype), requires_grad=True)
    out = getattr(F, name)(x)
    out.backward(np.ones(3, dtype))
    low, low_slope, high, high_slope = LIMITS[name]
    np.testing.assert_allclose(out.data, [low, high, np.nan], atol=1e-15)
    np.testing.assert_allclose(x.grad.data[:2], [low_slope, high_slope], atol=1e-15)


@pytest.mark.parametrize(("name", "options", "value", "slope"), DEFINITIONS, ids=lambda d: str(d)[:20])
def test_layouts_do_not_matter(
    name: str, options: dict[str, float], value: Callable[[Array], Array], slope: object
) -> None:
    base = np.random.default_rng(0).standard_normal((4, 6, 3)).astype(np.float32) * 3
    for view in (base.transpose(2, 0, 1), base[::-1, ::2], base[:, :0], base[1, 2, 1]):
        out = getattr(F, name)(sw.Tensor(np.asarray(view)), **options)
        assert_close(out.data, value(np.asarray(view, np.float64)).astype(np.float64), 4, 1.0)


def test_silu_keeps_its_digits_far_below_zero() -> None:
    x = np.array([-5.0, -20.0, -60.0])
    np.testing.assert_allclose(F.silu(sw.tensor(x)).data, x * special.expit(x), rtol=1e-14)
    narrow = F.silu(sw.tensor(x.astype(np.float32))).data
    np.testing.assert_allclose(narrow, x * special.expit(x), rtol=1e-6)
    np.testing.assert_allclose(F.logsigmoid(sw.tensor(-x)).data, special.log_expit(-x), rtol=1e-14)
    np.testing.assert_allclose(F.softplus(sw.tensor(x)).data, np.log1p(np.exp(x)), rtol=1e-14)
    np.testing.assert_allclose(F.mish(sw.tensor(x)).data, x * np.tanh(np.log1p(np.exp(x))), rtol=1e-14)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gelu(dtype: type) -> None:
    x = np.linspace(-8, 8, 101).reshape(1, -1).astype(dtype)
    wide = x.astype(np.float64)
    assert_close(nn.GELU()(sw.tensor(x)).data, wide * special.ndtr(wide))
    inner = np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
    assert_close(nn.GELU("tanh")(sw.tensor(x)).data, 0.5 * wide * (1 + np.tanh(inner)))


def test_prelu() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    layer = nn.PReLU(3, 0.1, dtype=np.float64)
    assert layer.weight.tolist() == [0.1] * 3
    layer.weight.data[...] = [0.1, -2.0, 0.0]
    t = sw.tensor(x, requires_grad=True)
    out = layer(t)
    slopes = np.where(x > 0, 1.0, np.array([0.1, -2.0, 0.0])[:, None])
    np.testing.assert_array_equal(out.data, x * slopes)
    out.sum().backward()
    np.testing.assert_array_equal(t.grad.data, slopes)
    np.testing.assert_allclose(layer.weight.grad.data, np.minimum(x, 0).sum((0, 2)), rtol=1e-14)
    assert nn.PReLU()(sw.tensor([[-4.0], [2.0]])).tolist() == [[-1.0], [2.0]]
    assert nn.PReLU()(sw.tensor(-4.0)).item() == -1.0
    assert message(ShapeError, lambda: F.prelu(sw.ones(2, 3), sw.ones(2))) == (
        "prelu: weight must have shape (1,) or one element per channel, (3,), for input of shape (2, 3); "
        "got (2,)"
    )


def test_rrelu_draws_slopes_between_its_bounds() -> None:
    sw.manual_seed(0)
    layer = nn.RReLU(0.2, 0.6)
    x = sw.tensor(np.r_[-np.ones(4000), np.ones(10)], requires_grad=True)
    out = layer(x)
    out.sum().backward()
    slopes = -out.data[:4000]
    assert 0.2 <= slopes.min() < 0.21
    assert 0.59 < slopes.max() <= 0.6
    assert abs(slopes.mean() - 0.4) < 0.01
    np.testing.assert_array_equal(out.data[4000:], 1.0)
    np.testing.assert_array_equal(x.grad.data, np.r_[slopes, np.ones(10)])
    assert layer(x).tolist() != out.tolist()
    np.testing.assert_allclose(layer.eval()(x).data[:4000], -0.4)
    sw.manual_seed(1)
    whole = F.rrelu(-sw.ones(6, 2), training=True)
    sw.manual_seed(1)
    with row_window(4, 2):
        part = F.rrelu(-sw.ones(2, 2), training=True)
    np.testing.assert_array_equal(whole.data[4:], part.data)


# ---- softmax


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [-1, 0, 1])
def test_softmax(dim: int, dtype: type) -> None:
    x = (np.random.default_rng(0).standard_normal((3, 4, 5)) * 30).astype(dtype)
    wide = x.astype(np.float64)
    assert_close(nn.Softmax(dim)(sw.tensor(x)).data, special.softmax(wide, dim), 5)
    assert_close(nn.LogSoftmax(dim)(sw.tensor(x)).data, special.log_softmax(wide, dim), 5)
    assert_close(nn.Softmin(dim)(sw.tensor(x)).data, special.softmax(-wide, dim), 5)


def test_softmax_of_few_dims_and_other_dtypes() -> None:
    assert F.softmax(sw.tensor(3.0)).item() == 1.0
    assert F.softmax(sw.zeros(0)).shape == (0,)
    assert F.softmax(sw.zeros(2, 0)).shape == (2, 0)
    assert F.softmax(sw.tensor([1, 1]), dtype=np.float32).tolist() == [0.5, 0.5]
    assert F.log_softmax(sw.zeros(4, dtype=np.float16), dtype=np.float64).dtype == np.float64
    images = np.random.default_rng(0).standard_normal((2, 3, 4, 5))
    np.testing.assert_allclose(nn.Softmax2d()(sw.tensor(images)).data, special.softmax(images, 1), rtol=1e-13)
    np.testing.assert_allclose(
        nn.Softmax2d()(sw.tensor(images[0])).data, special.softmax(images[0], 0), rtol=1e-13
    )
    assert message(ShapeError, lambda: nn.Softmax2d()(sw.ones(3))) == (
        "Softmax2d: input must have shape (n, c, h, w) or (c, h, w), got (3,)"
    )
    assert "there is no dim 2 among 2" in message(ShapeError, lambda: F.softmax(sw.ones(2, 2), 2))


def test_gumbel_softmax_samples_the_distribution() -> None:
    sw.manual_seed(3)
    p = np.array([0.1, 0.2, 0.7])
    logits = sw.tensor(np.tile(np.log(p), (20_000, 1)), requires_grad=True)
    hard = F.gumbel_softmax(logits, tau=0.5, hard=True)
    np.testing.assert_allclose(np.sort(hard.data, 1), np.tile([0.0, 0.0, 1.0], (20_000, 1)), atol=1e-15)
    np.testing.assert_allclose(hard.data.mean(0), p, atol=0.015)
    sw.manual_seed(3)
    soft = F.gumbel_softmax(logits, tau=0.5)
    np.testing.assert_allclose(soft.data.sum(1), 1.0)
    np.testing.assert_array_equal(soft.data.argmax(1), hard.data.argmax(1))
    weight = sw.tensor(np.arange(3.0))
    (straight,) = sw.tensor.grad([(hard * weight).sum()], [logits])
    (through,) = sw.tensor.grad([(soft * weight).sum()], [logits])
    np.testing.assert_array_equal(straight.data, through.data)
    assert np.abs(through.data).max() > 0.1
    along = F.gumbel_softmax(sw.zeros(2, 5, 3), hard=True, dim=1)
    np.testing.assert_allclose(along.data.sum(1), 1.0, rtol=1e-6)
    assert F.gumbel_softmax(sw.tensor(0.0), hard=True).item() == 1.0
    assert message(ArgumentError, lambda: F.gumbel_softmax(logits, tau=0)) == (
        "gumbel_softmax: tau must be above 0, got 0"
    )


# ---- gates


def test_glu_and_swiglu() -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 5, 6))
    for dim in (1, -1, 3, -3):
        a, b = np.split(x, 2, dim)
        np.testing.assert_allclose(nn.GLU(dim)(sw.tensor(x)).data, a * special.expit(b), rtol=1e-12)
    a, b = np.split(x, 2, -1)
    np.testing.assert_allclose(F.swiglu(sw.tensor(x)).data, a * special.expit(a) * b, rtol=1e-12)
    np.testing.assert_allclose(
        F.swiglu(sw.tensor(a), sw.tensor(b)).data, a * special.expit(a) * b, rtol=1e-12
    )
    assert message(ShapeError, lambda: F.glu(sw.ones(2, 3))) == (
        "glu: dim -1 must have an even size to be halved; input has (2, 3)"
    )
    assert message(ShapeError, lambda: F.swiglu(sw.tensor(1.0))) == (
        "swiglu: input needs at least one dim to halve, but its shape is ()"
    )
    assert message(ShapeError, lambda: F.swiglu(sw.ones(2), sw.ones(3))) == (
        "swiglu: input of shape (2,) and other of shape (3,) must agree"
    )


def test_swiglu_block() -> None:
    block = nn.SwiGLU(3, 5, dtype=np.float64)
    assert list(block.state_dict()) == ["w1.weight", "w2.weight", "w3.weight"]
    x = np.random.default_rng(0).standard_normal((2, 3))
    gate, up = x @ block.w1.weight.data.T, x @ block.w3.weight.data.T
    want = (gate * special.expit(gate) * up) @ block.w2.weight.data.T
    np.testing.assert_allclose(block(sw.tensor(x)).data, want, rtol=1e-12)
    assert nn.SwiGLU(3, 5, 7, bias=True)(sw.ones(2, 3)).shape == (2, 7)


# ---- in place, arguments, layers

IN_PLACE = [
    "celu", "elu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish", "relu", "relu6", "rrelu",
    "selu", "silu",
]  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name: str) -> None:
    function = getattr(F, name)
    values = np.linspace(-4, 4, 9)
    x = sw.tensor(values)
    want = function(x).tolist()
    memory = x.data
    assert function(x, inplace=True) is x
    assert x.data is memory
    assert x.tolist() == want
    leaf = sw.tensor(values, requires_grad=True)
    function(leaf * 1.0).sum().backward()
    slope, leaf.grad = leaf.grad.tolist(), None
    inner = leaf * 1.0
    assert function(inner, inplace=True) is inner
    assert inner.tolist() == want
    inner.sum().backward()
    assert leaf.grad.tolist() == slope
    assert message(AutogradError, lambda: function(leaf, inplace=True)) == (
        f"{name}: inplace=True cannot write into a leaf that requires grad; leave inplace out, or write "
        "under no_grad()"
    )
    with sw.no_grad():
        assert function(leaf, inplace=True).tolist() == want


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("celu", (2.0,)),
        ("elu", (0.5,)),
        ("hardtanh", (-0.5, 2.0)),
        ("leaky_relu", (0.2,)),
        ("relu", ()),
        ("rrelu", (0.2, 0.4)),
        ("selu", ()),
        ("threshold", (0.5, -7.0)),
    ],
)
def test_in_place_by_name(name: str, arguments: tuple[float, ...]) -> None:
    x = sw.tensor(np.linspace(-4, 4, 9))
    want = getattr(F, name)(x, *arguments).tolist()
    assert getattr(F, f"{name}_")(x, *arguments) is x
    assert x.tolist() == want


def test_in_place_on_a_view_of_the_tape() -> None:
    x = sw.ones(2, 3, requires_grad=True) * 2.0
    row = x[0]
    assert message(AutogradError, lambda: F.relu(row, inplace=True)) == (
        "relu: inplace=True cannot write into a tensor on the tape that shares its memory with a view; leave "
        "inplace out, or clone() it first"
    )
    plain = sw.tensor([[-1.0, 2.0]])
    F.relu(plain[0], inplace=True)
    assert plain.tolist() == [[0.0, 2.0]]


def test_integers() -> None:
    x = sw.tensor([-3, 0, 9])
    assert F.relu(x).tolist() == [0, 0, 9]
    assert F.relu6(x).tolist() == [0, 0, 6]
    assert F.hardtanh(x).tolist() == [-1, 0, 1]
    assert F.threshold(x, 0, 5).tolist() == [5, 5, 9]
    assert {F.relu6(x).dtype, F.hardtanh(x).dtype, F.threshold(x, 1, 2).dtype} == {np.dtype(np.int64)}
    for name in ("elu", "silu", "gelu", "softplus", "leaky_relu", "softmax", "glu", "mish"):
        assert message(DTypeError, lambda name=name: getattr(F, name)(x)).startswith(
            f"{name}: wanted floating tensors of one dtype, got input int64; cast"
        )


def test_refused() -> None:
    x = sw.ones(2)
    assert message(ArgumentError, lambda: F.gelu(x, "erf")) == (  # type: ignore[arg-type]
        "gelu: approximate must be 'none' or 'tanh', got 'erf'"
    )
    assert message(ArgumentError, lambda: F.softshrink(x, -1.0)) == (
        "softshrink: lambd must be at least 0, got -1.0"
    )
    assert message(ArgumentError, lambda: F.celu(x, 0.0)) == "celu: alpha must not be 0"
    assert message(ArgumentError, lambda: F.softplus(x, 0.0)) == "softplus: beta must not be 0"
    assert message(ArgumentError, lambda: F.hardtanh(x, 1.0, 0.0)) == (
        "hardtanh: wanted min_val <= max_val, got 1.0 and 0.0"
    )
    assert message(ArgumentError, lambda: F.rrelu(x, 0.5, 0.25)) == (
        "rrelu: wanted finite lower <= upper, got 0.5 and 0.25"
    )
    turned = sw.tensor([1j])
    assert message(DTypeError, lambda: F.silu(turned)).startswith("silu: input must be real, got complex")
    assert message(DTypeError, lambda: F.relu(turned)).startswith(
        "relu: input must be real numbers, not complex"
    )


@pytest.mark.parametrize(
    ("layer", "shown", "function"),
    [
        (nn.ReLU(), "ReLU()", F.relu),
        (nn.ReLU(inplace=False), "ReLU()", F.relu),
        (nn.ReLU6(), "ReLU6()", F.relu6),
        (nn.Hardtanh(-2.0, 2.0), "Hardtanh(min_val=-2.0, max_val=2.0)", lambda x: F.hardtanh(x, -2.0, 2.0)),
        (nn.Threshold(0.1, 20), "Threshold(threshold=0.1, value=20)", lambda x: F.threshold(x, 0.1, 20)),
        (nn.LeakyReLU(0.2), "LeakyReLU(negative_slope=0.2)", lambda x: F.leaky_relu(x, 0.2)),
        (nn.RReLU().eval(), "RReLU(lower=0.125, upper=0.3333333333333333)", F.rrelu),
        (nn.PReLU(), "PReLU(num_parameters=1)", lambda x: F.leaky_relu(x, 0.25)),
        (nn.ELU(0.5), "ELU(alpha=0.5)", lambda x: F.elu(x, 0.5)),
        (nn.SELU(), "SELU()", F.selu),
        (nn.CELU(0.5), "CELU(alpha=0.5)", lambda x: F.celu(x, 0.5)),
        (nn.GELU(), "GELU(approximate='none')", F.gelu),
        (nn.SiLU(), "SiLU()", F.silu),
        (nn.Mish(), "Mish()", F.mish),
        (nn.Softplus(2), "Softplus(beta=2, threshold=20.0)", lambda x: F.softplus(x, 2)),
        (nn.Softsign(), "Softsign()", F.softsign),
        (nn.LogSigmoid(), "LogSigmoid()", F.logsigmoid),
        (nn.Sigmoid(), "Sigmoid()", F.sigmoid),
        (nn.Tanh(), "Tanh()", F.tanh),
        (nn.Tanhshrink(), "Tanhshrink()", F.tanhshrink),
        (nn.Softshrink(1.0), "Softshrink(1.0)", lambda x: F.softshrink(x, 1.0)),
        (nn.Hardshrink(1.0), "Hardshrink(1.0)", lambda x: F.hardshrink(x, 1.0)),
        (nn.Hardsigmoid(), "Hardsigmoid()", F.hardsigmoid),
        (nn.Hardswish(), "Hardswish()", F.hardswish),
        (nn.Softmax(0), "Softmax(dim=0)", lambda x: F.softmax(x, 0)),
        (nn.LogSoftmax(0), "LogSoftmax(dim=0)", lambda x: F.log_softmax(x, 0)),
        (nn.Softmin(0), "Softmin(dim=0)", lambda x: F.softmin(x, 0)),
        (nn.GLU(0), "GLU(dim=0)", lambda x: F.glu(x, 0)),
    ],
)
def test_layers_are_their_functions(
    layer: nn.Module, shown: str, function: Callable[[sw.Tensor], sw.Tensor]
) -> None:
    x = sw.tensor(np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32) * 3)
    assert repr(layer) == shown
    np.testing.assert_array_equal(layer(x).detach().numpy(), function(x).numpy())


def test_layers_show_that_they_work_in_place() -> None:
    kinds = [nn.ReLU, nn.ReLU6, nn.SELU, nn.SiLU, nn.Mish, nn.Hardsigmoid, nn.Hardswish]
    for kind in kinds:
        assert repr(kind(inplace=True)) == f"{kind.__name__}(inplace=True)"
    assert repr(nn.ELU(inplace=True)) == "ELU(alpha=1.0, inplace=True)"
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 1))
    net(sw.ones(2, 3)).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
