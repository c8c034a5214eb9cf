"""Distances between rows, against NumPy's norms."""

from __future__ import annotations

import numpy as np
import pytest

import shardwise as sw
from shardwise.errors import ArgumentError, ShapeError
from shardwise.tensor import gradcheck, gradgradcheck

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((2, 3, 4)), RNG.standard_normal((5, 4))


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3.5, np.inf])
def test_distances(p: float) -> None:
    expected = np.linalg.norm(A[:, :, None] - B, ord=p, axis=-1)
    np.testing.assert_allclose(sw.cdist(sw.tensor(A), sw.tensor(B), p).data, expected, rtol=1e-12)
    np.testing.assert_allclose(sw.cdist(A, B, p=p), expected, rtol=1e-12)
    flat = np.linalg.norm((A[0, 0] - B).ravel(), ord=p)
    np.testing.assert_allclose(sw.tensor(A[0, 0]).dist(sw.tensor(B), p).data, flat, rtol=1e-12)


@pytest.mark.parametrize("p", [1, 2, 3.5])
def test_gradients(p: float) -> None:
    x, y = sw.tensor(A, requires_grad=True), sw.tensor(B, requires_grad=True)
    assert gradcheck(lambda x, y: sw.cdist(x, y, p), (x, y))
    assert gradgradcheck(lambda x, y: sw.cdist(x, y, p), (x, y))


def test_equal_rows_have_no_gradient() -> None:
    x = sw.tensor(B, requires_grad=True)
    sw.cdist(x, x.detach()[:1]).sum().backward()
    assert x.grad is not None
    assert x.grad[0].tolist() == [0.0] * 4
    assert bool(x.grad.isfinite().all())


def test_none() -> None:
    assert sw.cdist(sw.ones(0, 4), sw.ones(5, 4)).shape == (0, 5)
    assert sw.cdist(sw.ones(2, 0), sw.ones(5, 0)).tolist() == [[0.0] * 5] * 2


def test_wrong_arguments() -> None:
    with pytest.raises(ShapeError) as caught:
        sw.cdist(sw.ones(2, 3), sw.ones(2, 4))
    assert str(caught.value) == "cdist: wanted shapes (..., m, d) and (..., n, d), got (2, 3) and (2, 4)"
    with pytest.raises(ArgumentError, match="cdist: p must be at least 0, got -1"):
        sw.cdist(sw.ones(2, 3), sw.ones(2, 3), p=-1)
