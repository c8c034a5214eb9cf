"""Layers and their functional forms against closed forms of NumPy and SciPy, in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.errors import DTypeError, IndexRangeError, ShapeError
from shardwise.nn import functional as F
from tolerance import assert_near

RNG = np.random.default_rng(0)
DTYPES = [np.float32, np.float64]


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


# ---- Linear and Embedding


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 5, 3), (0, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(shape: tuple[int, ...], bias: bool, dtype: type) -> None:
    layer = nn.Linear(3, 7, bias=bias, dtype=dtype)
    x = RNG.standard_normal(shape).astype(dtype)
    want = x.astype(np.float64) @ layer.weight.data.T.astype(np.float64)
    if bias:
        want = want + layer.bias.data
    assert_near(layer(sw.tensor(x)), want, 3)
    assert layer(sw.tensor(x)).dtype == dtype
    assert (layer.bias is None) is not bias


@pytest.mark.parametrize(("rows", "inside", "out"), [(2, 0, 3), (0, 2, 3), (2, 3, 0)])
def test_linear_of_nothing(rows: int, inside: int, out: int) -> None:
    layer = nn.Linear(inside, out)
    x = sw.ones(rows, inside, requires_grad=True)
    y = layer(x)
    assert_near(y, np.ones((rows, inside)) @ layer.weight.data.T + layer.bias.data, 3)
    y.sum().backward()
    assert_near(layer.weight.grad, np.full((out, inside), float(rows)))
    assert_near(x.grad, np.ones((rows, out)) @ layer.weight.data, 3)


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 5, 3), (0, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_with_a_single_output(shape: tuple[int, ...], bias: bool) -> None:
    x, weight, shift = RNG.standard_normal(shape), RNG.standard_normal(3), np.asarray(RNG.standard_normal())
    got = F.linear(sw.tensor(x), sw.tensor(weight), sw.tensor(shift) if bias else None)
    assert_near(got, x @ weight + (shift if bias else 0.0), 3)


def test_linear_refuses() -> None:
    x, weight, bias = sw.ones(2, 3), sw.ones(4, 3), sw.ones(4)
    assert message(ShapeError, lambda: F.linear(sw.ones(3, 2), weight)) == (
        "linear: the last dim of input must be 3, the second of weight (4, 3); input has shape (3, 2)"
    )
    assert message(ShapeError, lambda: F.linear(sw.ones(()), weight)) == (
        "linear: the last dim of input must be 3, the second of weight (4, 3); input has shape ()"
    )
    assert message(ShapeError, lambda: F.linear(x, weight, sw.ones(1))) == (
        "linear: weight must have shape (out, in) and bias (out,); got (4, 3) and (1,)"
    )
    assert message(ShapeError, lambda: F.linear(x, sw.ones(3), sw.ones(1))) == (
        "linear: weight must have shape (out, in) and bias (out,); got (3,) and (1,)"
    )
    fix = "; cast the data with astype(), or the module with to()"
    assert message(DTypeError, lambda: F.linear(x.astype(np.float64), weight, bias)) == (
        f"linear: wanted floating tensors of one dtype, got input float64, weight float32, bias float32{fix}"
    )
    integers = sw.tensor([[1, 2, 3]])
    assert message(DTypeError, lambda: F.linear(integers, integers)) == (
        f"linear: wanted floating tensors of one dtype, got input int64, weight int64{fix}"
    )


@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (0,)])
def test_embedding(shape: tuple[int, ...]) -> None:
    layer = nn.Embedding(5, 3, dtype=np.float64)
    index = RNG.integers(0, 5, shape)
    out = layer(sw.tensor(index))
    np.testing.assert_array_equal(out.detach().numpy(), layer.weight.data[index])
    out.sum().backward()
    counts = np.bincount(index.ravel(), minlength=5).astype(np.float64)
    np.testing.assert_array_equal(layer.weight.grad.numpy(), np.repeat(counts[:, None], 3, 1))


def test_embedding_refuses() -> None:
    layer = nn.Embedding(5, 3)
    rest = "and the table has 5 rows: wanted 0 to 4. Check the vocabulary size against the token ids."
    assert message(IndexRangeError, lambda: layer(sw.tensor([[0, 1], [5, 2]]))) == (
        f"embedding: index[1, 0] is 5, {rest}"
    )
    assert message(IndexRangeError, lambda: layer(sw.tensor([0, -1]))) == f"embedding: index[1] is -1, {rest}"
    assert message(DTypeError, lambda: layer(sw.tensor([0.5]))) == (
        "embedding: the index must be integers, not float32; cast with long()"
    )
    assert message(ShapeError, lambda: F.embedding(sw.tensor([0]), sw.ones(3))) == (
        "embedding: weight must have shape (rows, dim), got (3,)"
    )


# ---- LayerNorm


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5,), (2, 5), (2, 3, 5)])
@pytest.mark.parametrize(("affine", "bias"), [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("dims", [1, 2])
def test_layer_norm(shape: tuple[int, ...], affine: bool, bias: bool, dims: int, dtype: type) -> None:
    if dims > len(shape):
        shape = (4, *shape)
    normal = shape[-dims:]
    layer = nn.LayerNorm(normal, eps=1e-3, elementwise_affine=affine, bias=bias, dtype=dtype)
    x = RNG.standard_normal(shape) * 3 + 1
    axes = tuple(range(len(shape) - dims, len(shape)))
    want = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-3)
    for name in ("weight", "bias"):
        p = getattr(layer, name)
        if p is not None:
            value = RNG.standard_normal(normal).astype(dtype)
            p.data[...] = value
            want = want * value if name == "weight" else want + value
    assert (layer.weight is not None, layer.bias is not None) == (affine, affine and bias)
    assert_near(layer(sw.tensor(x.astype(dtype))), want, 5**dims)


def test_layer_norm_refuses() -> None:
    assert message(ShapeError, lambda: nn.LayerNorm(4)(sw.ones(2, 3))) == (
        "layer_norm: input of shape (2, 3) does not end in the normalised shape (4,)"
    )
    assert message(ShapeError, lambda: nn.LayerNorm((2, 3))(sw.ones(3))) == (
        "layer_norm: input of shape (3,) does not end in the normalised shape (2, 3)"
    )
    assert message(ShapeError, lambda: F.layer_norm(sw.ones(2, 3), 3, sw.ones(1))) == (
        "layer_norm: weight must have the normalised shape (3,), got (1,)"
    )
    assert message(DTypeError, lambda: nn.LayerNorm(3)(sw.ones(3, dtype=np.float64))) == (
        "layer_norm: wanted floating tensors of one dtype, got input float64, weight float32, bias float32; "
        "cast the data with astype(), or the module with to()"
    )
