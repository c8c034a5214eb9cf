"""Layers that compute nothing, or give another shape."""

from __future__ import annotations

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.errors import ShapeError


def test_identity_takes_anything() -> None:
    layer = nn.Identity(54, unused=True)
    x = sw.ones(2, requires_grad=True)
    assert layer(x) is x
    assert layer("x") == "x"
    assert repr(layer) == "Identity()"


def test_flatten() -> None:
    x = sw.ones(2, 3, 4, 5)
    assert nn.Flatten()(x).shape == (2, 60)
    assert nn.Flatten(0, 1)(x).shape == (6, 4, 5)
    assert nn.Flatten(-2)(x).shape == (2, 3, 20)
    assert repr(nn.Flatten()) == "Flatten(start_dim=1, end_dim=-1)"
    net = nn.Sequential(nn.Flatten(), nn.Linear(60, 2))
    net(x).sum().backward()
    assert net[1].weight.grad.shape == (2, 60)


def test_unflatten() -> None:
    x = sw.tensor(np.arange(24).reshape(2, 12))
    assert nn.Unflatten(1, (3, 4))(x).shape == (2, 3, 4)
    assert nn.Unflatten(-1, [2, -1])(x).shape == (2, 2, 6)
    np.testing.assert_array_equal(nn.Unflatten(0, (1, 2))(x).numpy(), x.numpy()[None])
    assert repr(nn.Unflatten(1, [3, 4])) == "Unflatten(dim=1, unflattened_size=(3, 4))"
    with pytest.raises(ShapeError):
        nn.Unflatten(1, (5, 3))(x)
