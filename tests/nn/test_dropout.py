"""Dropout: statistics, determinism, and what its mask does not depend on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.errors import ArgumentError, DTypeError
from shardwise.nn import functional as F


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
