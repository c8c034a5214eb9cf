"""Initial values: bounds, moments, and the seed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.errors import ArgumentError, ShapeError
from shardwise.nn import init

SHAPE = (120, 90, 3)  # fan in 270, fan out 360
N = math.prod(SHAPE)


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("fill", "variance"),
    [
        (lambda t: init.uniform_(t, -2.0, 4.0), 3.0),
        (lambda t: init.xavier_uniform_(t, gain=2.0), 4 * 2 / 630),
        (lambda t: init.kaiming_uniform_(t, a=math.sqrt(5)), 2 / (6 * 270)),
    ],
    ids=["uniform", "xavier", "kaiming"],
)
def test_uniform(fill: Callable[[sw.Tensor], sw.Tensor], variance: float, dtype: type) -> None:
    sw.manual_seed(0)
    t = sw.empty(*SHAPE, dtype=dtype)
    assert fill(t) is t
    half = math.sqrt(3 * variance)
    middle = 1.0 if half == 3.0 else 0.0
    x = (t.numpy().astype(np.float64) - middle) / half
    assert t.dtype == dtype
    assert np.abs(x).max() <= 1 + 1e-6
    assert np.abs(x).max() > 1 - 1e-3
    assert abs(x.mean()) < 5 / math.sqrt(3 * N)
    assert abs(x.var() * 3 - 1) < 5 * math.sqrt(0.8 / N)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("fill", "mean", "std"),
    [
        (lambda t: init.normal_(t, 3.0, 0.5), 3.0, 0.5),
        (lambda t: init.xavier_normal_(t), 0.0, math.sqrt(2 / 630)),
        (lambda t: init.kaiming_normal_(t), 0.0, math.sqrt(2 / 270)),
    ],
    ids=["normal", "xavier", "kaiming"],
)
def test_normal(fill: Callable[[sw.Tensor], sw.Tensor], mean: float, std: float, dtype: type) -> None:
    sw.manual_seed(0)
    t = sw.empty(*SHAPE, dtype=dtype)
    assert fill(t) is t
    x = (t.numpy().astype(np.float64) - mean) / std
    assert abs(x.mean()) < 5 / math.sqrt(N)
    assert abs(x.var() - 1) < 5 * math.sqrt(2 / N)
    assert abs((x**3).mean()) < 5 * math.sqrt(15 / N)
    assert abs((x**4).mean() - 3) < 5 * math.sqrt(96 / N)


def test_constants() -> None:
    t = sw.empty(2, 2)
    assert init.constant_(t, 2.5).tolist() == [[2.5, 2.5]] * 2
    assert init.ones_(t).tolist() == [[1.0, 1.0]] * 2
    assert init.zeros_(t).tolist() == [[0.0, 0.0]] * 2


def test_parameters_are_filled_off_the_tape() -> None:
    p = nn.Parameter(sw.ones(3))
    init.normal_(p)
    assert p.is_leaf
    assert p.requires_grad


def test_layers_start_as_pytorch_s_do() -> None:
    sw.manual_seed(0)
    linear = nn.Linear(16, 400)
    for t in (linear.weight, linear.bias):
        assert 0.24 < np.abs(t.data).max() <= 0.25
        assert abs(t.data.std() * 4 * math.sqrt(3) - 1) < 0.1
    table = nn.Embedding(100, 50).weight.data
    assert abs(table.std() - 1) < 0.05
    norm = nn.LayerNorm(5)
    assert norm.weight.tolist() == [1.0] * 5
    assert norm.bias.tolist() == [0.0] * 5


def test_the_seed_decides() -> None:
    def draw(seed: int) -> list[float]:
        sw.manual_seed(seed)
        return [*nn.Linear(3, 2).weight.detach().numpy().ravel(), *nn.Embedding(2, 2).weight.data.ravel()]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    before = nn.Linear(2, 2)
    first = before.weight.tolist()
    before.reset_parameters()
    assert before.weight.tolist() != first


def test_refused() -> None:
    for fill in (init.xavier_uniform_, init.xavier_normal_, init.kaiming_uniform_, init.kaiming_normal_):
        assert message(ShapeError, lambda f=fill: f(sw.ones(3))) == (
            "fan in and fan out need at least two dims, but the shape is (3,)"
        )
    assert message(ArgumentError, lambda: init.uniform_(sw.ones(1), 2.0, 1.0)) == (
        "uniform_ needs a <= b, got a=2.0 and b=1.0"
    )
    assert (
        message(ArgumentError, lambda: init.normal_(sw.ones(1), 0.0, -1.0))
        == "normal_ needs std >= 0, got -1.0"
    )
