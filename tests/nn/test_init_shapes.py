"""Initial values that depend on a shape: orthogonal, sparse, identities, truncated; gains and fans."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

import shardwise as sw
from shardwise import nn
from shardwise.errors import ArgumentError, ShapeError
from shardwise.nn import init


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize(
    ("mean", "std", "a", "b"),
    [
        (0.0, 1.0, -2.0, 2.0),
        (1.0, 2.0, 4.0, 5.0),
        (0.0, 1.0, 5.0, math.inf),
        (0.0, 0.02, -0.04, 0.04),
        (0.0, 1.0, -math.inf, -4.0),
    ],
)
def test_truncated_normal(mean: float, std: float, a: float, b: float) -> None:
    sw.manual_seed(2)
    t = sw.empty(4000, dtype=np.float64)
    assert init.trunc_normal_(t, mean, std, a, b) is t
    exact = stats.truncnorm((a - mean) / std, (b - mean) / std, mean, std)
    assert stats.kstest(t.numpy(), exact.cdf).pvalue > 0.01
    assert a <= t.numpy().min() <= t.numpy().max() <= b


@pytest.mark.parametrize("shape", [(5, 3, 4), (7, 3), (4, 4)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    q = init.orthogonal_(sw.empty(*shape, dtype=np.float64), gain=2.0).numpy().reshape(shape[0], -1)
    small = q @ q.T if q.shape[0] < q.shape[1] else q.T @ q
    np.testing.assert_allclose(small, 4.0 * np.eye(min(q.shape)), atol=1e-13)


def test_orthogonal_is_uniform_over_rotations() -> None:
    sw.manual_seed(0)
    angles = []
    for _ in range(300):
        q = init.orthogonal_(sw.empty(2, 2, dtype=np.float64)).numpy()
        angles.append(math.atan2(q[1, 0], q[0, 0]))
    assert stats.kstest(angles, stats.uniform(-math.pi, 2 * math.pi).cdf).pvalue > 0.01


def test_sparse() -> None:
    sw.manual_seed(0)
    t = init.sparse_(sw.empty(10, 500, dtype=np.float64), 0.25, std=3.0).numpy()
    assert ((t == 0).sum(0) == 3).all()
    assert abs(t[t != 0].std() - 3.0) < 0.2
    assert ((t == 0).sum(1) > 100).all()  # every row loses some


def test_identities() -> None:
    np.testing.assert_array_equal(init.eye_(sw.empty(2, 3)).numpy(), np.eye(2, 3))
    weight = init.dirac_(sw.empty(4, 3, 5), groups=2).numpy()
    want = np.zeros((4, 3, 5))
    want[[0, 1, 2, 3], [0, 1, 0, 1], 2] = 1.0
    np.testing.assert_array_equal(weight, want)
    assert init.dirac_(sw.empty(2, 2, 3, 3)).numpy()[1, 1, 1, 1] == 1.0


def test_gains() -> None:
    assert [init.calculate_gain(n) for n in ("linear", "conv2d", "sigmoid", "tanh", "selu")] == [
        1.0, 1.0, 1.0, 5 / 3, 0.75,
    ]  # fmt: skip
    assert init.calculate_gain("relu") == math.sqrt(2.0)
    assert init.calculate_gain("leaky_relu") == math.sqrt(2 / (1 + 0.01**2))
    assert init.calculate_gain("leaky_relu", 0.2) == math.sqrt(2 / (1 + 0.2**2))
    assert message(ArgumentError, lambda: init.calculate_gain("swish")).startswith(  # type: ignore[arg-type]
        "calculate_gain: nonlinearity must be one of linear, conv1d"
    )


@pytest.mark.parametrize(("mode", "fan"), [("fan_in", 60), ("fan_out", 120)])
def test_fans_and_nonlinearities(mode: init.Mode, fan: int) -> None:
    sw.manual_seed(0)
    t = sw.empty(40, 20, 3, dtype=np.float64)
    init.kaiming_normal_(t, mode=mode, nonlinearity="tanh")
    assert abs(t.numpy().std() * math.sqrt(fan) / (5 / 3) - 1) < 0.05
    init.kaiming_uniform_(t, a=1.0, mode=mode)
    bound = math.sqrt(3 / fan)
    assert 0.99 * bound < np.abs(t.numpy()).max() <= bound


def test_refused() -> None:
    t = sw.empty(3)
    assert message(ShapeError, lambda: init.eye_(t)) == "eye_ needs a matrix, but the shape is (3,)"
    assert message(ShapeError, lambda: init.dirac_(t)) == (
        "dirac_ needs a weight of 3, 4 or 5 dims, but the shape is (3,)"
    )
    assert message(ArgumentError, lambda: init.dirac_(sw.empty(3, 2, 1), groups=2)) == (
        "dirac_: 3 output channels do not part into 2 groups"
    )
    assert message(ShapeError, lambda: init.orthogonal_(t)) == (
        "orthogonal_ needs at least two dims, but the shape is (3,)"
    )
    assert message(ArgumentError, lambda: init.sparse_(sw.empty(2, 2), 1.5)) == (
        "sparse_: sparsity must be a fraction between 0 and 1, got 1.5"
    )
    assert message(ArgumentError, lambda: init.trunc_normal_(t, a=2.0, b=1.0)) == (
        "trunc_normal_ needs a <= b and std > 0, got a=2.0, b=1.0 and std=1.0"
    )
    assert message(ArgumentError, lambda: init.kaiming_normal_(sw.empty(2, 2), mode="in")) == (  # type: ignore[arg-type]
        "mode must be 'fan_in' or 'fan_out', got 'in'"
    )


def test_without_data_nothing_is_drawn() -> None:
    sw.manual_seed(0)
    first = sw.rand(2).tolist()
    sw.manual_seed(0)
    t = sw.empty(3, 3, device="shape")
    for fill in (init.uniform_, init.normal_, init.trunc_normal_, init.orthogonal_, init.xavier_normal_):
        assert fill(t) is t
    assert init.sparse_(t, 0.5) is t
    assert init.eye_(t).device == "shape"
    assert sw.rand(2).tolist() == first
    assert init.xavier_uniform_(sw.empty(0, 0)).shape == (0, 0)
    assert init.orthogonal_(sw.empty(0, 3)).shape == (0, 3)


def test_skip_init() -> None:
    sw.manual_seed(0)
    first = sw.rand(1).item()
    sw.manual_seed(0)
    layer = nn.skip_init(nn.Linear, 3, 2, bias=False)
    assert sw.rand(1).item() == first  # nothing was drawn
    assert (layer.weight.shape, layer.weight.device, layer.weight.requires_grad) == ((2, 3), "cpu", True)


def test_parameters_as_a_vector() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    vector = nn.parameters_to_vector(net.parameters())
    assert vector.shape == (2 * 3 + 3 + 3 + 1,)
    np.testing.assert_array_equal(vector.data[:6], net[0].weight.data.ravel())
    vector.sum().backward()
    assert net[1].bias.grad.tolist() == [1.0]
    nn.vector_to_parameters(sw.arange(13, dtype=np.float32), net.parameters())
    assert net[0].bias.tolist() == [6.0, 7.0, 8.0]
    assert net[1].bias.tolist() == [12.0]
    assert message(ShapeError, lambda: nn.vector_to_parameters(sw.ones(12), net.parameters())) == (
        "vector_to_parameters: the parameters have 13 elements, so the vector must have shape (13,), "
        "not (12,)"
    )
    assert net[0].bias.tolist() == [6.0, 7.0, 8.0]
