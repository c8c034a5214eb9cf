"""Padding in PyTorch's words, and classes as vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import shardwise as sw
from shardwise.backend import ShapeArray
from shardwise.errors import ArgumentError, DataDependentShapeError, DTypeError, IndexRangeError, ShapeError
from shardwise.nn import functional as F
from shardwise.tensor import Tensor

MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@settings(max_examples=80, deadline=None)
@given(hnp.array_shapes(max_dims=4, max_side=4), st.sampled_from(sorted(MODES)), st.data())
def test_as_numpy(shape: tuple[int, ...], mode: Any, data: st.DataObject) -> None:
    dims = data.draw(st.integers(1, len(shape)))
    limit = {"constant": 3, "replicate": 3, "reflect": -1, "circular": 0}[mode]
    pairs = [
        (data.draw(st.integers(0, most)), data.draw(st.integers(0, most)))
        for most in (limit if limit > 0 else n + limit for n in shape[len(shape) - dims :])
    ]
    x = np.random.default_rng(0).standard_normal(shape)
    widths = [(0, 0)] * (len(shape) - dims) + pairs
    expected = np.pad(x, widths, mode=MODES[mode])  # type: ignore[call-overload]
    t = sw.tensor(x, requires_grad=True)
    padded = F.pad(t, [n for pair in reversed(pairs) for n in pair], mode)
    np.testing.assert_array_equal(padded.detach().data, expected)
    # the adjoint: what is read from a place comes back to it
    places = np.pad(np.arange(x.size).reshape(shape), widths, mode=MODES[mode])  # type: ignore[call-overload]
    weights = np.random.default_rng(1).standard_normal(expected.shape)
    inside = np.pad(np.ones(shape, bool), widths, mode="constant") if mode == "constant" else True
    gradient = np.bincount(places.ravel(), (weights * inside).ravel(), x.size).reshape(shape)
    padded.backward(weights)
    assert t.grad is not None
    np.testing.assert_allclose(t.grad.data, gradient, atol=1e-12)


def test_negative_numbers_cut() -> None:
    t = sw.tensor([1.0, 2.0, 3.0, 4.0])
    assert F.pad(t, (-1, 2), value=9.0).tolist() == [2.0, 3.0, 4.0, 9.0, 9.0]
    assert F.pad(t, (-1, 2), "reflect").tolist() == [2.0, 3.0, 4.0, 3.0, 2.0]
    assert F.pad(t, (-1, 2), "circular").tolist() == [2.0, 3.0, 4.0, 2.0, 3.0]
    assert F.pad(t, (-2, -2)).shape == (0,)
    assert F.pad(t, ()).tolist() == t.tolist()
    assert F.pad(sw.zeros(2, 0), (1, 1), value=1.0).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert F.pad(sw.tensor([True]), (0, 1)).tolist() == [True, False]


@pytest.mark.parametrize(
    ("pad", "options", "kind", "message"),
    [
        ((1,), {}, ShapeError, "a pair of numbers for each of at most 2 dims of shape (2, 3), got (1,)"),
        ((0, 0) * 3, {}, ShapeError, "at most 2 dims of shape (2, 3), got (0, 0, 0, 0, 0, 0)"),
        ((3, 0), {"mode": "reflect"}, ShapeError, "pad: dim 1 of shape (2, 3) cannot be continued by (3, 0) "
         "in mode 'reflect'; wanted at most 2"),
        ((4, 0), {"mode": "circular"}, ShapeError, "in mode 'circular'; wanted at most 3"),
        ((-2, -2), {}, ShapeError, "pad: (-2, -2) cuts more off than dim 1 of shape (2, 3) has"),
        ((1, 1), {"mode": "edge"}, ArgumentError, "pad: the mode must be one of constant, reflect, "
         "replicate, circular; got 'edge'"),
        ((1, 1), {"mode": "reflect", "value": 1.0}, ArgumentError, "mode 'reflect' takes no value, got 1.0"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_named(pad: Any, options: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        F.pad(sw.zeros(2, 3), pad, **options)
    assert message in str(caught.value)


def test_one_hot() -> None:
    classes = np.array([[2, 0], [1, 1]])
    result = F.one_hot(sw.tensor(classes))
    assert result.dtype == np.int64
    np.testing.assert_array_equal(result.data, np.eye(3, dtype=np.int64)[classes])
    assert F.one_hot(sw.tensor(1), 4).tolist() == [0, 1, 0, 0]
    assert F.one_hot(sw.tensor(np.zeros((0, 2), int)), 3).shape == (0, 2, 3)
    hollow = Tensor(ShapeArray((5,), np.int64))  # type: ignore[arg-type]
    assert F.one_hot(hollow, 4).shape == (5, 4)
    with pytest.raises(DataDependentShapeError, match=r"test_padding.py:\d+"):
        F.one_hot(hollow)
    with pytest.raises(
        IndexRangeError, match=r"one_hot: index\[0, 0\] is 2, out of range for dim 2 of size 2"
    ):
        F.one_hot(sw.tensor(classes), 2)
    with pytest.raises(IndexRangeError, match=r"one_hot: index\[1\] is -1"):
        F.one_hot(sw.tensor([0, -1]))
    with pytest.raises(DTypeError, match=r"one_hot: wanted integers, not float32; cast with long\(\)"):
        F.one_hot(sw.zeros(2))
    with pytest.raises(ArgumentError, match="no integers to tell the number of classes from"):
        F.one_hot(sw.tensor(np.zeros(0, int)))
