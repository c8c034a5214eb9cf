"""Gradients through tensors without elements."""

from __future__ import annotations

import numpy as np
import pytest

import shardwise as sw


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((0,), (0,)),
        ((0,), (0, 3)),
        ((2, 0), (0,)),
        ((5, 2, 0), (0,)),
        ((0,), (5, 0, 3)),
        ((0, 2), (2,)),
        ((2, 0), (0, 3)),
    ],
)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x = sw.zeros(*a, dtype=np.float64, requires_grad=True)
    w = sw.zeros(*b, dtype=np.float64, requires_grad=True)
    y = x @ w
    assert y.shape == np.matmul(np.zeros(a), np.zeros(b)).shape
    y.sum().backward()
    assert x.grad is not None
    assert w.grad is not None
    assert (x.grad.shape, w.grad.shape) == (a, b)
    assert not x.grad.data.any()
    assert not w.grad.data.any()
