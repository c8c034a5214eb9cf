"""Layers and their functional forms against closed forms of NumPy and SciPy, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special as scipy_special

import shardwise as sw
from shardwise import nn
from shardwise.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from shardwise.nn import functional as F
from tolerance import tolerance

RNG = np.random.default_rng(0)
DTYPES = [np.float32, np.float64]


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def near(got: sw.Tensor, want: Any, length: int = 1) -> None:
    want = np.asarray(want)
    assert got.shape == want.shape
    scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0.0)))
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=0, atol=scale * tolerance(got.dtype, length))


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
    near(layer(sw.tensor(x)), want, 3)
    assert layer(sw.tensor(x)).dtype == dtype
    assert (layer.bias is None) is not bias


@pytest.mark.parametrize(("rows", "inside", "out"), [(2, 0, 3), (0, 2, 3), (2, 3, 0)])
def test_linear_of_nothing(rows: int, inside: int, out: int) -> None:
    layer = nn.Linear(inside, out)
    x = sw.ones(rows, inside, requires_grad=True)
    y = layer(x)
    near(y, np.ones((rows, inside)) @ layer.weight.data.T + layer.bias.data, 3)
    y.sum().backward()
    near(layer.weight.grad, np.full((out, inside), float(rows)))
    near(x.grad, np.ones((rows, out)) @ layer.weight.data, 3)


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
    assert message(ShapeError, lambda: F.linear(x, sw.ones(3))) == (
        "linear: weight must have shape (out, in) and bias (out,); got (3,) and None"
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


# ---- LayerNorm and activations


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
    near(layer(sw.tensor(x.astype(dtype))), want, 5**dims)


def test_layer_norm_refuses() -> None:
    assert message(ShapeError, lambda: nn.LayerNorm(4)(sw.ones(2, 3))) == (
        "layer_norm: x of shape (2, 3) does not end in the normalised shape (4,)"
    )
    assert message(ShapeError, lambda: nn.LayerNorm((2, 3))(sw.ones(3))) == (
        "layer_norm: x of shape (3,) does not end in the normalised shape (2, 3)"
    )
    assert message(ShapeError, lambda: F.layer_norm(sw.ones(2, 3), 3, sw.ones(1))) == (
        "layer_norm: weight must have the normalised shape (3,), got (1,)"
    )
    assert message(DTypeError, lambda: nn.LayerNorm(3)(sw.ones(3, dtype=np.float64))) == (
        "layer_norm: wanted floating tensors of one dtype, got x float64, weight float32, bias float32; "
        "cast the data with astype(), or the module with to()"
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_gelu(dtype: type) -> None:
    x = np.linspace(-8, 8, 101).reshape(1, -1).astype(dtype)
    wide = x.astype(np.float64)
    near(nn.GELU()(sw.tensor(x)), wide * scipy_special.ndtr(wide))
    inner = np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
    near(nn.GELU("tanh")(sw.tensor(x)), 0.5 * wide * (1 + np.tanh(inner)))
    assert message(ArgumentError, lambda: F.gelu(sw.ones(1), "erf")) == (  # type: ignore[arg-type]
        "gelu: approximate must be 'none' or 'tanh', got 'erf'"
    )
    assert message(DTypeError, lambda: F.gelu(sw.tensor([1]))) == (
        "gelu: wanted floating tensors of one dtype, got x int64; cast the data with astype(), or the module "
        "with to()"
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [-1, 0, 1])
def test_softmax_and_relu(dim: int, dtype: type) -> None:
    x = (RNG.standard_normal((3, 4, 5)) * 30).astype(dtype)
    near(F.softmax(sw.tensor(x), dim), scipy_special.softmax(x.astype(np.float64), dim), 5)
    near(F.log_softmax(sw.tensor(x), dim), scipy_special.log_softmax(x.astype(np.float64), dim), 5)
    np.testing.assert_array_equal(nn.ReLU()(sw.tensor(x)).numpy(), np.maximum(x, 0))


# ---- losses


def reference_cross_entropy(logits: np.ndarray, target: np.ndarray, ignore: int) -> np.ndarray:
    axis = 0 if logits.ndim == 1 else 1
    log_p = np.moveaxis(scipy_special.log_softmax(logits.astype(np.float64), axis), axis, -1)
    kept = target != ignore
    picked = np.take_along_axis(log_p, np.where(kept, target, 0)[..., None], -1)[..., 0]
    return np.where(kept, -picked, 0.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(6,), (4, 6), (4, 6, 3), (2, 6, 3, 2)])
@pytest.mark.parametrize("ignore", [-100, 2])
def test_cross_entropy(shape: tuple[int, ...], ignore: int, dtype: type) -> None:
    logits = (RNG.standard_normal(shape) * 5).astype(dtype)
    target = np.asarray(RNG.integers(0, 6, shape[:1] + shape[2:] if len(shape) > 1 else ()))
    if target.ndim and target.size > 2:
        target.ravel()[:2] = ignore, 1
    rows = reference_cross_entropy(logits, target, ignore)
    counted = np.count_nonzero(target != ignore)
    for reduction, want in (("none", rows), ("sum", rows.sum()), ("mean", rows.sum() / max(counted, 1))):
        loss = nn.CrossEntropyLoss(ignore_index=ignore, reduction=reduction)(  # type: ignore[arg-type]
            sw.tensor(logits), sw.tensor(target)
        )
        if counted:
            near(loss, want, max(target.size, 6))
        assert loss.dtype == dtype


def test_cross_entropy_gradient_is_softmax_minus_target() -> None:
    x = sw.tensor(RNG.standard_normal((5, 4)), requires_grad=True)
    target = np.array([0, 3, -100, 2, 2])
    F.cross_entropy(x, sw.tensor(target)).backward()
    want = scipy_special.softmax(x.data, 1)
    want[np.arange(5), np.where(target < 0, 0, target)] -= 1
    want[2] = 0
    near(x.grad, want / 4, 4)


def test_cross_entropy_of_large_logits_and_of_nothing() -> None:
    logits = np.array([[1e4, 0.0], [0.0, 1e4], [-np.inf, 0.0]])
    rows = F.cross_entropy(sw.tensor(logits), sw.tensor([0, 0, 1]), reduction="none")
    assert rows.tolist() == [0.0, 1e4, 0.0]
    ignored = F.cross_entropy(sw.tensor(logits), sw.tensor([-100] * 3))
    assert np.isnan(ignored.item())
    none = F.cross_entropy(sw.zeros(0, 4), sw.zeros(0, dtype=np.int64), reduction="sum")
    assert none.item() == 0.0


def test_cross_entropy_refuses() -> None:
    logits = sw.ones(3, 4)
    assert message(ShapeError, lambda: F.cross_entropy(logits, sw.tensor([0, 1]))) == (
        "cross_entropy: logits of shape (3, 4), which are (n, classes, ...), need a target of shape (3,), "
        "got (2,)"
    )
    assert message(ShapeError, lambda: F.cross_entropy(sw.ones(2, 5, 4), sw.zeros(2, 5, dtype=np.int64))) == (
        "cross_entropy: logits of shape (2, 5, 4), which are (n, classes, ...), need a target of shape "
        "(2, 4), "
        "got (2, 5)"
    )
    assert message(ShapeError, lambda: F.cross_entropy(sw.ones(()), sw.tensor(0))) == (
        "cross_entropy: logits need a dim of classes, but their shape is ()"
    )
    assert message(DTypeError, lambda: F.cross_entropy(logits, sw.ones(3))) == (
        "cross_entropy: the target must be integer classes, not float32; cast with long()"
    )
    assert message(IndexRangeError, lambda: F.cross_entropy(logits, sw.tensor([0, 4, 1]))) == (
        "cross_entropy: target[1] is 4, and the logits have 4 classes: wanted 0 to 3, or ignore_index=-100."
    )
    for call in (
        lambda: F.cross_entropy(logits, sw.tensor([0, 1, 2]), reduction="max"),  # type: ignore[arg-type]
        lambda: F.mse_loss(logits, logits, reduction="max"),  # type: ignore[arg-type]
    ):
        assert message(ArgumentError, call).endswith("reduction must be 'mean', 'sum' or 'none', got 'max'")


def test_mse_loss() -> None:
    a, b = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 4))
    squares = (a - b) ** 2
    near(nn.MSELoss()(sw.tensor(a), sw.tensor(b)), squares.mean(), 12)
    near(nn.MSELoss("sum")(sw.tensor(a), sw.tensor(b)), squares.sum(), 12)
    near(nn.MSELoss("none")(sw.tensor(a), sw.tensor(b)), squares)
    assert message(ShapeError, lambda: F.mse_loss(sw.ones(3), sw.ones(3, 1))) == (
        "mse_loss: x of shape (3,) and target of shape (3, 1) must agree"
    )
