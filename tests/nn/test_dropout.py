"""Dropout: statistics, determinism, and what its mask does not depend on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.errors import ArgumentError, DTypeError, ShapeError
from shardwise.nn import functional as F
from shardwise.tensor import gradcheck, gradgradcheck, row_window


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_statistics(p: float, dtype: type) -> None:
    sw.manual_seed(0)
    n = 100_000
    out = F.dropout(sw.ones(n, dtype=dtype), p).numpy()
    kept = out != 0
    sigma = np.sqrt(p * (1 - p) / n)
    assert abs(kept.mean() - (1 - p)) < 5 * sigma
    np.testing.assert_allclose(out[kept], 1 / (1 - p), rtol=1e-6)
    assert out.dtype == dtype
    pairs = np.mean(kept[1:] & kept[:-1])  # neighbours are independent
    assert abs(pairs - (1 - p) ** 2) < 5 * np.sqrt(p * (1 - p) / n)


def test_the_gradient_has_the_mask() -> None:
    sw.manual_seed(1)
    x = sw.ones(50, 3, requires_grad=True)
    out = F.dropout(x, 0.4)
    (out * 2.0).sum().backward()
    np.testing.assert_allclose(x.grad.data, 2 * out.detach().numpy(), rtol=1e-6)


def test_the_seed_decides_and_every_call_differs() -> None:
    layer, x = nn.Dropout(0.5), sw.ones(40)
    sw.manual_seed(5)
    first, second = layer(x).tolist(), layer(x).tolist()
    sw.manual_seed(5)
    assert (layer(x).tolist(), layer(x).tolist()) == (first, second)
    assert first != second
    sw.manual_seed(6)
    assert layer(x).tolist() != first


def test_the_mask_does_not_depend_on_dtype_or_on_other_layers() -> None:
    def mask(dtype: type, *before: nn.Module) -> np.ndarray:
        sw.manual_seed(2)
        net = nn.Sequential({**{f"l{i}": m for i, m in enumerate(before)}, "drop": nn.Dropout(0.5)})
        return net(sw.ones(64, dtype=dtype)).numpy() != 0

    same = mask(np.float32)
    np.testing.assert_array_equal(mask(np.float64), same)
    np.testing.assert_array_equal(mask(np.float32, nn.ReLU(), nn.GELU()), same)


def test_when_nothing_is_dropped() -> None:
    x = sw.ones(5)
    assert nn.Dropout(0.5).eval()(x) is x
    assert nn.Dropout(0.0)(x) is x
    assert F.dropout(x, 0.5, training=False) is x
    assert nn.Dropout(1.0)(x).tolist() == [0.0] * 5


def test_refused() -> None:
    for p in (-0.1, 1.1, float("nan")):
        assert message(ArgumentError, lambda p=p: nn.Dropout(p)) == (
            f"Dropout: p must be a probability between 0 and 1, got {p}"
        )
        assert message(ArgumentError, lambda p=p: F.dropout(sw.ones(1), p)) == (
            f"dropout: p must be a probability between 0 and 1, got {p}"
        )
    assert message(DTypeError, lambda: F.dropout(sw.tensor([1, 2]))) == (
        "dropout: wanted floating tensors of one dtype, got input int64; cast the data with astype(), or the "
        "module "
        "with to()"
    )


def test_the_tree_is_walked_once_per_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    net = nn.Sequential(*(nn.Dropout(0.5) for _ in range(5)))
    walks = []
    walk = nn.Module.named_modules
    monkeypatch.setattr(nn.Module, "named_modules", lambda self: (walks.append(self), walk(self))[1])
    net(sw.ones(3))
    assert walks == [net]


# ---- channels, and the dropout of SELU

CHANNELS = [(F.dropout1d, (6, 5, 4)), (F.dropout2d, (6, 5, 2, 3)), (F.dropout3d, (6, 5, 2, 2, 3))]


@pytest.mark.parametrize(("function", "shape"), CHANNELS)
def test_whole_channels_are_dropped(function: Callable[..., sw.Tensor], shape: tuple[int, ...]) -> None:
    sw.manual_seed(0)
    x = sw.ones(200, *shape[1:], dtype=np.float64, requires_grad=True)
    out = function(x, 0.4)
    channels = out.detach().numpy().reshape(200, 5, -1)
    kept = channels[:, :, 0] != 0
    np.testing.assert_array_equal(
        channels, np.where(kept, 1 / 0.6, 0.0)[:, :, None] + np.zeros(channels.shape)
    )
    assert abs(kept.mean() - 0.6) < 5 * np.sqrt(0.24 / 1000)
    (out * 2.0).sum().backward()
    np.testing.assert_array_equal(x.grad.data, 2 * out.detach().numpy())
    infinite = function(sw.full(shape, np.inf), 0.5).numpy()
    assert set(infinite.ravel()) == {0.0, np.inf}


@pytest.mark.parametrize(("function", "shape"), CHANNELS)
def test_channels_by_their_place_in_the_global_batch(
    function: Callable[..., sw.Tensor], shape: tuple[int, ...]
) -> None:
    def run(first: int, rows: int) -> np.ndarray:
        sw.manual_seed(4)
        with row_window(first, rows):
            return function(sw.ones(rows, *shape[1:]), 0.5).numpy()

    whole = run(0, 6)
    np.testing.assert_array_equal(run(2, 3), whole[2:5])
    np.testing.assert_array_equal(run(5, 1), whole[5:])


def test_channels_without_a_batch() -> None:
    for function, shape in ((F.dropout1d, (400, 3)), (F.dropout3d, (400, 2, 2, 2))):
        channels = function(sw.ones(*shape), 0.5).numpy().reshape(400, -1)
        assert (channels == channels[:, :1]).all()
        assert 120 < np.count_nonzero(channels[:, 0]) < 280
    rows = F.dropout2d(sw.ones(50, 40, 3), 0.5).numpy()  # as PyTorch: (n, channels, length)
    assert (rows == rows[:, :, :1]).all()
    assert 0 < np.count_nonzero(rows[0, :, 0]) < 40


@pytest.mark.parametrize("p", [0.2, 0.7])
def test_alpha_dropout_keeps_mean_and_variance(p: float) -> None:
    sw.manual_seed(0)
    x = sw.randn(200_000, dtype=np.float64)
    out = nn.AlphaDropout(p)(x).numpy()
    assert abs(out.mean()) < 0.02
    assert abs(out.var() - 1) < 0.03
    values, counts = np.unique(out, return_counts=True)
    limit = -1.7580993408473766
    a = 1 / np.sqrt((1 - p) * (1 + p * limit**2))
    np.testing.assert_allclose(values[counts.argmax()], a * limit - a * p * limit)
    assert abs(counts.max() / out.size - p) < 0.01
    kept = out != values[counts.argmax()]
    np.testing.assert_allclose(out[kept], (a * x.numpy() - a * p * limit)[kept])


def test_alpha_dropout_of_features() -> None:
    sw.manual_seed(0)
    x = sw.randn(300, 4, 5, dtype=np.float64, requires_grad=True)
    out = F.feature_alpha_dropout(x, 0.5, training=True)
    values, counts = np.unique(out.data, return_counts=True)
    dropped = out.data == values[counts.argmax()]
    assert (dropped == dropped[:, :, :1]).all()
    assert 0.4 < dropped.mean() < 0.6
    out.sum().backward()
    slopes = np.unique(x.grad.data)
    assert slopes[0] == 0.0
    assert slopes.size == 2
    np.testing.assert_array_equal(x.grad.data == 0.0, dropped)


def test_gradients_of_channels() -> None:
    for function in (F.dropout1d, F.feature_alpha_dropout, F.alpha_dropout):

        def seeded(x: sw.Tensor, function: Callable[..., sw.Tensor] = function) -> sw.Tensor:
            sw.manual_seed(3)
            return function(x, 0.4, training=True)

        x = sw.randn(2, 3, 2, dtype=np.float64, requires_grad=True)
        assert gradcheck(seeded, [x])
        assert gradgradcheck(seeded, [x])


def test_all_of_them_when_nothing_or_all_is_dropped() -> None:
    x = sw.ones(2, 3, 4)
    for kind in (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout, nn.FeatureAlphaDropout):
        assert kind(0.5).eval()(x) is x
        assert kind(0.0)(x) is x
        assert kind(1.0)(x).tolist() == sw.zeros(2, 3, 4).tolist()
        assert repr(kind(0.25)) == f"{kind.__name__}(p=0.25, inplace=False)"
        assert repr(kind(inplace=True)) == f"{kind.__name__}(p=0.5, inplace=True)"
        own = sw.ones(2, 3, 4)
        assert kind(0.5, inplace=True)(own) is own
        assert own.tolist() != x.tolist()
    assert F.alpha_dropout(x) is x  # training is False there, as in PyTorch
    for function, dims in ((F.dropout1d, "2 or 3"), (F.dropout2d, "3 or 4"), (F.dropout3d, "4 or 5")):
        assert message(ShapeError, lambda function=function: function(sw.ones(3))) == (
            f"{function.__name__}: input must have {dims} dims, got shape (3,)"
        )
    assert message(ShapeError, lambda: F.feature_alpha_dropout(sw.ones(3))) == (
        "feature_alpha_dropout: input must have shape (n, channels, ...), got (3,)"
    )


def test_in_place_on_the_tape() -> None:
    x = sw.ones(50, 3, requires_grad=True)
    hidden = x * 2.0
    out = F.dropout(hidden, 0.5, inplace=True)
    assert out is hidden
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.data, out.detach().numpy())
