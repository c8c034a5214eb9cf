"""Normalisation against its closed forms, running statistics, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.backend import ShapeArray, plain_formulas
from shardwise.errors import ArgumentError, DTypeError, ModuleError, ShapeError
from shardwise.nn import functional as F
from shardwise.tensor import Tensor, no_grad
from tolerance import assert_near

RNG = np.random.default_rng(0)
DTYPES = [np.float32, np.float64]


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def normalised(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def column(values: np.ndarray, ndim: int) -> np.ndarray:
    return values.reshape(-1, *(1,) * (ndim - 2)).astype(np.float64)


SHAPES = [(5, 3), (4, 3, 6), (2, 3, 4, 5), (1, 3, 2, 2, 3)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_batch_norm(shape: tuple[int, ...], dtype: type[np.floating]) -> None:
    x = (RNG.standard_normal(shape) * 2 + 1).astype(dtype)
    w, b = RNG.standard_normal(3).astype(dtype), RNG.standard_normal(3).astype(dtype)
    mean, var = RNG.standard_normal(3).astype(dtype), RNG.random(3).astype(dtype) + dtype(0.5)
    axes, ndim, count = (0, *range(2, len(shape))), len(shape), math.prod(shape) // 3
    running = sw.tensor(mean), sw.tensor(var)
    out = F.batch_norm(sw.tensor(x), *running, sw.tensor(w), sw.tensor(b), True, 0.25, 1e-3)
    assert out.dtype == dtype
    assert_near(out, normalised(x, axes, 1e-3) * column(w, ndim) + column(b, ndim), count)
    wide = x.astype(np.float64)
    assert_near(running[0], 0.75 * mean + 0.25 * wide.mean(axes), count)
    assert_near(running[1], 0.75 * var + 0.25 * wide.var(axes, ddof=1), count)
    assert running[0].version.count == 1
    known = F.batch_norm(sw.tensor(x), sw.tensor(mean), sw.tensor(var), sw.tensor(w), eps=1e-3)
    scale = column(w, ndim) / np.sqrt(column(var, ndim) + 1e-3)
    assert_near(known, (x - column(mean, ndim)) * scale, 4)
    with plain_formulas():
        assert_near(F.batch_norm(sw.tensor(x), None, None, training=True), normalised(x, axes), count)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 5), (2, 4, 3, 3), (0, 4, 2)])
def test_group_norm(shape: tuple[int, ...], groups: int, dtype: type[np.floating]) -> None:
    x = (RNG.standard_normal(shape) * 2 + 1).astype(dtype)
    w, b = RNG.standard_normal(4).astype(dtype), RNG.standard_normal(4).astype(dtype)
    rows = x.reshape(shape[0], groups, math.prod(shape[1:]) // groups)
    want = normalised(rows, (2,)).reshape(shape) * column(w, len(shape)) + column(b, len(shape))
    assert_near(F.group_norm(sw.tensor(x), groups, sw.tensor(w), sw.tensor(b)), want, rows.shape[2])
    with plain_formulas():
        assert_near(F.group_norm(sw.tensor(x), groups, sw.tensor(w), sw.tensor(b)), want, rows.shape[2])


def test_instance_norm() -> None:
    x, w = RNG.standard_normal((3, 2, 4, 4)), RNG.standard_normal(2)
    mean, var = sw.zeros(2, dtype=np.float64), sw.ones(2, dtype=np.float64)
    assert_near(
        F.instance_norm(sw.tensor(x), mean, var, sw.tensor(w)), normalised(x, (2, 3)) * column(w, 4), 16
    )
    assert_near(mean, 0.1 * x.mean((0, 2, 3)), 48)
    assert_near(var, 0.9 + 0.1 * x.var((2, 3), ddof=1).mean(0), 48)
    known = F.instance_norm(sw.tensor(x), mean, var, use_input_stats=False)
    assert_near(known, (x - column(mean.numpy(), 4)) / np.sqrt(column(var.numpy(), 4) + 1e-5), 4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "dims"), [((4, 6), 1), ((2, 3, 4), 2), ((5,), 1), ((0, 3), 1)])
def test_rms_norm(shape: tuple[int, ...], dims: int, dtype: type[np.floating]) -> None:
    x, w = RNG.standard_normal(shape).astype(dtype), RNG.standard_normal(shape[-dims:]).astype(dtype)
    axes = tuple(range(-dims, 0))
    square = (x.astype(np.float64) ** 2).mean(axes, keepdims=True)
    for eps, used in ((0.1, 0.1), (None, np.finfo(dtype).eps)):
        out = F.rms_norm(sw.tensor(x), shape[-dims:], sw.tensor(w), eps)
        assert out.dtype == dtype
        assert_near(out, x / np.sqrt(square + used) * w, 24)
    layer = nn.RMSNorm(list(shape[-dims:]), eps=0.1, dtype=dtype)
    assert_near(layer(sw.tensor(x)), x / np.sqrt(square + 0.1), 24)


def test_local_response_norm() -> None:
    x = RNG.standard_normal((2, 5, 3, 2))
    for size in (1, 2, 3, 4, 9):
        want = np.empty_like(x)
        for c in range(5):
            near_by = x[:, max(0, c - size // 2) : c + (size - 1) // 2 + 1]
            want[:, c] = x[:, c] / (2.0 + 0.5 / size * (near_by**2).sum(1)) ** 0.6
        assert_near(F.local_response_norm(sw.tensor(x), size, 0.5, 0.6, 2.0), want, size)
        assert_near(nn.LocalResponseNorm(size, 0.5, 0.6, 2.0)(sw.tensor(x)), want, size)


# ---- numerics


@pytest.mark.parametrize("op", ["batch", "group", "instance"])
def test_a_large_mean_does_not_swallow_the_variance(op: str) -> None:
    x = (RNG.standard_normal((16, 4, 32)) + 1000.0).astype(np.float32)
    t = sw.tensor(x)
    if op == "batch":
        out, want = F.batch_norm(t, None, None, training=True), normalised(x, (0, 2))
    elif op == "group":
        out, want = F.group_norm(t, 2), normalised(x.reshape(16, 2, 64), (2,)).reshape(x.shape)
    else:
        out, want = F.instance_norm(t), normalised(x, (2,))
    assert np.abs(out.numpy() - want).max() < 1e-3


def test_nan_spoils_its_channel_only() -> None:
    x = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    x[0, 1, 2] = np.nan
    out = F.batch_norm(sw.tensor(x), None, None, training=True).numpy()
    assert np.isnan(out[:, 1]).all()
    assert not np.isnan(out[:, [0, 2]]).any()
    per_sample = F.instance_norm(sw.tensor(x)).numpy()
    assert np.isnan(per_sample[0, 1]).all()
    assert np.isnan(per_sample).sum() == 4


def test_constant_channels_come_out_as_the_shift() -> None:
    x = np.full((4, 2, 3), 7.0, np.float32)
    b = sw.tensor([0.5, -1.0])
    out = F.batch_norm(sw.tensor(x), None, None, None, b, True)
    np.testing.assert_array_equal(out.numpy(), np.broadcast_to([[[0.5], [-1.0]]], x.shape))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_computed_in_float32(dtype: type[np.generic]) -> None:
    x = (RNG.standard_normal((8, 4, 16)) * 3 + 20).astype(dtype)
    wide = x.astype(np.float64)
    layer = nn.BatchNorm1d(4, dtype=dtype)
    out = layer(sw.tensor(x))
    assert out.dtype == dtype
    assert_near(out, normalised(wide, (0, 2)))
    layer.running_mean, layer.running_var = (
        sw.tensor(wide.mean((0, 2)).astype(dtype)),
        sw.ones(4, dtype=dtype),
    )
    mean = layer.running_mean.numpy().astype(np.float64)
    assert_near(layer.eval()(sw.tensor(x)), (wide - column(mean, 3)) / math.sqrt(1 + 1e-5))
    for got in (F.group_norm(sw.tensor(x), 2), F.rms_norm(sw.tensor(x), 16), F.layer_norm(sw.tensor(x), 16)):
        assert got.dtype == dtype


def test_rows_of_a_batch_in_any_layout() -> None:
    x = RNG.standard_normal((3, 5, 4)).astype(np.float32)
    turned, copy = sw.tensor(x).permute(2, 0, 1), sw.tensor(x.transpose(2, 0, 1).copy())
    for norm in (nn.BatchNorm1d(3), nn.GroupNorm(3, 3), nn.InstanceNorm1d(3), nn.RMSNorm(5)):
        np.testing.assert_array_equal(norm(turned).detach().numpy(), norm(copy).detach().numpy())


# ---- layers


def test_batch_norm_learns_statistics_and_uses_them_outside_training() -> None:
    layer, seen = nn.BatchNorm2d(3, momentum=0.3), []
    mean, var = np.zeros(3), np.ones(3)
    for _ in range(4):
        x = RNG.standard_normal((2, 3, 4, 4)) + 1.0
        seen.append(x)
        layer(sw.tensor(x.astype(np.float32)))
        mean = 0.7 * mean + 0.3 * x.mean((0, 2, 3))
        var = 0.7 * var + 0.3 * x.var((0, 2, 3), ddof=1)
    assert_near(layer.running_mean, mean, 32)
    assert_near(layer.running_var, var, 32)
    assert layer.num_batches_tracked is not None
    assert layer.num_batches_tracked.item() == 4
    layer.eval()
    x = RNG.standard_normal((2, 3, 4, 4)).astype(np.float32)
    assert_near(layer(sw.tensor(x)), (x - column(mean, 4)) / np.sqrt(column(var, 4) + 1e-5), 32)
    assert layer.num_batches_tracked.item() == 4
    assert_near(layer(sw.tensor(x[:1])), (x[:1] - column(mean, 4)) / np.sqrt(column(var, 4) + 1e-5), 32)
    layer.reset_running_stats()
    assert layer.running_mean is not None
    assert (layer.running_mean.tolist(), layer.num_batches_tracked.item()) == ([0.0] * 3, 0)


def test_a_plain_average_in_a_dry_run() -> None:
    layer = nn.BatchNorm1d(2, momentum=None).to("shape")
    assert layer(sw.ones(4, 2).to("shape")).shape == (4, 2)


def test_without_momentum_it_averages_all_batches() -> None:
    layer = nn.BatchNorm1d(2, momentum=None, dtype=np.float64)
    batches = RNG.standard_normal((5, 6, 2))
    for x in batches:
        layer(sw.tensor(x))
    assert_near(layer.running_mean, batches.mean(1).mean(0), 30)
    assert_near(layer.running_var, batches.var(1, ddof=1).mean(0), 30)


def test_without_tracking_the_batch_counts_outside_training_too() -> None:
    layer = nn.BatchNorm1d(2, track_running_stats=False).eval()
    x = RNG.standard_normal((6, 2)).astype(np.float32)
    assert_near(layer(sw.tensor(x)), normalised(x, (0,)), 6)
    assert list(layer.state_dict()) == ["weight", "bias"]


def test_state_has_pytorch_s_names() -> None:
    layer = nn.BatchNorm2d(4)
    assert {name: (t.shape, t.dtype) for name, t in layer.state_dict().items()} == {
        "weight": ((4,), np.float32),
        "bias": ((4,), np.float32),
        "running_mean": ((4,), np.float32),
        "running_var": ((4,), np.float32),
        "num_batches_tracked": ((), np.int64),
    }
    layer(sw.rand(8, 4, 2, 2))
    other = nn.BatchNorm2d(4)
    other.load_state_dict(layer.state_dict())
    for name, value in layer.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[name].numpy(), value.numpy())
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    layer.double()
    assert layer.running_var is not None
    assert layer.num_batches_tracked is not None
    assert (layer.running_var.dtype, layer.num_batches_tracked.dtype) == (np.float64, np.int64)
    assert list(nn.InstanceNorm2d(4).state_dict()) == []
    assert list(nn.GroupNorm(2, 4, bias=False).state_dict()) == ["weight"]
    assert list(nn.BatchNorm1d(4, affine=False).state_dict()) == [
        "running_mean",
        "running_var",
        "num_batches_tracked",
    ]
    with pytest.raises(ModuleError):
        nn.BatchNorm2d(3).load_state_dict(layer.state_dict())


def test_instance_norm_layers() -> None:
    layer = nn.InstanceNorm1d(3, affine=True, track_running_stats=True)
    x = RNG.standard_normal((2, 3, 8)).astype(np.float32)
    assert_near(layer(sw.tensor(x)), normalised(x, (2,)), 8)
    assert_near(layer(sw.tensor(x[0])), normalised(x[0], (1,)), 8)
    layer.eval()
    assert layer.running_mean is not None
    assert layer.running_var is not None
    mean, var = layer.running_mean.numpy(), layer.running_var.numpy()
    assert_near(layer(sw.tensor(x)), (x - column(mean, 3)) / np.sqrt(column(var, 3) + 1e-5), 8)
    assert nn.InstanceNorm2d(3)(sw.rand(3, 4, 4)).shape == (3, 4, 4)
    assert nn.InstanceNorm3d(3)(sw.rand(1, 3, 2, 2, 2)).shape == (1, 3, 2, 2, 2)


def test_how_layers_are_shown() -> None:
    assert repr(nn.BatchNorm1d(3)) == (
        "BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)"
    )
    assert repr(nn.GroupNorm(1, 3)) == "GroupNorm(1, 3, eps=1e-05, affine=True, bias=True)"
    assert repr(nn.RMSNorm(3)) == "RMSNorm((3,), eps=None, elementwise_affine=True)"
    assert repr(nn.LayerNorm([2, 3], bias=False)) == (
        "LayerNorm((2, 3), eps=1e-05, elementwise_affine=True, bias=False)"
    )
    assert repr(nn.LocalResponseNorm(2)) == "LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=1.0)"


def test_resetting_parameters() -> None:
    for layer in (nn.BatchNorm3d(2), nn.GroupNorm(1, 2), nn.LayerNorm(2), nn.InstanceNorm1d(2, affine=True)):
        with no_grad():
            layer.get_parameter("weight").fill_(3.0)
            layer.get_parameter("bias").fill_(3.0)
        layer.reset_parameters()  # type: ignore[operator]
        assert layer.get_parameter("weight").tolist() == [1.0, 1.0]
        assert layer.get_parameter("bias").tolist() == [0.0, 0.0]


def test_a_dry_run_leaves_statistics_alone() -> None:
    layer = nn.BatchNorm2d(3)
    out = layer(Tensor(ShapeArray((4, 3, 2, 2), np.float32)))  # type: ignore[arg-type]
    assert out.shape == (4, 3, 2, 2)
    assert layer.running_mean is not None
    assert layer.running_mean.tolist() == [0.0] * 3


# ---- what is refused


@pytest.mark.parametrize(
    ("kind", "call", "text"),
    [
        (
            ShapeError,
            lambda: nn.BatchNorm1d(3)(sw.ones(1, 3)),
            "batch_norm: training needs more than one value per channel, got an input of shape (1, 3); use "
            "a larger "
            "batch, or eval()",
        ),
        (
            ShapeError,
            lambda: nn.BatchNorm2d(3)(sw.ones(2, 3, 4)),
            "BatchNorm2d: wanted an input of 4 dims, got (2, 3, 4)",
        ),
        (
            ShapeError,
            lambda: nn.BatchNorm2d(3)(sw.ones(2, 4, 2, 2)),
            "batch_norm: weight must have one element per channel, shape (4,), got (3,)",
        ),
        (
            ArgumentError,
            lambda: F.batch_norm(sw.ones(2, 3), None, None),
            "batch_norm: outside training it needs running_mean and running_var",
        ),
        (
            ArgumentError,
            lambda: F.batch_norm(sw.ones(2, 3), sw.ones(3), None, training=True),
            "batch_norm: give both running_mean and running_var, or neither",
        ),
        (
            DTypeError,
            lambda: nn.BatchNorm1d(3)(sw.ones(2, 3, dtype=np.float64)),
            "batch_norm: wanted floating tensors of one dtype, got input float64, weight float32, bias "
            "float32; cast "
            "the data with astype(), or the module with to()",
        ),
        (
            ShapeError,
            lambda: F.instance_norm(sw.ones(2, 3, 1)),
            "instance_norm: needs more than one place per channel, got an input of shape (2, 3, 1)",
        ),
        (
            ArgumentError,
            lambda: F.group_norm(sw.ones(2, 3, 4), 2),
            "group_norm: num_groups must divide 3 channels, got 2",
        ),
        (
            ArgumentError,
            lambda: nn.GroupNorm(2, 3),
            "GroupNorm: num_groups must divide num_channels, got 2 and 3",
        ),
        (
            ShapeError,
            lambda: F.rms_norm(sw.ones(2, 3), (4,)),
            "rms_norm: input of shape (2, 3) does not end in the normalised shape (4,)",
        ),
        (
            ArgumentError,
            lambda: nn.LayerNorm(2.5),  # type: ignore[arg-type]
            "LayerNorm: normalized_shape must be a size or a sequence of sizes, got 2.5",
        ),
        (
            ShapeError,
            lambda: F.local_response_norm(sw.ones(2, 3), 2),
            "local_response_norm: input must have shape (batch, channels, places, ...), got (2, 3)",
        ),
    ],
)
def test_refusals(kind: type[Exception], call: Callable[[], object], text: str) -> None:
    assert message(kind, call) == text
