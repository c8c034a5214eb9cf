"""Mixed precision: which op computes in which dtype, and what stays float32."""

from __future__ import annotations

import importlib
import logging
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import shardwise as sw
from shardwise import nn, optim
from shardwise.backend import product
from shardwise.errors import ArgumentError
from shardwise.nn import functional as F
from shardwise.tensor import gradcheck, narrow
from shardwise.tensor.autocast import autocast

BF16 = np.dtype(ml_dtypes.bfloat16)


def make(*shape: int, seed: int = 0) -> sw.Tensor:
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return sw.tensor(values, requires_grad=True)


def rounded(x: sw.Tensor) -> np.ndarray[Any, Any]:
    return x.data.astype(BF16).astype(np.float32)


def test_products_are_narrow_and_sums_wide() -> None:
    x, w, b = make(4, 6), make(5, 6, seed=1), make(5, seed=2)
    with autocast():
        y = F.linear(x, w, b)
        assert (x @ w.T).dtype == BF16
        assert y.dtype == BF16
        assert F.gelu(y).dtype == BF16
        assert y.softmax(-1).dtype == np.float32
        assert F.layer_norm(y, 5).dtype == np.float32
        assert F.cross_entropy(y, sw.tensor([0, 1, 2, 3])).dtype == np.float32
        assert y.sum().dtype == np.float32
        assert (y + b).dtype == np.float32
    assert F.linear(x, w, b).dtype == np.float32
    wanted = rounded(x) @ rounded(w).T + rounded(b)
    np.testing.assert_allclose(y.data.astype(np.float32), wanted, rtol=2**-7, atol=2**-7)


def test_gradients_of_parameters_stay_float32() -> None:
    x, w = make(4, 6), make(5, 6, seed=1)
    with autocast():
        loss = F.cross_entropy(F.linear(x, w), sw.tensor([0, 1, 2, 3]))
    loss.backward()
    assert w.grad is not None
    assert x.grad is not None
    assert w.grad.dtype == x.grad.dtype == np.float32
    x32, w32 = make(4, 6), make(5, 6, seed=1)
    F.cross_entropy(F.linear(x32, w32), sw.tensor([0, 1, 2, 3])).backward()
    assert w32.grad is not None
    np.testing.assert_allclose(w.grad.data, w32.grad.data, rtol=0.05, atol=0.02)


def test_a_network_trains_in_mixed_precision() -> None:
    sw.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 16),
        nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3),
    )  # fmt: skip
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    x, target = make(12, 1, 4, 4).detach(), sw.tensor(np.arange(12) % 3)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        with autocast():
            loss = F.cross_entropy(model(x), target)
        assert loss.dtype == np.float32
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]
    assert {p.dtype for p in model.parameters()} == {np.dtype(np.float32)}


def test_it_is_a_decorator_and_nests() -> None:
    x = make(3, 3)

    @autocast(dtype=np.float16)
    def product_of(x: sw.Tensor) -> sw.Tensor:
        with autocast(enabled=False):
            assert (x @ x).dtype == np.float32
        return x @ x

    assert product_of(x).dtype == np.float16
    assert (x @ x).dtype == np.float32


def test_other_devices_and_dtypes_are_left_alone() -> None:
    x = make(3, 3)
    with autocast("cuda"):
        assert (x @ x).dtype == np.float32
    with autocast():
        wide = x.astype(np.float64)
        assert (wide @ wide).dtype == np.float64


def test_double_precision_is_differentiated_as_ever() -> None:
    a, b = (sw.tensor(t.data.astype(np.float64), requires_grad=True) for t in (make(2, 3), make(3, 2)))
    with autocast():
        assert gradcheck(lambda a, b: (a @ b).softmax(-1), [a, b])


def test_recompute_runs_in_the_same_precision() -> None:
    x, w = make(3, 4), make(4, 4, seed=1)
    grads = []
    for again in (False, True):
        x.grad = w.grad = None
        with autocast():
            y = sw.recompute(lambda: (x @ w).softmax(-1).square()) if again else (x @ w).softmax(-1).square()
        y.sum().backward()
        assert w.grad is not None
        grads.append(w.grad.data.copy())
    np.testing.assert_array_equal(*grads)


def test_bad_arguments_are_named() -> None:
    with (
        pytest.raises(ArgumentError, match="device_type must be 'cpu' or 'cuda', got 'tpu'"),
        autocast("tpu"),
    ):  # type: ignore[arg-type]
        pass
    with (
        pytest.raises(ArgumentError, match="dtype must be float16 or bfloat16, got float32"),
        autocast(dtype="float32"),
    ):
        pass


def test_it_says_where_there_is_no_gain(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("shardwise.tensor.autocast")  # the package has a function of this name
    monkeypatch.setattr(module, "has_bfloat16", lambda: False)
    module.report_products.cache_clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            with autocast():
                pass
    assert len(caplog.records) == 1
    assert "bfloat16 products are computed in float32 here" in caplog.text
    monkeypatch.setattr(module, "has_bfloat16", lambda: True)
    module.report_products.cache_clear()
    caplog.clear()
    with autocast():
        pass
    assert not caplog.records
    importlib.import_module("shardwise.tensor.autocast").report_products.cache_clear()


def test_where_the_processor_can_products_get_16_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrices reach the product unwidened, forward and backward."""
    seen: list[tuple[Any, Any]] = []

    def multiply(a: Any, b: Any) -> Any:
        seen.append((a.dtype, b.dtype))
        return np.matmul(a.astype(np.float32), b.astype(np.float32))

    monkeypatch.setattr(product, "matmul_wide", multiply)
    monkeypatch.setattr(narrow, "has_bfloat16", lambda: True)
    x, w, b = make(4, 6), make(5, 6, seed=1), make(5, seed=2)
    with autocast():
        y = F.linear(x, w, b)
    assert seen == [(BF16, BF16)]
    np.testing.assert_allclose(
        y.data.astype(np.float32), rounded(x) @ rounded(w).T + rounded(b), rtol=2**-7, atol=2**-7
    )
    y.sum().backward()
    assert seen == [(BF16, BF16)] * 3
    assert w.grad is not None
    assert w.grad.dtype == np.float32
